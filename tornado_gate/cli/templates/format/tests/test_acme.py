"""The contract of formats for acme, and what it does not cover."""

import asyncio
from typing import Any

import pytest

import tornado_gate_acme
from tornado_gate.errors import InvalidField
from tornado_gate.testing import call_to, load_format, wire_request
from tornado_gate_acme_conformance import TestStream, TestWholeAnswer

__all__ = ["TestStream", "TestWholeAnswer"]


@pytest.mark.parametrize(
    ("body", "param"), [({"ask": 1}, "ask"), ({"ask": "Hello", "stream": "yes"}, "stream"), ({"color": 1}, "color")]
)
def test_errors_name_the_member(body: dict[str, Any], param: str) -> None:
    lane = load_format(tornado_gate_acme)
    with pytest.raises(InvalidField) as raised:
        asyncio.run(lane.translate_request(call_to(), wire_request(lane.routes[0], {"model": "m", **body})))
    assert raised.value.param == param
