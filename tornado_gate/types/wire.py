"""Requests and responses on the wire, between caller and gateway and between gateway and upstream."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Final, Literal, Protocol, TypeVar

import orjson

from tornado_gate.errors import UpstreamError
from tornado_gate.types.media_type import media_type
from tornado_gate.types.message_sockets import OpenMessageSocket
from tornado_gate.types.text_maps import TextMap
from tornado_gate.types.upstream_objects import ObjectReference
from tornado_gate.types.value import Value, field

T = TypeVar("T")

OPERATIONS = frozenset(
    {
        "admin",
        "chat",
        "count_tokens",
        "embeddings",
        "image_edits",
        "images",
        "models",
        "moderation",
        "realtime",
        "speech",
        "transcription",
        "videos",
    }
)
"""The operations of the vocabulary; "admin" is /admin/v1, for keys of administrators. A plugin may define others."""
Operation = str  # "chat", "models", …: keys are permitted, and models and plugins support, a set of operations


class Route(Value, frozen=True):
    """One `method` (``POST``) and path that a format serves.

    `path` may contain ``{name}`` segments; the last one may match slashes, so that ``/v1/models/{model}`` matches
    ``/v1/models/openai/gpt-4o``. `model` is the place of the model's name: the body's field ``model``, the path segment
    ``{model}``, the query, or none. `wire_format` names the body's format if providers may accept it (the verbatim lane). Two
    formats may share a method and path: a request goes to the format whose `claims` returns true for its headers and query, else
    to the format without `claims`.

    `other_operations` are alternatives for models that do not support `operation`; ``call.operation`` is the target's operation.
    `multipart`: forms are not accepted ("no"), accepted besides JSON ("too"), or the only accepted body ("only"). `default`
    selects the key of conf's ``defaults`` for a body without a model; without it, the key is the operation. `other_defaults` are
    the keys besides the operation that it may return; without them, names in ``defaults`` are not checked. `socket` routes are
    upgraded to WebSockets. A route with `messages` is served over HTTP and also over WebSocket (a GET with ``Upgrade: websocket``
    for the same path): each message is one request of this route (`types/message_sockets.py`). `prompt_prefix` returns the JSON
    values of a body that stay the same through a conversation: instructions, tools, first message. `references` lists the ids of
    objects at an upstream that a request contains. The body that both get is not checked yet. `empty_body`: a request without a
    body counts as one with an empty object. `keep_alive` returns the bytes that keep a stream alive before its first event, b""
    for a request without a stream of server-sent events (header ``x-gate-stream: ping=15``). `texts` declares the texts of its
    bodies; without it, guards cannot review its requests. `other_models` are the places in its bodies, or in a session's
    messages, that name models beside the request's own, such as ``tools.*.model``, in lower case without underscores: a key that
    is limited to certain models must allow these too. `answer_limits` are the places in a body that limit the tokens of a
    response, such as ``max_tokens`` or ``options.max_tokens``. `answer_counts` are places that request several responses, each
    up to this limit. Both serve to estimate the usage of a request. One of `signature_marks` occurs in every body that has a
    signature of an upstream, or encrypted reasoning.

    `key`: whether a request needs an API key. Only a GET route with ``model="none"`` may do without, "none" or "optional": for a
    request without a key `translate_request` must return a complete `Reply`, because no key pays for anything else or limits it.
    `content_types` are media types of bodies that are accepted besides JSON, in lower case: see `WireRequest.plain`.
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
    references: Callable[[Any, WireRequest], Sequence[ObjectReference]] | None = None  # the first argument is the Call
    empty_body: bool = False
    other_defaults: tuple[str, ...] = ()
    messages: OpenMessageSocket | None = None
    keep_alive: Callable[[WireRequest], bytes] | None = None
    prompt_prefix: Callable[[Any], Sequence[Any]] | None = None
    texts: TextMap | None = None
    key: Literal["required", "optional", "none"] = "required"
    content_types: tuple[str, ...] = ()
    other_models: tuple[str, ...] = ()
    answer_limits: tuple[str, ...] = ()
    answer_counts: tuple[str, ...] = ()
    signature_marks: tuple[bytes, ...] = ()

    @property
    def operations(self) -> tuple[Operation, ...]:
        """Return `operation`, then `other_operations`."""
        return (self.operation, *self.other_operations)


class Upload(Protocol):
    """A file of a form, stored on disk until the end of its request. `field` is its name in the form.

    `media_type` and `filename` are the caller's declarations, which may be wrong; `size` is in bytes.
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
        """Return the first `size` bytes, or all for -1."""

    def chunks(self) -> AsyncIterator[bytes]:
        """Yield the file in chunks; may be called again."""


class StreamedBody(Protocol):
    """A request body of known `length` in bytes, sent in chunks. `chunks` may be called again, for a retry."""

    @property
    def length(self) -> int: ...

    def chunks(self) -> AsyncIterator[bytes]: ...


class WireRequest(Value, frozen=True, kw_only=True):
    """A caller's request of `route` at `path`; `path_arguments` are the named segments of the path.

    `headers` have lower-case names; `query` holds the last value of each name; API keys are removed. `query_lists` holds all
    values of the names that end in ``[]``, as SDKs send arrays.

    `json` is the parsed body ({} for a route without a body) and `raw` its bytes. For a form, `form` is true, `files` are its
    files and `json` holds its text fields: strings, or arrays of strings for names that occur several times or end in ``[]``.
    `plain`: the body is of one of the route's `content_types`; `raw` holds it, unchecked, and `json` is {}. `quick`: the body is
    long, but has so few values that hooks of the verbatim lane need no thread for it.
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
    query_lists: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    plain: bool = False
    quick: bool = False


class BufferedBody:
    """A complete body in memory, as an async iterator of one chunk that never waits.

    Code that checks for this class reads `data` directly and needs no iterators and timeouts; other code iterates.
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
    """The response to the caller: `status`, `content_type`, further `headers`, and the body in `chunks`.

    Each chunk is written immediately; in a stream, chunks end at the end of an event. `keep_alive` is written between chunks
    while the upstream sends no data (`b": ping\\n\\n"`); empty means never. `collected`: the caller gets a whole response,
    although the request to the upstream was for a stream.
    """

    content_type: str
    chunks: AsyncIterator[bytes]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    keep_alive: bytes = b""
    collected: bool = False

    def replace(self, chunks: AsyncIterator[bytes]) -> Reply:
        """Return a copy with other chunks."""
        return Reply(
            content_type=self.content_type,
            chunks=chunks,
            status=self.status,
            headers=self.headers,
            keep_alive=self.keep_alive,
            collected=self.collected,
        )


class UpstreamRequest(Value, frozen=True, kw_only=True):
    """The request that the default `call_upstream` sends to `url`, with `method`: the core encodes `json`; `body` is sent
    unchanged.

    `accepted_statuses` are statuses from 300 on that are not errors; the core reads at most 64 KiB of their bodies. `redirects`
    is the maximum number of redirects of a GET that the core follows. `headers` are sent only to the provider's own origin:
    scheme, host and port of its ``base_url``. `file_types` are prefixes of media types (``("video/",)``); they mark the response
    as a file. A file may be on another host, by its URL or by a redirect: the core's fetcher then reads it without `headers` and
    from public addresses only. A file arrives in chunks with back-pressure, and has at most ``limits.file_bytes``. For a
    `VideoDownload` the core limits the time between chunks (``timeouts.gap``) and the time of the whole file
    (``videos.download_seconds``).

    `context` is for plugins with their own `call_upstream`, which may not need a URL; the core does not read it.
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


class ResponseReader(Protocol):
    """The means to read a large response within the limits of the process; see `UpstreamResponse`. The core provides it."""

    def hold(self, size: int) -> None:
        """Reserve `size` bytes of memory. Raises Unavailable if all large responses, or the account's, hold too much."""

    def release(self, size: int | None = None) -> None:
        """Release `size` bytes, by default all."""

    def load_json(self, raw: bytes, provider: str) -> Any:
        """Parse a large body in chunks, so that a thread does not delay the event loop. Raises UpstreamError."""

    def run(self, function: Callable[..., T], *arguments: Any) -> Awaitable[T]:
        """Return the result of a function that processes large values, in the one thread that all large responses share."""


class UpstreamResponse(Value, frozen=True, kw_only=True):
    """The upstream's response:

    `chunks` is its body, as it arrives. `status` is below 300 or in the request's `accepted_statuses`; others raise
    UpstreamError.

    `headers` have lower-case names. `provider` is the name of the provider entry, for error messages. `reader` limits the
    memory of a large response and has a thread for it; the core sets it, also for a plugin's own `call_upstream`, but not for a
    small `BufferedBody`. `context` is for plugins with their own `call_upstream`; the core does not read it.
    """

    chunks: AsyncIterator[bytes]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    context: Any = None
    provider: str = ""
    reader: ResponseReader | None = None

    @property
    def media_type(self) -> str:
        """Return the Content-Type header in lower case, without parameters; "" without the header."""
        return media_type(self.headers.get("content-type", ""))

    def is_event_stream(self, *, otherwise: bool = False) -> bool:
        """Return whether the body is server-sent events, by its Content-Type; `otherwise` for types other than event streams and
        JSON.

        The header decides, not the request: some upstreams return a JSON body for a request with streaming.
        """
        declared = self.media_type
        return (otherwise and declared != "application/json") or declared == "text/event-stream"

    def replace(self, chunks: AsyncIterator[bytes]) -> UpstreamResponse:
        """Return a copy with other chunks."""
        return UpstreamResponse(
            chunks=chunks, status=self.status, headers=self.headers, context=self.context, provider=self.provider,
            reader=self.reader,
        )  # fmt: skip

    async def read(self) -> bytes:
        """Read the whole body.

        Raises UpstreamError for JSON with too many values, see `JsonValueCounter`, and Unavailable when all large responses
        together take too much memory.
        """
        if isinstance(self.chunks, BufferedBody):
            return self.chunks.data
        pieces: list[bytes] = []
        size = 0
        counter, reader = JsonValueCounter(self.provider), self.reader
        try:
            held = 0 if reader is None else self._gather_body(reader)
            async for piece in self.chunks:
                if not piece:
                    continue  # a body that is gathered is still arriving
                pieces.append(piece)
                size += len(piece)
                if size > UNCOUNTED_BYTES:
                    if reader is not None and size > held:
                        reader.hold(len(piece))
                    counter.add(piece, begins=pieces[0], start=max(0, UNCOUNTED_BYTES - size + len(piece)))
            return b"".join(pieces)
        except BaseException:
            if reader is not None:
                reader.release()
            raise

    def _gather_body(self, reader: ResponseReader) -> int:
        """Let the chunks arrive in one piece if they can, see `HttpResponse.gather_body`. Return its size, or 0."""

        def hold(size: int) -> None:
            if size > UNCOUNTED_BYTES:
                reader.hold(size - UNCOUNTED_BYTES)

        gather: Callable[[Callable[[int], None]], int] | None = getattr(self.chunks, "gather_body", None)
        return 0 if gather is None else gather(hold)

    async def read_json(self) -> Any:
        """Read the whole body and parse it as JSON, a large one in a thread. Raises UpstreamError if it is not valid JSON."""
        raw, reader = await self.read(), self.reader
        if len(raw) > WHOLE_BYTES and reader is not None:
            return await reader.run(reader.load_json, raw, self.provider)
        return parse_json(raw, self.provider)

    async def read_converted(self, convert: Callable[[Any], T], provider: str = "") -> T:
        """Read the whole body, parse it as JSON and return the result of `convert`; both in a thread for a large body.

        Raises UpstreamError if it is not valid JSON, and any error of `convert`. `provider` is named in the error, else the
        response's.
        """
        raw, reader = await self.read(), self.reader
        if len(raw) > WHOLE_BYTES and reader is not None:
            load = reader.load_json
            return await reader.run(lambda: convert(load(raw, provider or self.provider)))
        return convert(parse_json(raw, provider or self.provider))

    async def run(self, function: Callable[..., T], *arguments: Any) -> T:
        """Return the result of a function that processes a large body: in the thread of large responses, if there is one."""
        return function(*arguments) if self.reader is None else await self.reader.run(function, *arguments)

    async def read_object(self) -> dict[str, Any]:
        """Read the whole body and parse it as a JSON object. Raises UpstreamError for any other JSON value."""
        return require_object(await self.read_json(), self.provider)


WHOLE_BYTES: Final = 2 * 1024 * 1024
"""JSON up to this length is parsed in one call."""

UNCOUNTED_BYTES = 1024 * 1024
"""Up to this size JSON is parsed without counting its values: the most costly takes about 50 ms."""

_CACHED_BYTES: Final = 256 * 1024
"""The bytes of a text that are searched for one byte after the other, so that they come from the memory only once."""
_COUNTED_BYTES: Final = 16 * 1024
"""The bytes of a text that are counted at once; then the next occurrence is searched."""

MAX_CONTAINERS = 250_000
"""Maximum number of objects and arrays in one text. A chat response with all its log probabilities has 200,000."""
MAX_STRINGS = 1_000_000
"""Maximum number of names and strings in one text."""
MAX_VALUES = 8_000_000
"""Maximum number of values in one text. 2,048 vectors of 3,072 numbers have 6.3 million."""


class JsonValueCounter:
    """A limit of the number of values of a JSON text, whose parsing blocks the event loop: 28 MiB of ``[],`` take 3 s.

    It counts bytes, which is fast and never too low; brackets inside strings count too. Texts that are not JSON objects or
    arrays, such as images, are not counted.
    """

    __slots__ = ("_containers", "_provider", "_quotes", "_values")

    def __init__(self, provider: str = "") -> None:
        self._containers = self._quotes = self._values = 0
        self._provider = provider

    def add(self, piece: bytes, *, begins: bytes, start: int = 0) -> None:
        """Count `piece`, from `start` on, of the text that begins with `begins`. Raises UpstreamError above a maximum."""
        if not begins[:64].lstrip().startswith((b"{", b"[")):
            return
        for at in range(start, len(piece), _CACHED_BYTES):
            end = min(at + _CACHED_BYTES, len(piece))
            self._containers += _count_byte(piece, b"[", at, end) + _count_byte(piece, b"{", at, end)
            self._quotes += _count_byte(piece, b'"', at, end)
            self._values += _count_byte(piece, b",", at, end)
        if self._containers > MAX_CONTAINERS or self._quotes > 2 * MAX_STRINGS or self._values > MAX_VALUES:
            raise UpstreamError(
                f"{describe_provider(self._provider)} sent a response with too many JSON values: at most {MAX_CONTAINERS:,} "
                f"objects and arrays, {MAX_STRINGS:,} strings and {MAX_VALUES:,} values are read.",
                code="upstream_answer_too_complex",
            )


def _count_byte(data: bytes, byte: bytes, start: int, end: int) -> int:
    """Return how often `byte` occurs from `start` to `end`.

    A search is cheap: base64 has no such byte, and `count` takes 30 times as long.
    """
    count, at = 0, data.find(byte, start, end)
    while at >= 0:
        until = min(at + _COUNTED_BYTES, end)
        count += data.count(byte, at, until)
        at = data.find(byte, until, end)
    return count


def check_json_values(events: bytes) -> None:
    """Raise UpstreamError if stream events above UNCOUNTED_BYTES have too many JSON values; see `JsonValueCounter`."""
    if len(events) > UNCOUNTED_BYTES:
        JsonValueCounter().add(events, begins=b"{")


def parse_json(body: bytes | memoryview, provider: str = "") -> Any:
    """Parse an upstream's body as JSON, in one call. `provider` is its name for the error message. Raises UpstreamError.

    A large body is parsed by ``UpstreamResponse.read_json`` and `codec.large_json.load_upstream_json`, which delay the event loop
    less.
    """
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise invalid_json_error(provider) from error


def invalid_json_error(provider: str = "") -> UpstreamError:
    """Return the error for a response that is not valid JSON."""
    return UpstreamError(
        f"{describe_provider(provider)} sent a response that is not valid JSON.", advice="Check its base_url."
    )


def require_object(value: Any, provider: str = "") -> dict[str, Any]:
    """Return `value` if it is a JSON object. Raises UpstreamError otherwise."""
    if not isinstance(value, dict):
        raise UpstreamError(f"{describe_provider(provider)} sent a response that is not a JSON object.")
    return value


_CLASSES: Final[dict[type, tuple[type, ...]]] = {float: (float, int)}


def find_member(value: Any, *path: str | int, kind: type[T]) -> T | None:
    """Return the value at `path` in an upstream's JSON, or None if there is no value of class `kind`.

    ``find_member(body, "choices", 0, "message", "content", kind=str)``. A float may be written as an integer; True is no number.
    """
    for step in path:
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and -len(value) <= step < len(value):
            value = value[step]
        else:
            return None
    is_right = isinstance(value, _CLASSES.get(kind, kind)) and (
        kind is bool or (value is not True and value is not False)
    )
    return value if is_right else None


def require_member(value: Any, *path: str | int, kind: type[T], provider: str = "") -> T:
    """Return the value like `find_member`, but raise UpstreamError if there is no value of class `kind`.

    `provider` is its name for the message.
    """
    member = find_member(value, *path, kind=kind)
    if member is None:
        shown, name = ".".join(map(str, path)), _JSON_NAMES.get(kind, kind.__name__)
        raise UpstreamError(f"{describe_provider(provider)} sent a response without {name} '{shown}'.")
    return member


_JSON_NAMES: Final[dict[type, str]] = {
    str: "the text",
    int: "the integer",
    float: "the number",
    bool: "the boolean",
    dict: "the object",
    list: "the array",
}


def describe_provider(provider: str) -> str:
    """Return "The provider 'x'", or "The upstream" without a name, as the subject of an error message."""
    return f"The provider '{provider}'" if provider else "The upstream"
