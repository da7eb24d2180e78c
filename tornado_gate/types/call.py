"""What the stops of one request share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, Literal, Protocol

from tornado_gate.errors import InvalidField
from tornado_gate.types.results import Usage
from tornado_gate.types.value import State, Value, field, replace

MORE_LOSSES_MARK = "..."
MAX_LOSSES = 200
"""More are counted as one: a header has room for no more, and a body may hold any number of unknown fields."""


class Timeouts(Value, frozen=True, kw_only=True):
    """Seconds: to connect, to the first event, between events, for the whole answer."""

    connect: float = 5.0
    first_event: float = 60.0
    gap: float = 60.0
    total: float = 600.0


class Caller(Value, frozen=True, kw_only=True):
    """Who asks. `id` and `account` are safe to log; empty `models` or `operations` mean all; None is no limit."""

    id: str
    account: str
    name: str = ""
    models: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None


class Target(Value, frozen=True, kw_only=True):
    """Who answers: a provider entry of conf and the upstream's name of the model.

    `base_url` has no slash at its end and holds the version part where the plugin's `configure` put one. `settings` are what
    the plugin's `configure` returned, or the entry's own; `facts` what conf says of the model (token limits, …). `operations`
    are what conf and the plugin say that it can do; None: whatever it is asked.
    """

    provider: str
    plugin: str
    model: str
    upstream_model: str
    base_url: str = ""
    api_key: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    settings: Any = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    timeouts: Timeouts = Timeouts()
    operations: frozenset[str] | None = None

    hidden_fields = frozenset({"api_key", "headers"})

    def first_supported_operation(self, operations: Iterable[str]) -> str:
        """The first of `operations` that it can do, or ""."""
        for operation in operations:
            if self.operations is None or operation in self.operations:
                return operation
        return ""


NO_TARGET = Target(provider="", plugin="", model="", upstream_model="")


class Meter(State):
    """What is noted in passing for metrics and logs; never a word of what was said.

    `charged` says that the tokens were counted against the key as they came, by the models that the answer was made of.
    """

    usage: Usage | None = None
    finish_reason: str = ""
    attempts: int = 0
    first_event_seconds: float | None = None
    charged: bool = False


class Memory(Protocol):
    """JSON values that outlive a request, seen by the caller's account only, bounded and expiring."""

    async def get(self, name: str) -> Any | None:
        """The value, or None when it is not there, has expired or was pushed out."""

    async def get_many(self, names: Iterable[str]) -> dict[str, Any]:
        """The values of those names that are there."""

    async def put(self, name: str, value: Any, seconds: float) -> None:
        """Keep a JSON value for `seconds`; one above 8 MiB is not kept."""

    async def put_many(self, values: Mapping[str, Any], seconds: float) -> None:
        """Keep several."""

    async def delete(self, name: str) -> bool:
        """Forget a value. False when it was not there."""


class UrlFetcher(Protocol):
    """The one way to an address that a client gave: `tornado_gate.http.fetch.Fetcher`."""

    async def fetch(self, url: str, *, kinds: Collection[str], param: str) -> Any:
        """What is there, as `media_type` and `data`. Raises InvalidField for the caller's field `param`."""

    def open(
        self, url: str, *, kinds: Collection[str], most_bytes: int | None = None, allow_host: str = ""
    ) -> AbstractAsyncContextManager[Any]:
        """What is at an address that an upstream gave, as it comes: `media_type`, `length`, `chunks()`.

        `allow_host` is the provider's own host, which may be in a private network. Raises UpstreamError.
        """


class ResponseFileStore(Protocol):
    """Where an answer's files are kept for whoever gets their addresses: `tornado_gate.storage.files`.

    `public_url` is what stands before the gateway's paths, as the caller sees them.
    """

    @property
    def public_url(self) -> str: ...

    async def keep(self, data: bytes | AsyncIterator[bytes], media_type: str, name: str = "") -> str:
        """Keep a file for a while; its signed address, which needs no key.

        Raises MediaFull (507) and MediaUnavailable (503).
        """


class InnerModelCaller(Protocol):
    """Other models of the gateway, for a provider that is made of them; with the caller's key, limits and permissions."""

    def ask(self, model: str, operation: str, request: Any) -> AsyncIterator[Any]:
        """The events of an answer to a common request. Raises GateError as a caller would get it."""


class LazyExitStack(AsyncExitStack):
    """What is made ready when something is first pushed on it: with most requests nothing ever is."""

    def __init__(self) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        """Something of the stack's own is looked for, which is made now."""
        if self.__dict__:
            raise AttributeError(name)
        super().__init__()
        return getattr(self, name)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever pushed, so that nothing is to be closed."""
        return not self.__dict__


class NullMemory:
    """A memory that forgets: what a call has that nobody gave one."""

    async def get(self, name: str) -> Any | None:
        return None

    async def get_many(self, names: Iterable[str]) -> dict[str, Any]:
        return {}

    async def put(self, name: str, value: Any, seconds: float) -> None:
        return None

    async def put_many(self, values: Mapping[str, Any], seconds: float) -> None:
        return None

    async def delete(self, name: str) -> bool:
        return False


class Call(Value, frozen=True, kw_only=True):
    """One request on its way. `target` is NOWHERE until routing has chosen; a provider's hooks always see a real one.

    `headers` are the caller's, lower-case and without keys. `dialect` is what conf says where a contract and a vendor differ;
    "auto" leaves it to the format. `facts` are what conf says of the model that was asked for; `operation` is the one that
    the target does, of those that the route can be. `memory` outlives the request; `files` keeps what is answered by address.
    `fetcher` is the one way to an address that a client gave; see `http.fetch.pictures`.
    `pool` has the connections to the provider, for the core's `call_upstream` and `open_socket` alone.
    `inner` is the way to other models of the gateway; `key_digest` stands for the caller's key. `closing`
    is entered by the handler: what is pushed on it is closed when the answer is complete, when it fails and when the caller
    leaves.
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
    closing: AsyncExitStack = field(default_factory=LazyExitStack)
    pool: Any = None
    memory: Memory = field(default_factory=NullMemory)
    fetcher: UrlFetcher | None = None
    files: ResponseFileStore | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    inner: InnerModelCaller | None = None
    key_digest: bytes = b""

    hidden_fields = frozenset({"closing", "pool", "memory", "fetcher", "files", "inner", "key_digest"})

    def replace(self, **changes: Any) -> Call:
        """A copy with other values."""
        return replace(self, **changes)

    def drop_field(self, name: str) -> None:
        """Say that the upstream cannot honour the request's field `name`, spelled as the caller spelled it.

        Raises InvalidField when the caller asked for strictness (`x-gate-strict: 1`).
        """
        if self.strict:
            raise InvalidField(
                name,
                f"'{name}' cannot be honoured by the model '{self.model}', and x-gate-strict asks for an error then.",
                code="unsupported_parameter",
            )
        if name not in self.losses and len(self.losses) <= MAX_LOSSES:
            self.losses.append(name if len(self.losses) < MAX_LOSSES else MORE_LOSSES_MARK)

    # The names that plugins written for 0.1 use. They go with 0.3.
    lose = drop_field
    but = replace
