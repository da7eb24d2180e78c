"""What comes down: whole, streamed, or not what it should be. The fixtures have the shapes of OpenAI's API reference."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pluggy
import pytest

import tornado_gate_openai.provider as plugin
from tornado_gate.errors import UpstreamError, UpstreamRateLimited
from tornado_gate.hookspecs import PROVIDER_PROJECT, ProviderSpec
from tornado_gate.streams.events import OrderChecker, collect
from tornado_gate.types import (
    Audio,
    Call,
    ChatRequest,
    ChatResult,
    Data,
    Request,
    StreamEvent,
    Text,
    ToolCall,
    UpstreamResponse,
    Usage,
)

MakeCall = Callable[..., Call]
MakeChat = Callable[..., ChatRequest]

FIXTURES = Path(__file__).parent / "fixtures"
JSON = "application/json"
SSE = "text/event-stream; charset=utf-8"


def answer(body: bytes, content_type: str = JSON, size: int = 0) -> UpstreamResponse:
    """An upstream's answer, whole or in pieces of `size` bytes."""

    async def chunks() -> AsyncIterator[bytes]:
        step = size or max(1, len(body))
        for start in range(0, len(body), step):
            yield body[start : start + step]

    return UpstreamResponse(chunks=chunks(), headers={"content-type": content_type} if content_type else {})


def recorded(name: str) -> bytes:
    return (FIXTURES / name).read_bytes()


async def result_of(call: Call, request: Request, incoming: UpstreamResponse) -> ChatResult:
    """What the events collect to, their order checked."""
    checker = OrderChecker()

    async def checked() -> AsyncIterator[StreamEvent]:
        async for event in plugin.translate_response(call, request, incoming):
            checker.check(event)
            yield event
        assert checker.is_complete()

    return await collect(checked())


def only_part(result: ChatResult) -> object:
    (choice,) = result.choices
    (part,) = choice.parts
    return part


def test_the_plugin_meets_the_specification_of_providers() -> None:
    manager = pluggy.PluginManager(PROVIDER_PROJECT)
    manager.add_hookspecs(ProviderSpec)
    manager.register(plugin)
    manager.check_pending()
    hooks = {caller.name for caller in manager.get_hookcallers(plugin) or []}
    for_models = {"configure", "translate_request", "call_upstream", "translate_response"}
    assert hooks == {*for_models, "list_vendors", "list_models"}


@pytest.mark.gen_test
async def test_a_whole_answer_becomes_events(call: MakeCall, chat: MakeChat) -> None:
    result = await result_of(call(), chat(), answer(recorded("text.json")))
    part = only_part(result)
    assert isinstance(part, Text)
    assert part.text == "Hello! How can I assist you today?"
    assert (result.id, result.model, result.created) == (
        "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT",
        "gpt-4o-2024-08-06",
        1741569952,
    )
    assert result.choices[0].reason == "stop"
    assert result.usage is not None
    assert (result.usage.input_tokens, result.usage.output_tokens) == (19, 10)


@pytest.mark.parametrize("size", [0, 1, 7, 1000])
@pytest.mark.gen_test
async def test_a_stream_is_the_same_however_it_is_cut(call: MakeCall, chat: MakeChat, size: int) -> None:
    result = await result_of(call(), chat(stream=True), answer(recorded("text.chunks"), SSE, size))
    assert only_part(result) == Text(text="Hello there")
    assert result.model == "gpt-4o-mini"
    assert result.usage == Usage(input_tokens=9, output_tokens=2)


@pytest.mark.gen_test
async def test_a_streamed_tool_call_keeps_its_arguments_as_they_were_written(call: MakeCall, chat: MakeChat) -> None:
    result = await result_of(call(), chat(stream=True), answer(recorded("tool_call.chunks"), SSE))
    assert only_part(result) == ToolCall(id="call_1", name="get_weather", arguments='{"city": "Oslo"}')
    assert result.choices[0].reason == "tool_calls"
    assert result.usage is None


@pytest.mark.gen_test
async def test_a_whole_answer_to_a_streaming_request_works_too(call: MakeCall, chat: MakeChat) -> None:
    result = await result_of(
        call(), chat(stream=True), answer(recorded("text.json"), "Application/JSON; charset=utf-8")
    )
    assert result.choices[0].reason == "stop"


@pytest.mark.gen_test
async def test_a_stream_that_nobody_asked_for_works_too(call: MakeCall, chat: MakeChat) -> None:
    result = await result_of(call(), chat(), answer(recorded("text.chunks"), SSE))
    assert only_part(result) == Text(text="Hello there")


@pytest.mark.parametrize("content_type", ["", "text/plain"])
@pytest.mark.gen_test
async def test_without_a_telling_content_type_the_request_decides(
    call: MakeCall, chat: MakeChat, content_type: str
) -> None:
    streamed = await result_of(call(), chat(stream=True), answer(recorded("text.chunks"), content_type))
    whole = await result_of(call(), chat(), answer(recorded("text.json"), content_type))
    assert len(streamed.choices) == len(whole.choices) == 1


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<html>Bad gateway</html>", "'ours' sent a response that is not valid JSON"),
        (b"", "'ours' sent a response that is not valid JSON"),
        (b'["a"]', "'ours' sent a response that is not a JSON object"),
        (b'{"hello": 1}', "without chat completion choices"),
        (b'{"choices": []}', "without chat completion choices"),
    ],
)
@pytest.mark.gen_test
async def test_what_is_no_answer_is_a_fault_of_the_upstream(
    call: MakeCall, chat: MakeChat, body: bytes, message: str
) -> None:
    with pytest.raises(UpstreamError, match=message) as caught:
        await result_of(call(), chat(), answer(body))
    assert caught.value.retryable


@pytest.mark.gen_test
async def test_an_error_with_status_200_is_an_error(call: MakeCall, chat: MakeChat) -> None:
    body = b'{"error": {"message": "Slow down.", "type": "rate_limit_error", "code": 429}}'
    with pytest.raises(UpstreamRateLimited, match="Slow down"):
        await result_of(call(), chat(), answer(body))
    with pytest.raises(UpstreamRateLimited, match="Slow down"):
        await result_of(call(), chat(stream=True), answer(body))


@pytest.mark.gen_test
async def test_an_error_inside_a_stream_ends_it(call: MakeCall, chat: MakeChat) -> None:
    beginning = b"".join(frame + b"\n\n" for frame in recorded("text.chunks").split(b"\n\n")[:2])
    broken = beginning + b'data: {"error": {"message": "The server had an error."}}\n\n'
    with pytest.raises(UpstreamError, match="The server had an error"):
        await result_of(call(), chat(stream=True), answer(broken, SSE))


@pytest.mark.gen_test
async def test_sound_has_the_media_type_that_was_asked_for(call: MakeCall, chat: MakeChat) -> None:
    body = (
        b'{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"finish_reason":"stop",'
        b'"message":{"role":"assistant","content":null,"audio":{"id":"a1","data":"AAAA","transcript":"Hi"}}}]}'
    )
    request = chat(modalities=("text", "audio"), audio={"voice": "alloy", "format": "mp3"})
    part = only_part(await result_of(call(), request, answer(body)))
    assert isinstance(part, Audio)
    assert part.source == Data(media_type="audio/mpeg", base64="AAAA")
