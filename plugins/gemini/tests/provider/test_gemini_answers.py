"""What comes back: whole, streamed, counted, or not what it should be."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import orjson
import pytest
from gemini_calls import BASE, EVENTS, FIXTURES, JSON, answer, call_for, result_of

import tornado_gate_gemini.provider as plugin
from tornado_gate import ProviderEntry
from tornado_gate.errors import UpstreamError, UpstreamOverloaded
from tornado_gate.testing import KEY, ProviderContract, chat
from tornado_gate.types import (
    Audio,
    CountTokensRequest,
    Data,
    Finish,
    PartDelta,
    PartEnd,
    PartStart,
    Request,
    ResponseStart,
    Text,
    TokenCount,
    Usage,
    UsageReport,
)


class TestContract(ProviderContract):
    plugin: ClassVar[Any] = plugin
    entry: ClassVar[ProviderEntry] = ProviderEntry(name="test", base_url=BASE, api_key=KEY)
    request: ClassVar[Request] = chat("Hello", stream=True, max_tokens=5)
    outgoing: ClassVar[Any] = {
        "contents": [{"role": "user", "parts": [{"text": "Hello"}]}],
        "generationConfig": {"maxOutputTokens": 5},
    }
    chunks: ClassVar[Any] = [(FIXTURES / "text.chunks").read_bytes()]
    events: ClassVar[Any] = [
        ResponseStart(model="gemini-3-flash", id="r1"),
        UsageReport(usage=Usage(input_tokens=9)),
        PartStart(index=0, kind="text"),
        PartDelta(index=0, data="Hello"),
        UsageReport(usage=Usage(input_tokens=9, output_tokens=2)),
        PartDelta(index=0, data=" there"),
        PartEnd(index=0),
        Finish(reason="stop", raw="STOP"),
    ]


def recorded(name: str, size: int = 0) -> list[bytes]:
    raw = (FIXTURES / name).read_bytes()
    return [raw[start : start + size] for start in range(0, len(raw), size)] if size else [raw]


def array(size: int = 0) -> list[bytes]:
    """The stream as the vendor sends it without ``alt=sse``."""
    frames = (FIXTURES / "text.chunks").read_text(encoding="utf-8").split("\n\n")[:-1]
    raw = ("[" + ",\r\n".join(frame.removeprefix("data: ") for frame in frames) + "\n]\n").encode()
    return [raw[start : start + size] for start in range(0, len(raw), size)] if size else [raw]


@pytest.mark.parametrize("size", [0, 1, 7, 1000])
def test_an_answer_is_the_same_in_every_form_however_it_is_cut(size: int) -> None:
    events = result_of(answer(recorded("text.chunks", size), EVENTS))
    assert events == result_of(answer(array(size), JSON))
    assert events == result_of(answer(recorded("text.chunks", size), ""))
    assert events == result_of(answer(recorded("text.json", size), JSON), chat())
    assert events == result_of(answer(recorded("text.json", size), JSON), chat(stream=True))
    assert events.choices[0].parts == (Text(text="Hello there"),)
    assert events.usage == Usage(input_tokens=9, output_tokens=2)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<html>Bad gateway</html>", "sent a response that is not valid JSON"),
        (b"", "sent a response that is not valid JSON"),
        (b'["a"]', "has no 'candidates'"),
        (b'{"hello": 1}', "has no 'candidates'"),
    ],
)
def test_what_is_no_answer_is_a_fault_of_the_upstream(body: bytes, message: str) -> None:
    with pytest.raises(UpstreamError, match=message) as caught:
        result_of(answer([body]), chat())
    assert caught.value.retryable


@pytest.mark.parametrize("content_type", [JSON, EVENTS])
@pytest.mark.parametrize("stream", [False, True])
def test_an_error_with_status_200_is_an_error(content_type: str, stream: bool) -> None:
    error = b'{"error": {"code": 503, "message": "Overloaded", "status": "UNAVAILABLE"}}'
    raw = b"data: " + error + b"\n\n" if content_type == EVENTS else error
    with pytest.raises(UpstreamOverloaded, match="Overloaded"):
        result_of(answer([raw], content_type), chat(stream=stream))


def test_sound_is_a_file_when_a_file_was_asked_for() -> None:
    body = {
        "candidates": [
            {
                "content": {"parts": [{"inlineData": {"mimeType": "audio/L16;rate=24000", "data": "AAEC"}}]},
                "finishReason": "STOP",
            }
        ]
    }
    for wanted, media_type in (("wav", "audio/wav"), ("pcm16", "audio/L16;rate=24000")):
        request = chat(modalities=("audio",), audio={"voice": "Kore", "format": wanted})
        (part,) = result_of(answer([orjson.dumps(body)]), request).choices[0].parts
        assert isinstance(part, Audio)
        assert isinstance(part.source, Data)
        assert part.source.media_type == media_type


def counted(body: bytes) -> list[Any]:
    async def read() -> list[Any]:
        request = CountTokensRequest(model="m", chat=chat())
        return [event async for event in plugin.translate_response(call_for(), request, answer([body]))]

    return asyncio.run(read())


def test_a_count_is_the_only_event() -> None:
    body = b'{"totalTokens": 31, "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 31}]}'
    details = [{"modality": "TEXT", "tokenCount": 31}]
    assert counted(body) == [TokenCount(input_tokens=31, extra={"promptTokensDetails": details})]


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"totalTokens": true}', b'{"totalTokens": "many"}'])
def test_a_count_that_is_none_is_a_fault_of_the_upstream(body: bytes) -> None:
    with pytest.raises(UpstreamError):
        counted(body)


def test_a_count_that_failed_is_an_error() -> None:
    with pytest.raises(UpstreamOverloaded):
        counted(b'{"error": {"code": 503, "message": "Overloaded"}}')
