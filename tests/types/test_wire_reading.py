"""A whole body is parsed and converted where it does not block the event loop."""

from __future__ import annotations

import threading
from typing import Any

import orjson
import pytest

from tornado_gate.errors import UpstreamError
from tornado_gate.http.large_responses import LargeResponses
from tornado_gate.testing import chunks_of
from tornado_gate.types import UpstreamResponse
from tornado_gate.types.wire import WHOLE_BYTES


def convert(body: Any) -> tuple[Any, str]:
    return body["text"], threading.current_thread().name


@pytest.mark.gen_test
@pytest.mark.parametrize("size", [10, WHOLE_BYTES])
async def test_only_a_large_body_is_converted_in_a_thread(size: int) -> None:
    raw = orjson.dumps({"text": "x" * size})
    reader = LargeResponses(10 * WHOLE_BYTES).open_reader("")
    text, thread = await UpstreamResponse(chunks=chunks_of([raw]), reader=reader).read_converted(convert)
    assert text == "x" * size
    assert (thread == threading.current_thread().name) == (size == 10)


@pytest.mark.gen_test
async def test_a_body_that_is_no_json_names_its_provider() -> None:
    with pytest.raises(UpstreamError, match="'own'"):
        await UpstreamResponse(chunks=chunks_of([b"<"]), provider="own").read_converted(convert)
    with pytest.raises(UpstreamError, match="'given'"):
        await UpstreamResponse(chunks=chunks_of([b"<"]), provider="own").read_converted(convert, "given")


@pytest.mark.gen_test
@pytest.mark.parametrize("has_reader", [True, False])
async def test_a_large_body_is_read_with_a_reader_and_without(has_reader: bool) -> None:
    reader = LargeResponses(10 * WHOLE_BYTES).open_reader("") if has_reader else None
    raw = orjson.dumps({"text": "x" * WHOLE_BYTES})

    def respond(body: bytes) -> UpstreamResponse:
        return UpstreamResponse(chunks=chunks_of([body]), provider="own", reader=reader)

    assert len((await respond(raw).read_object())["text"]) == WHOLE_BYTES
    assert (await respond(raw).read_converted(convert))[0] == "x" * WHOLE_BYTES
    for read in (respond(raw[:-1]).read_json(), respond(raw[:-1]).read_converted(convert)):
        with pytest.raises(UpstreamError, match="'own' sent a response that is not valid JSON"):
            await read
    thread = await respond(raw).run(lambda: threading.current_thread().name)
    assert (thread != threading.current_thread().name) == has_reader
