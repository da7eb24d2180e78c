"""The contract of providers for acme, and what it does not cover."""

import asyncio

import pytest

from tornado_gate.testing import call_to, chat, load_provider
from tornado_gate_acme import Acme
from tornado_gate_acme_conformance import TestChat, TestEmbeddings

__all__ = ["TestChat", "TestEmbeddings"]


@pytest.mark.parametrize("name", Acme.unsupported)
def test_what_the_vendor_rejects_is_removed_and_reported(name: str) -> None:
    lane = load_provider(Acme)
    call = call_to(lane)
    outgoing = asyncio.run(lane.translate_request(call, chat("Hello", **{name: 1})))
    assert isinstance(outgoing.json, dict)
    assert name not in outgoing.json
    assert call.losses == [name]
