"""A whole body is parsed and converted where it does not block the event loop."""

from __future__ import annotations

import threading
from typing import Any

import orjson
import pytest

from tornado_gate.errors import UpstreamError
from tornado_gate.testing import chunks_of
from tornado_gate.types import UpstreamResponse
from tornado_gate.types.large_json import WHOLE_BYTES


def convert(body: Any) -> tuple[Any, str]:
    return body["text"], threading.current_thread().name


@pytest.mark.gen_test
@pytest.mark.parametrize("size", [10, WHOLE_BYTES])
async def test_only_a_large_body_is_converted_in_a_thread(size: int) -> None:
    raw = orjson.dumps({"text": "x" * size})
    text, thread = await UpstreamResponse(chunks=chunks_of([raw])).read_converted(convert)
    assert text == "x" * size
    assert (thread == threading.current_thread().name) == (size == 10)


@pytest.mark.gen_test
async def test_a_body_that_is_no_json_names_its_provider() -> None:
    with pytest.raises(UpstreamError, match="'own'"):
        await UpstreamResponse(chunks=chunks_of([b"<"]), provider="own").read_converted(convert)
    with pytest.raises(UpstreamError, match="'given'"):
        await UpstreamResponse(chunks=chunks_of([b"<"]), provider="own").read_converted(convert, "given")
