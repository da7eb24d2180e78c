"""Ways through the responses route, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import orjson
from format_openai_calls import FakeMemory, call_for, text_of, wire_with

import tornado_gate_openai.format as plugin
from tornado_gate.testing import iterate
from tornado_gate.types import (
    Call,
    ChatRequest,
    Finish,
    PartDelta,
    PartEnd,
    PartStart,
    Reply,
    ResponseStart,
    StreamEvent,
    UpstreamResponse,
    Usage,
    UsageReport,
    VerbatimRequest,
)
from tornado_gate_openai.format.responses import ResponseState

PATH = "/v1/responses"
SDK = {"user-agent": "OpenAI/Python 3.52.0"}
CALLS: list[StreamEvent] = [
    ResponseStart(model="up", id="up-1", created=5),
    PartStart(index=0, kind="tool_call", id="call_1", name="f"),
    PartDelta(index=0, data="{}"),
    PartEnd(index=0),
    Finish(reason="tool_calls"),
]


def make_events(*pieces: str, usage: Usage | None = None) -> list[StreamEvent]:
    """The events of an answer in text."""
    return [
        ResponseStart(model="up", id="up-1", created=5),
        PartStart(index=0, kind="text"),
        *(PartDelta(index=0, data=piece) for piece in pieces),
        PartEnd(index=0),
        UsageReport(usage=usage or Usage(input_tokens=1, output_tokens=2)),
        Finish(reason="stop"),
    ]


def response_call(memory: FakeMemory | None = None, *, key: str = "", **headers: str) -> Call:
    """A call of a client with these headers, underscores for hyphens."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return call_for("m", key=key, memory=memory or FakeMemory(), headers=named)


def body_with(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "input": "Hi", **fields}


def read_request(call: Call, **fields: Any) -> ChatRequest:
    async def translate() -> Any:
        result: Any = plugin.translate_request(call, wire_with(body_with(**fields), PATH))
        return await result

    request = asyncio.run(translate())
    assert isinstance(request, ChatRequest)
    assert isinstance(request.reply_state, ResponseState)
    return request


def replied(call: Call, events: Iterable[Any], **fields: Any) -> Reply:
    return plugin.translate_response(call, read_request(call, **fields), iterate(events))


def whole(call: Call, events: Iterable[Any], **fields: Any) -> dict[str, Any]:
    """The whole answer to a request with these fields."""
    answer: dict[str, Any] = orjson.loads(text_of(replied(call, events, **fields)))
    return answer


def frames(raw: bytes) -> list[dict[str, Any]]:
    """The events of a stream, whose frames' names are their types."""
    found = []
    for frame in raw.removesuffix(b"\n\n").split(b"\n\n"):
        name, data = frame.split(b"\n")
        event = orjson.loads(data.removeprefix(b"data: "))
        assert name == b"event: " + event["type"].encode()
        found.append(event)
    return found


def streamed(call: Call, events: Iterable[Any], **fields: Any) -> list[dict[str, Any]]:
    return frames(text_of(replied(call, events, stream=True, **fields)))


def forwarded(call: Call, body: Any = None, **fields: Any) -> VerbatimRequest:
    async def forward() -> Any:
        result: Any = plugin.forward_request(call, wire_with(body or body_with(**fields), PATH))
        return await result

    request = asyncio.run(forward())
    assert isinstance(request, VerbatimRequest)
    return request


def came_back(call: Call, *pieces: Any, content_type: str, **fields: Any) -> Reply:
    """The reply on the verbatim lane."""
    incoming = UpstreamResponse(chunks=iterate(pieces), headers={"content-type": content_type})
    return plugin.forward_response(call, forwarded(call, **fields), incoming)
