"""Requests for vectors, pictures and speech, and the events of their answers."""

from __future__ import annotations

import asyncio
import base64
import struct
import zlib
from typing import Any

import orjson
from gemini_calls import JSON, answer, call_for, translate_request

import tornado_gate_gemini.provider as plugin
from tornado_gate.streams.events import OrderChecker
from tornado_gate.types import Request

EMBEDDING, IMAGEN, TTS, NEW_TTS = (
    "gemini-embedding-001",
    "imagen-4.0-generate-001",
    "gemini-2.5-flash-tts",
    "gemini-3.8-flash-tts",
)
PICTURES, OLD_PICTURES = "gemini-3-pro-image-preview", "gemini-2.5-flash-image"


def png(width: int = 1, height: int = 1) -> bytes:
    def block(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + block(b"IHDR", header) + block(b"IDAT", zlib.compress(b"\0\0")) + block(b"IEND", b"")


PNG = base64.b64encode(png()).decode()


def body_of(request: Request, model: str, losses: list[str] | None = None) -> Any:
    call = call_for(model)
    outgoing = translate_request(request, call)
    assert call.losses == (losses or [])
    return outgoing.json


def events_of(request: Request, pieces: list[bytes], model: str, content_type: str = JSON) -> list[Any]:
    """The events, their order checked."""

    async def read() -> list[Any]:
        checker = OrderChecker()
        events: list[Any] = []
        async for event in plugin.translate_response(call_for(model), request, answer(pieces, content_type)):
            checker.check(event)
            events.append(event)
        assert checker.is_complete()
        return events

    return asyncio.run(read())


def json_of(value: Any) -> list[bytes]:
    return [orjson.dumps(value)]


def candidate(*parts: Any, reason: str = "STOP", **more: Any) -> Any:
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, "finishReason": reason}], **more}


def inline(data: bytes, media_type: str) -> Any:
    return {"inlineData": {"mimeType": media_type, "data": base64.b64encode(data).decode()}}
