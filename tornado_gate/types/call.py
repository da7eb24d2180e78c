"""The context of one request: caller, target, limits, and the services that hooks may use."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from tornado_gate.errors import GateError, InvalidField
from tornado_gate.types.bounds import Bound
from tornado_gate.types.measurements import Charge, Meter, Progress
from tornado_gate.types.target import NO_TARGET, Target
from tornado_gate.types.upstream_objects import ResponseRules
from tornado_gate.types.value import State, Value, field, replace

Result = TypeVar("Result")

MORE_LOSSES_MARK = "..."
MAX_LOSSES = 200
"""The maximum length of `Call.losses`, which a header must hold; further fields become one "..." entry."""


class Caller(Value, frozen=True, kw_only=True):
    """The client of a request. `id` (of the key) and `account` are safe to log. Empty `models` and `operations` mean all.

    `name` is the key's name; `user` and `team` are ids, "" without one. `tags` are the key's tags in the usage ledger.
    `addresses` are the networks from which the key may be used; empty: all. `bounds` are the limits and budgets of the key, its
    user and its team. `role` is the key's role: an administrator's key may use /admin/v1.
    """

    id: str
    account: str
    name: str = ""
    user: str = ""
    team: str = ""
    tags: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    bounds: tuple[Bound, ...] = ()
    models: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    role: Literal["member", "administrator"] = "member"


DEFAULT_RESPONSE_RULES = ResponseRules()


class RequestEnd(Value, frozen=True, kw_only=True):
    """The end of a request, for the functions of `Call.when_ended`.

    `status` is the status of the response. `error_code` is the code of an error response, or of the error that interrupted the
    response; "" without an error. `outcome` is "complete", "refused", "failed", "broken" (after its first event) or "aborted"
    (the caller has left). `seconds` is the time from the request's first byte. `call` is the request's last call, with the
    target that has answered.
    """

    call: Call
    status: int
    error_code: str
    outcome: str
    seconds: float


class ResponseAdditions(State):
    """The additions of hooks to the response of a request: `headers` (see `Call.add_response_header`), and `observers`, which
    are called when the request has ended (see `Call.when_ended`). Both are None if they are empty.
    """

    headers: dict[str, str] | None = None
    observers: list[Callable[[RequestEnd], None]] | None = None

    hidden_fields = frozenset({"observers"})

    def set_header(self, name: str, value: str) -> None:
        """Set a header of the response."""
        if self.headers is None:
            self.headers = {}
        self.headers[name] = value

    def add_observer(self, tell: Callable[[RequestEnd], None]) -> None:
        """Add a function that is called when the request has ended."""
        if self.observers is None:
            self.observers = []
        self.observers.append(tell)

    def take_observers(self) -> list[Callable[[RequestEnd], None]]:
        """Return the functions that were added, the last one first, and remove them."""
        observers, self.observers = self.observers or [], None
        return observers[::-1]


class ValueGroup(NamedTuple):
    """A group of a memory: its `values` by name, in the order of the names, and their `size` in bytes."""

    values: dict[str, Any]
    size: int


class Memory(Protocol):
    """A store of JSON values that outlives a request: private to the caller's account, with eviction and expiry."""

    async def get(self, name: str) -> Any | None:
        """Return the value; None if it does not exist, has expired or was evicted.

        Raises Unavailable if conf has the store in the database and the database is away; so does `get_many`.
        """

    async def get_many(self, names: Iterable[str]) -> dict[str, Any]:
        """Return the values that exist, by name."""

    async def find_many(self, names: Iterable[str]) -> dict[str, Any]:
        """Return the values that exist, by name; none if the store cannot be used. For values that a request can do without."""

    async def put(self, name: str, value: Any, seconds: float) -> None:
        """Store a JSON value for `seconds`. Values above 8 MiB are not stored."""

    async def put_many(self, values: Mapping[str, Any], seconds: float) -> None:
        """Store several values, as `put`."""

    async def delete(self, name: str) -> bool:
        """Delete a value. Returns False if it did not exist."""

    async def read_group(self, head: str) -> ValueGroup:
        """Return the group of values `head`: the value with this name and those whose names begin with it and a colon.

        It is empty if the group does not exist. Raises Unavailable when the store cannot be used; so do the next two methods.
        """

    async def extend_group(self, head: str, values: Mapping[str, Any], seconds: float, *, new: bool = False) -> bool:
        """Store `values` of a group, whose values all expire after `seconds` from now. They may be of any length.

        Returns False, and stores nothing, if the group does not exist and is not `new`.
        """

    async def delete_group(self, head: str) -> bool:
        """Delete a group. Returns False if it did not exist."""


class UrlFetcher(Protocol):
    """A client for URLs of requests and upstream responses: `tornado_gate.http.fetch.Fetcher`. Plugins use no other client."""

    async def fetch(self, url: str, *, kinds: Collection[str], param: str) -> Any:
        """Fetch a URL from a request; the result has `media_type` and `data`. Raises InvalidField for the field `param`."""

    async def read_own(self, url: str, *, kinds: Collection[str], param: str) -> Any | None:
        """Read a file whose address the gateway itself has handed out; None for any other address. Raises as `fetch`."""

    def open(
        self, url: str, *, kinds: Collection[str], most_bytes: int | None = None, allow_host: str = ""
    ) -> AbstractAsyncContextManager[Any]:
        """Open a URL from an upstream's response as a stream with `media_type`, `length` and `chunks()`.

        `allow_host` is the provider's own host, which may be in a private network. Raises UpstreamError.
        """


class ResponseFileStore(Protocol):
    """A store for files of responses that callers download by URL: `tornado_gate.storage.files`.

    `public_url` is the prefix of the gateway's URLs as callers see them.
    """

    @property
    def public_url(self) -> str: ...

    async def keep(self, data: bytes | AsyncIterator[bytes], media_type: str, name: str = "") -> str:
        """Store a file until it expires; return its signed URL, which needs no key.

        Raises MediaFull (507) and MediaUnavailable (503).
        """


class InnerModelCaller(Protocol):
    """A caller of other models of the gateway, for a provider built from them. The caller's key, limits and permissions apply."""

    def ask(self, model: str, operation: str, request: Any) -> AsyncIterator[Any]:
        """Return the events of the response to a common request. Raises the GateError that a caller would receive."""


class LazyExitStack(AsyncExitStack):
    """An exit stack that is initialised on first use, because most requests push nothing on it."""

    is_empty = True
    """Whether the stack is empty, so that it needs no closing."""

    def __init__(self) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        """Initialise the stack when one of its attributes is first read."""
        if not self.is_empty:
            raise AttributeError(name)
        self.is_empty = False
        super().__init__()
        return getattr(self, name)


class NullMemory:
    """A memory that stores nothing: the default of a call."""

    async def get(self, name: str) -> Any | None:
        return None

    async def get_many(self, names: Iterable[str]) -> dict[str, Any]:
        return {}

    async def find_many(self, names: Iterable[str]) -> dict[str, Any]:
        return {}

    async def put(self, name: str, value: Any, seconds: float) -> None:
        return None

    async def put_many(self, values: Mapping[str, Any], seconds: float) -> None:
        return None

    async def delete(self, name: str) -> bool:
        return False

    async def read_group(self, head: str) -> ValueGroup:
        return ValueGroup({}, 0)

    async def extend_group(self, head: str, values: Mapping[str, Any], seconds: float, *, new: bool = False) -> bool:
        return new

    async def delete_group(self, head: str) -> bool:
        return False


class Call(Value, frozen=True, kw_only=True):
    """The context of one request. `target` is NO_TARGET until routing selects one; a provider's hooks always see a real target.

    `id` is the request's id (``x-request-id``), `caller` its sender, `format` the name of the format plugin ("" in a video task),
    `model` the requested name. `strict`: the caller sent ``x-gate-strict: 1``. `losses` are the fields dropped so far: use
    `drop_field`.

    All attempts share four objects. `meter` has the measurements of the upstream's response, `progress` the state of the
    request. `charge` has the amounts that the request reserves, and `additions` the hooks' additions to the response.

    `headers` are the caller's headers, with lower-case names and without keys. `dialect` is conf's choice where the gateway's
    contract and the vendor's API differ; with "auto" the format chooses. `facts` are the requested model's descriptive keys in
    conf. `operation` is the operation of the route that the target performs. `memory` outlives the request. `files` stores files
    that the response links to. `fetcher` fetches URLs; see also `http.fetch.pictures`. `pool` holds the connections to the
    provider; only the core's `call_upstream` and `open_socket` use it. `inner` calls other models of the gateway. `started` is
    the time of the request's first byte on the monotonic clock. `notes` holds data that hooks of one plugin share during the
    request; each plugin chooses its own keys. All attempts share `notes`, and a call of an inner model has a copy. `key_digest`
    is a digest of the caller's key. `responses` are conf's rules for storing responses. `failover`: whether another target may
    be tried after a failure. None means yes: neither the caller nor conf sets it. `worker` runs a function in a thread; None if
    the request's body is small, see `run`. `explain_refusal` is the provider's hook `translate_upstream_error`, if it has one;
    the core's `call_upstream` uses it. The handler owns `closing`: its contents are closed when the response is complete, when
    it fails and when the caller disconnects.
    """

    id: str
    operation: str
    format: str
    model: str = ""
    caller: Caller
    target: Target = NO_TARGET
    strict: bool = False
    dialect: Literal["contract", "vendor", "auto"] = "auto"
    headers: Mapping[str, str] = field(default_factory=dict)
    losses: list[str] = field(default_factory=list)
    meter: Meter = field(default_factory=Meter)
    progress: Progress = field(default_factory=Progress)
    charge: Charge = field(default_factory=Charge)
    additions: ResponseAdditions = field(default_factory=ResponseAdditions)
    closing: AsyncExitStack = field(default_factory=LazyExitStack)
    pool: Any = None
    memory: Memory = field(default_factory=NullMemory)
    fetcher: UrlFetcher | None = None
    files: ResponseFileStore | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    inner: InnerModelCaller | None = None
    key_digest: bytes = b""
    responses: ResponseRules = DEFAULT_RESPONSE_RULES
    failover: bool | None = None
    worker: Callable[..., Awaitable[Any]] | None = None
    explain_refusal: Callable[[Call, int, Mapping[str, str], bytes], GateError | None] | None = None
    started: float = 0.0
    notes: dict[Any, Any] = field(default_factory=dict)

    hidden_fields = frozenset(
        {"closing", "pool", "memory", "fetcher", "files", "inner", "key_digest", "worker", "notes", "explain_refusal"}
    )

    def replace(self, **changes: Any) -> Call:
        """Return a copy with the fields in `changes` replaced."""
        return replace(self, **changes)

    async def run(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """Return the result of a function that processes the whole request. For a large request it runs in a thread, so that it
        does not block the event loop.

        For hooks that are coroutines; the core calls other hooks in the thread itself.
        """
        if self.worker is None:
            return function(*arguments)
        result: Result = await self.worker(function, *arguments)
        return result

    def when_ended(self, tell: Callable[[RequestEnd], None]) -> None:
        """Register `tell`. It is called once, when the response has ended or the caller has left. It must not wait.

        The function that was added last is called first. A video task makes further calls after the response that created it.
        They belong to no request, so `tell` is not called for them.
        """
        self.additions.add_observer(tell)

    def add_response_header(self, name: str, value: str) -> None:
        """Add a header to the response, unless its status line was sent. A later value replaces an earlier one."""
        self.additions.set_header(name, value)

    def remove_response_header(self, name: str) -> None:
        """Remove a header that `add_response_header` has added, if there is one."""
        if self.additions.headers is not None:
            self.additions.headers.pop(name, None)

    def drop_field(self, name: str) -> None:
        """Record that the target does not support the field `name` (the caller's spelling), for the header x-gate-loss.

        Raises InvalidField if the caller sent `x-gate-strict: 1`.
        """
        if self.strict:
            raise InvalidField(
                name,
                f"'{name}' is not supported by the model '{self.model}' (rejected because of x-gate-strict). Remove the field.",
                code="unsupported_parameter",
            )
        if name not in self.losses and len(self.losses) <= MAX_LOSSES:
            self.losses.append(name if len(self.losses) < MAX_LOSSES else MORE_LOSSES_MARK)
