"""Calls, bodies, forms and answers of the routes beyond chat, as the core makes them."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from tornado_gate import sse
from tornado_gate.testing import iterate, wire_request
from tornado_gate.types import Route, StreamEvent, UpstreamResponse, WireRequest

SECRET = "sk-target-secret"


@dataclass(frozen=True)
class FakeUpload:
    """An upload that is in memory."""

    data: bytes
    field: str = "file"
    filename: str = "a.mp3"
    media_type: str = "audio/mpeg"

    @property
    def size(self) -> int:
        return len(self.data)

    async def read(self, size: int = -1) -> bytes:
        return self.data if size < 0 else self.data[:size]

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self.data


def wire_of(route: Route, body: Any, **path_arguments: str) -> WireRequest:
    """`body` may be the JSON text itself."""
    return wire_request(route, body, path_arguments=path_arguments)


def form_of(route: Route, fields: Mapping[str, Any], *files: FakeUpload) -> WireRequest:
    return wire_request(route, fields, files=files, form=True)


def done(value: Any) -> Any:
    """What a hook returns, awaited when it is to be."""

    async def wait() -> Any:
        return await value

    return asyncio.run(wait()) if inspect.isawaitable(value) else value


def make_response(chunks: bytes | Iterable[Any], content_type: str = "application/json") -> UpstreamResponse:
    """The upstream's answer; an exception among the chunks is raised in its place."""
    pieces = [chunks] if isinstance(chunks, bytes) else chunks
    headers = {"content-type": content_type} if content_type else {}
    return UpstreamResponse(chunks=iterate(pieces), headers=headers)


def events_of(*events: StreamEvent) -> AsyncIterator[StreamEvent]:
    return iterate(events)


def frames(*events: Any) -> list[bytes]:
    return [sse.render_json(event) for event in events]


def read_frames(raw: bytes) -> list[Any]:
    """The JSON of each frame."""
    return [orjson.loads(frame.removeprefix(b"data: ")) for frame in raw.strip().split(b"\n\n")]
