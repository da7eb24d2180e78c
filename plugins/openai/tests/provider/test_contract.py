"""The contract of providers, for chat, sound and forms."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import tornado_gate_openai.provider as plugin
from tornado_gate import ProviderEntry
from tornado_gate.testing import KEY, FakeUpload, ProviderContract, chat
from tornado_gate.types import (
    Finish,
    PartDelta,
    PartEnd,
    PartStart,
    ResponseStart,
    SpeechChunk,
    SpeechEnd,
    SpeechRequest,
    SpeechStart,
    TranscriptionRequest,
    TranscriptionResult,
    Usage,
    UsageReport,
)

FIXTURES = Path(__file__).parent / "fixtures"
ENTRY = ProviderEntry(name="test", base_url="https://upstream.test/v1", api_key=KEY)
WAV = b"RIFF\x24\0\0\0WAVEfmt "


class TestChat(ProviderContract):
    plugin = plugin
    entry = ENTRY
    request = chat("Hello", stream=True, max_tokens=5)
    outgoing: ClassVar[Any] = {
        "model": "upstream-model",
        "messages": [{"role": "user", "content": "Hello"}],
        "max_completion_tokens": 5,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    chunks = ((FIXTURES / "text.chunks").read_bytes(),)
    content_type = "text/event-stream"
    events = (
        ResponseStart(model="gpt-4o-mini", id="chatcmpl-123", created=1694268190),
        PartStart(index=0, kind="text"),
        PartDelta(index=0, data="Hello"),
        PartDelta(index=0, data=" there"),
        PartEnd(index=0),
        Finish(reason="stop", raw="stop"),
        UsageReport(usage=Usage(input_tokens=9, output_tokens=2)),
    )


class TestSpeech(ProviderContract):
    plugin = plugin
    entry = ENTRY
    request = SpeechRequest(model="test-model", text="Hello", voice="alloy", format="mp3")
    call_fields: ClassVar[dict[str, Any]] = {"operation": "speech"}
    outgoing: ClassVar[Any] = {
        "model": "upstream-model",
        "input": "Hello",
        "voice": "alloy",
        "response_format": "mp3",
    }
    chunks = (b"ID3\x04", b"\0\0sound")
    content_type = "audio/mpeg"
    events = (
        SpeechStart(media_type="audio/mpeg"),
        SpeechChunk(data=b"ID3\x04"),
        SpeechChunk(data=b"\0\0sound"),
        SpeechEnd(),
    )


class TestTranscription(ProviderContract):
    plugin = plugin
    entry = ENTRY
    request = TranscriptionRequest(
        model="test-model", audio=FakeUpload(data=WAV, filename="a.wav", media_type="audio/wav"), language="de"
    )
    call_fields: ClassVar[dict[str, Any]] = {"operation": "transcription"}
    outgoing: ClassVar[Any] = {"model": "upstream-model", "response_format": "json", "language": "de", "file": WAV}
    chunks = (b'{"text": "Guten ', b'Tag"}')
    content_type = "application/json"
    events = (TranscriptionResult(text="Guten Tag"),)
