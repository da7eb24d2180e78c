"""What comes down: whole, streamed, or not what it should be. The fixtures have the shapes of the vendor's API reference."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

import tornado_gate_anthropic.provider as plugin
from tornado_gate import ProviderEntry
from tornado_gate.errors import UpstreamError, UpstreamOverloaded
from tornado_gate.streams.events import OrderChecker, collect
from tornado_gate.testing import KEY, ProviderContract, chat
from tornado_gate.types import (
    Call,
    ChatRequest,
    ChatResult,
    CountTokensRequest,
    Finish,
    Opaque,
    PartDelta,
    PartEnd,
    PartStart,
    Request,
    ResponseStart,
    StreamEvent,
    Text,
    Thinking,
    TokenCount,
    ToolCall,
    UpstreamResponse,
    Usage,
    UsageReport,
)

MakeCall = Callable[..., Call]
MakeChat = Callable[..., ChatRequest]

FIXTURES = Path(__file__).parent / "fixtures"
JSON = "application/json"
SSE = "text/event-stream; charset=utf-8"


def recorded(name: str) -> bytes:
    return (FIXTURES / name).read_bytes()


class TestContract(ProviderContract):
    plugin = plugin
    request = chat("Hello", stream=True)
    entry = ProviderEntry(name="test", base_url="http://upstream.test/v1", api_key=KEY)
    outgoing: ClassVar[dict[str, Any]] = {
        "model": "upstream-model",
        "max_tokens": 4096,
        "messages": [{"role": "user", "content": "Hello"}],
        "stream": True,
    }
    chunks = (recorded("text.chunks"),)
    events = (
        ResponseStart(model="claude-sonnet-4-5-20250929", id="msg_1nZdL29xx5MUA1yADyHTEsnR8uuvGzszyY"),
        UsageReport(usage=Usage(input_tokens=25, output_tokens=1)),
        PartStart(index=0, kind="text"),
        PartDelta(index=0, data="Hello"),
        PartDelta(index=0, data="!"),
        PartEnd(index=0),
        UsageReport(usage=Usage(input_tokens=25, output_tokens=15)),
        Finish(reason="stop", raw="end_turn"),
    )


def answer(body: bytes, content_type: str = JSON, size: int = 0) -> UpstreamResponse:
    """An upstream's answer, whole or in pieces of `size` bytes."""

    async def chunks() -> AsyncIterator[bytes]:
        step = size or max(1, len(body))
        for start in range(0, len(body), step):
            yield body[start : start + step]

    return UpstreamResponse(chunks=chunks(), headers={"content-type": content_type} if content_type else {})


async def result_of(call: Call, request: Request, incoming: UpstreamResponse) -> ChatResult:
    """What the events collect to, their order checked."""
    checker = OrderChecker()

    async def checked() -> AsyncIterator[StreamEvent]:
        async for event in plugin.translate_response(call, request, incoming):
            checker.check(event)
            yield event
        assert checker.is_complete()

    return await collect(checked())


@pytest.mark.gen_test
async def test_a_whole_answer_becomes_events(call: MakeCall, chat: MakeChat) -> None:
    result = await result_of(call(), chat(), answer(recorded("tools.json")))
    assert result.choices[0].parts == (
        Thinking(text="The weather.", signature=Opaque(issuer="", value="EqQBCgIYAhIM")),
        Text(text="I look."),
        ToolCall(id="toolu_01A", name="get_weather", arguments='{"location":"Oslo"}'),
    )
    assert (result.id, result.model) == ("msg_01Aq9w938a90dw8q", "claude-sonnet-4-5-20250929")
    assert result.choices[0].reason == "tool_calls"
    assert result.usage == Usage(
        input_tokens=2095,
        output_tokens=503,
        cache_read_tokens=0,
        cache_write_tokens=0,
        extra={"service_tier": "standard"},
    )


@pytest.mark.parametrize("size", [0, 1, 7, 1000])
@pytest.mark.gen_test
async def test_a_stream_is_the_same_however_it_is_cut(call: MakeCall, chat: MakeChat, size: int) -> None:
    result = await result_of(call(), chat(stream=True), answer(recorded("text.chunks"), SSE, size))
    assert result.choices[0].parts == (Text(text="Hello!"),)


@pytest.mark.gen_test
async def test_the_upstreams_own_content_type_decides(call: MakeCall, chat: MakeChat) -> None:
    whole = await result_of(
        call(), chat(stream=True), answer(recorded("tools.json"), "Application/JSON; charset=utf-8")
    )
    streamed = await result_of(call(), chat(), answer(recorded("text.chunks"), SSE))
    assert (whole.choices[0].reason, streamed.choices[0].reason) == ("tool_calls", "stop")


@pytest.mark.parametrize("content_type", ["", "text/plain"])
@pytest.mark.gen_test
async def test_without_a_telling_content_type_the_request_decides(
    call: MakeCall, chat: MakeChat, content_type: str
) -> None:
    await result_of(call(), chat(stream=True), answer(recorded("text.chunks"), content_type))
    await result_of(call(), chat(), answer(recorded("tools.json"), content_type))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"<html>Bad gateway</html>", "sent a response that is not valid JSON"),
        (b"", "sent a response that is not valid JSON"),
        (b'["a"]', "sent a response that is not a JSON object"),
        (b'{"hello": 1}', "not an Anthropic message"),
    ],
)
@pytest.mark.gen_test
async def test_what_is_no_answer_is_a_fault_of_the_upstream(
    call: MakeCall, chat: MakeChat, body: bytes, words: str
) -> None:
    with pytest.raises(UpstreamError, match=words) as caught:
        await result_of(call(), chat(), answer(body))
    assert caught.value.retryable


OVERLOADED = b'{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}'


@pytest.mark.gen_test
async def test_an_error_with_status_200_is_an_error(call: MakeCall, chat: MakeChat) -> None:
    with pytest.raises(UpstreamOverloaded, match="Overloaded"):
        await result_of(call(), chat(), answer(OVERLOADED))
    raw = b"event: error\ndata: " + OVERLOADED + b"\n\n"
    with pytest.raises(UpstreamOverloaded, match="Overloaded"):
        await result_of(call(), chat(stream=True), answer(raw, SSE))


async def counted(call: Call, chat: ChatRequest, body: bytes) -> list[StreamEvent]:
    request = CountTokensRequest(model="sonnet", chat=chat)
    return [event async for event in plugin.translate_response(call, request, answer(body))]


@pytest.mark.gen_test
async def test_a_token_count_is_the_only_event(call: MakeCall, chat: MakeChat) -> None:
    events = await counted(call(), chat(), b'{"input_tokens": 14, "x": 1}')
    assert events == [TokenCount(input_tokens=14, extra={"x": 1})]


@pytest.mark.parametrize("body", [b"{}", b'{"input_tokens": "5"}', b"[]", OVERLOADED])
@pytest.mark.gen_test
async def test_what_is_no_count_is_a_fault_of_the_upstream(call: MakeCall, chat: MakeChat, body: bytes) -> None:
    with pytest.raises(UpstreamError):
        await counted(call(), chat(), body)
