"""Calls, bodies and files for the tests of pictures."""

from __future__ import annotations

import asyncio
import base64
import struct
import zlib
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any

import orjson
import pytest
from format_openai_calls import call_for, text_of

from tornado_gate.errors import InvalidField
from tornado_gate.testing import iterate
from tornado_gate.types import Call, GeneratedImage, ImageRequest, ImageResult, Reply, Upload, WireRequest
from tornado_gate_openai.format import images
from tornado_gate_openai.wire.images import MemoryFile

GENERATIONS, EDITS, VARIATIONS = (route.path for route in images.ROUTES)
FAMILIES = {"one": "dall-e-2", "two": "dall-e-3", "three": "gpt-image-1", "wide": "gpt-image-2", "none": "sdxl"}
"""A model of each."""


def png(width: int = 64, height: int = 64) -> bytes:
    """A whole picture, grey."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    pixels = zlib.compress((b"\0" + b"\x80" * width) * height)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


PNG = png()
B64 = base64.b64encode(PNG).decode()
RESULT = ImageResult(images=(GeneratedImage(data=PNG, media_type="image/png"),))


def file(field: str = "image", data: bytes = PNG, media_type: str = "image/png", name: str = "a.png") -> MemoryFile:
    return MemoryFile(field=field, filename=name, media_type=media_type, data=data)


class Shelf:
    """Where answers' files are kept: the n-th at ``https://gate/media/n``."""

    def __init__(self) -> None:
        self.kept: list[tuple[bytes, str, str]] = []

    async def keep(self, data: bytes | AsyncIterator[bytes], media_type: str, name: str = "") -> str:
        assert isinstance(data, bytes)
        self.kept.append((data, media_type, name))
        return f"https://gate/media/{len(self.kept)}"


def call_of(family: str = "none", **rest: Any) -> Call:
    """A call for a model that is of `family` by its name."""
    return call_for(FAMILIES[family], operation="images", **{"files": Shelf(), **rest})


def wire_of(body: Any, path: str = GENERATIONS, *, files: Sequence[Upload] = (), form: bool = False) -> WireRequest:
    raw = body if isinstance(body, bytes) else orjson.dumps(body)
    return WireRequest(
        route=next(route for route in images.ROUTES if route.path == path),
        path=path,
        path_arguments={},
        query={},
        headers={},
        raw=b"" if form else raw,
        json=orjson.loads(raw),
        files=tuple(files),
        form=form,
    )


def form_of(*files: Upload, path: str = EDITS, **fields: Any) -> WireRequest:
    return wire_of({"prompt": "a cat", **fields}, path, files=files or (file(),), form=True)


def parsed(call: Call, wire: WireRequest) -> ImageRequest:
    return asyncio.run(images.parse(call, wire))


def read_request(family: str = "none", **fields: Any) -> ImageRequest:
    """What a body of the vendor's shape with these fields asks of a model of `family`."""
    return parsed(call_of(family), wire_of({"prompt": "a cat", **fields}))


def fault_of(call: Call, wire: WireRequest) -> InvalidField:
    """Both lanes refuse the request alike."""
    with pytest.raises(InvalidField) as caught:
        parsed(call, wire)
    return caught.value


def catch_refusal(family: str, **fields: Any) -> InvalidField:
    return fault_of(call_of(family), wire_of({"prompt": "a cat", **fields}))


def reply_of(call: Call, request: ImageRequest, events: Iterable[Any] = (RESULT,)) -> Reply:
    return images.reply(call, request, iterate(events))


def answer_of(call: Call, wire: WireRequest, *events: Any) -> Any:
    """The whole answer to a request on the common lane."""
    return orjson.loads(text_of(reply_of(call, parsed(call, wire), events or (RESULT,))))


def frames_in(raw: bytes) -> list[tuple[str, Any]]:
    """The names and the data of a stream's frames."""
    frames = []
    for frame in raw.split(b"\n\n")[:-1]:
        lines = dict(line.split(b": ", 1) for line in frame.split(b"\n"))
        frames.append((lines.get(b"event", b"").decode(), orjson.loads(lines[b"data"])))
    return frames


def items(*contents: Mapping[str, Any], **parameters: Any) -> dict[str, Any]:
    """A body with ``input`` and ``parameters``."""
    body = {"model": "m", "input": {"messages": [{"role": "user", "content": list(contents)}]}}
    return body | ({"parameters": parameters} if parameters else {})


TEXT = {"text": "a cat"}
IMAGE = {"image": "https://example.com/cat.png"}
