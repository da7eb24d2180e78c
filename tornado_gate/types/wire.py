"""Bytes on both sides: what the caller sent and gets, what the upstream is sent and gives."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping
from typing import Any, Literal, Protocol

import orjson

from tornado_gate.errors import UpstreamError
from tornado_gate.types.media_type import media_type
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
    other_operations: tuple[Operation, ...] = ()
    multipart: Literal["no", "too", "only"] = "no"
    default: Callable[[Mapping[str, Any]], str] | None = None
    socket: bool = False

    @property
    def operations(self) -> tuple[Operation, ...]:
        """All that the route can be, the usual one first."""
        return (self.operation, *self.other_operations)


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


class StreamedBody(Protocol):
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


class BufferedBody:
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

    def replace(self, chunks: AsyncIterator[bytes]) -> Reply:
        """The same reply with other chunks."""
        return Reply(
            content_type=self.content_type,
            chunks=chunks,
            status=self.status,
            headers=self.headers,
            keep_alive=self.keep_alive,
        )

    but = replace  # its name until 0.3


class UpstreamRequest(Value, frozen=True, kw_only=True):
    """What the default `call_upstream` sends: `json` is encoded by the core, `body` goes as it is, whole or in pieces.

    `accepted_statuses` are statuses from 300 on that are answers and not errors; of their bodies the core reads 64 KiB at most.
    `redirects` is how many redirects of a GET the core follows. `headers` go to the provider's own host only: scheme, host and
    port of its ``base_url``. `file_types` are beginnings of media types (``("video/",)``) and say that the answer is a file. A
    file may lie on another host, at first or by a redirect: the core's fetcher reads it there, without `headers`, from public
    addresses only. A file of any length comes in chunks, at the reader's pace; for a `VideoDownload` only the gaps between them
    are limited (``timeouts.gap``), not the total.

    `context` is for a plugin with a `call_upstream` of its own, which may need no address.
    """

    url: str = ""
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)
    json: Any = None
    body: bytes | StreamedBody | None = None
    context: Any = None
    accepted_statuses: Collection[int] = ()
    redirects: int = 0
    file_types: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"UpstreamRequest({self.method} {self.url.partition('?')[0]})"  # headers hold keys


class UpstreamResponse(Value, frozen=True, kw_only=True):
    """What the upstream gives. The status is below 300 or one of the request's `accepted_statuses`: any other was raised.

    `headers` are lower-case. `provider` is the name of the provider entry, for error messages.
    """

    chunks: AsyncIterator[bytes]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    context: Any = None
    provider: str = ""

    @property
    def media_type(self) -> str:
        """What the Content-Type header says, in lower case and without parameters; "" without one."""
        return media_type(self.headers.get("content-type", ""))

    def is_event_stream(self, *, otherwise: bool = False) -> bool:
        """Whether the body is server-sent events; `otherwise` where the header says neither that nor JSON.

        The header counts for more than what was asked for: some upstreams answer a stream with a whole body.
        """
        declared = self.media_type
        return (otherwise and declared != "application/json") or declared == "text/event-stream"

    def replace(self, chunks: AsyncIterator[bytes]) -> UpstreamResponse:
        """The same answer with other chunks."""
        return UpstreamResponse(
            chunks=chunks, status=self.status, headers=self.headers, context=self.context, provider=self.provider
        )

    but = replace  # its name until 0.3

    async def read(self) -> bytes:
        """The whole body."""
        if isinstance(self.chunks, BufferedBody):
            return self.chunks.data
        return b"".join([chunk async for chunk in self.chunks])

    async def read_json(self) -> Any:
        """The whole body as JSON. Raises UpstreamError when it is none."""
        return parse_json(await self.read(), self.provider)

    async def read_object(self) -> dict[str, Any]:
        """The whole body as a JSON object. Raises UpstreamError when it is none."""
        return require_object(await self.read_json(), self.provider)

    async def json(self) -> Any:
        """Alias of `read_json`; it goes with version 0.3."""
        return await self.read_json()


def parse_json(body: bytes | memoryview, provider: str = "") -> Any:
    """The JSON in an upstream's body. `provider` is its name for the message. Raises UpstreamError."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise UpstreamError(f"{describe_provider(provider)} sent an answer that is not JSON.") from error


def require_object(value: Any, provider: str = "") -> dict[str, Any]:
    """`value`, which must be a JSON object. Raises UpstreamError."""
    if not isinstance(value, dict):
        raise UpstreamError(f"{describe_provider(provider)} sent an answer that is not a JSON object.")
    return value


def describe_provider(provider: str) -> str:
    """A provider as the subject of an error message."""
    return f"The provider '{provider}'" if provider else "The upstream"
