"""Bytes on both sides: what the caller sent and gets, what the upstream is sent and gives."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson

Operation = str  # "chat", "models", … : what keys, models and plugins are allowed or able to do


@dataclass(frozen=True, slots=True)
class Route:
    """One method and path that a format serves.

    `path` may hold one or more ``{name}`` segments; the last may match slashes, so that ``/v1/models/{model}`` finds
    ``/v1/models/openai/gpt-4o``. `model` says where the model's name stands: in the body's field ``model``, in the path
    segment ``{model}``, or nowhere. `wire_format` names the format of the body when providers may speak it too (the
    verbatim lane). Two formats may share a method and path: the one whose `claims` is true of the request's
    headers and query gets it, else the one without `claims`.
    """

    method: str
    path: str
    operation: Operation
    wire_format: str = ""
    model: Literal["body", "path", "none"] = "body"
    claims: Callable[[Mapping[str, str], Mapping[str, str]], bool] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WireRequest:
    """What a caller sent. `headers` are lower-case; `query` holds the last value of each name; keys are in neither.

    `json` is the parsed body ({} where a route has none) and `raw` the bytes it came in.
    """

    route: Route
    path: str
    path_arguments: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    raw: bytes
    json: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What the caller gets. Each chunk is written as soon as it comes; chunks end at event borders in a stream.

    `keep_alive` is written between chunks when the upstream is silent (`b": ping\\n\\n"`); empty means never.
    """

    content_type: str
    chunks: AsyncIterator[bytes]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    keep_alive: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamRequest:
    """What the default `call_upstream` sends: `json` is encoded by the core, `body` goes as it is.

    `context` is for a plugin with a `call_upstream` of its own, which may need no address.
    """

    url: str = ""
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)
    json: Any = None
    body: bytes | None = None
    context: Any = None

    def __repr__(self) -> str:
        return f"UpstreamRequest({self.method} {self.url.partition('?')[0]})"  # headers hold keys


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamResponse:
    """What the upstream gives. The status is below 400: anything else was raised. `headers` are lower-case."""

    chunks: AsyncIterator[bytes]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    context: Any = None

    async def read(self) -> bytes:
        """The whole body."""
        return b"".join([chunk async for chunk in self.chunks])

    async def json(self) -> Any:
        """The whole body as JSON. Raises ValueError when it is none."""
        return orjson.loads(await self.read())
