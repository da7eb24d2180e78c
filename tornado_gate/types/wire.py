"""Bytes on both sides: what the caller sent and gets, what the upstream is sent and gives."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Literal, Protocol

import orjson

from tornado_gate.types.value import Value, field

Operation = str  # "chat", "models", … : what keys, models and plugins are allowed or able to do


class Route(Value, frozen=True):
    """One method and path that a format serves.

    `path` may hold one or more ``{name}`` segments; the last may match slashes, so that ``/v1/models/{model}`` finds
    ``/v1/models/openai/gpt-4o``. `model` says where the model's name stands: in the body's field ``model``, in the path
    segment ``{model}``, in the query, or nowhere. `wire_format` names the format of the body when providers may speak it too (the
    verbatim lane). Two formats may share a method and path: the one whose `claims` is true of the request's
    headers and query gets it, else the one without `claims`.

    `also` are operations that the route can answer with for models that cannot do `operation`; which one it is for a target
    stands in ``call.operation``. `multipart` says whether a form is taken: not at all, beside JSON, or as the only kind of
    body. `default` says, for a body that names no model, which of conf's ``defaults`` holds; without it that of the operation.
    `socket` routes are upgraded to WebSockets.
    """

    method: str
    path: str
    operation: Operation
    wire_format: str = ""
    model: Literal["body", "path", "query", "none"] = "body"
    claims: Callable[[Mapping[str, str], Mapping[str, str]], bool] | None = None
    also: tuple[Operation, ...] = ()
    multipart: Literal["no", "too", "only"] = "no"
    default: Callable[[Mapping[str, Any]], str] | None = None
    socket: bool = False

    @property
    def operations(self) -> tuple[Operation, ...]:
        """All that the route can be, the usual one first."""
        return (self.operation, *self.also)


class Upload(Protocol):
    """A file of a form, kept on the disk while its request lives. `field` is its name in the form.

    `media_type` and `filename` are what the caller declared, which need not be so; `size` is in bytes.
    """

    @property
    def field(self) -> str: ...
    @property
    def filename(self) -> str: ...
    @property
    def media_type(self) -> str: ...
    @property
    def size(self) -> int: ...

    async def read(self, size: int = -1) -> bytes:
        """The first `size` bytes, or all."""

    def chunks(self) -> AsyncIterator[bytes]:
        """The whole file, in pieces; may be called again."""


class Streamed(Protocol):
    """A body that is sent in pieces, of a length that is known; may be begun again."""

    @property
    def length(self) -> int: ...

    def chunks(self) -> AsyncIterator[bytes]: ...


class WireRequest(Value, frozen=True, kw_only=True):
    """What a caller sent. `headers` are lower-case; `query` holds the last value of each name; keys are in neither.

    `json` is the parsed body ({} where a route has none) and `raw` the bytes it came in. Of a form `json` holds the text
    fields, as strings and, where a name came several times or ends in ``[]``, as arrays of them; `files` are its files, and
    `form` says that it was one.
    """

    route: Route
    path: str
    path_arguments: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    raw: bytes
    json: Mapping[str, Any]
    files: tuple[Upload, ...] = ()
    form: bool = False


class Whole:
    """The chunks of a body that is there already, as one: an async iterator over it that nobody needs to wait for.

    Who knows that a body is whole takes `data` and is spared a chain of iterators and time limits; who does not, iterates.
    """

    __slots__ = ("_given", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._given = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self._given:
            raise StopAsyncIteration
        self._given = True
        return self.data

    async def aclose(self) -> None:
        self._given = True


class Reply(Value, frozen=True, kw_only=True):
    """What the caller gets. Each chunk is written as soon as it comes; chunks end at event borders in a stream.

    `keep_alive` is written between chunks when the upstream is silent (`b": ping\\n\\n"`); empty means never.
    """

    content_type: str
    chunks: AsyncIterator[bytes]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    keep_alive: bytes = b""

    def but(self, chunks: AsyncIterator[bytes]) -> Reply:
        """The same reply with other chunks."""
        return Reply(
            content_type=self.content_type,
            chunks=chunks,
            status=self.status,
            headers=self.headers,
            keep_alive=self.keep_alive,
        )


class UpstreamRequest(Value, frozen=True, kw_only=True):
    """What the default `call_upstream` sends: `json` is encoded by the core, `body` goes as it is, whole or in pieces.

    `context` is for a plugin with a `call_upstream` of its own, which may need no address.
    """

    url: str = ""
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)
    json: Any = None
    body: bytes | Streamed | None = None
    context: Any = None

    def __repr__(self) -> str:
        return f"UpstreamRequest({self.method} {self.url.partition('?')[0]})"  # headers hold keys


class UpstreamResponse(Value, frozen=True, kw_only=True):
    """What the upstream gives. The status is below 400: anything else was raised. `headers` are lower-case."""

    chunks: AsyncIterator[bytes]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    context: Any = None

    def but(self, chunks: AsyncIterator[bytes]) -> UpstreamResponse:
        """The same answer with other chunks."""
        return UpstreamResponse(chunks=chunks, status=self.status, headers=self.headers, context=self.context)

    async def read(self) -> bytes:
        """The whole body."""
        if isinstance(self.chunks, Whole):
            return self.chunks.data
        return b"".join([chunk async for chunk in self.chunks])

    async def json(self) -> Any:
        """The whole body as JSON. Raises ValueError when it is none."""
        return orjson.loads(await self.read())
