"""The context of one request: caller, target, limits, and the services that hooks may use."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from tornado_gate.errors import GateError, InvalidField
from tornado_gate.types.model_names import canonicalize_name
from tornado_gate.types.results import Usage
from tornado_gate.types.upstream_objects import ALL_KINDS, ResponseRules
from tornado_gate.types.value import State, Value, field, replace

Result = TypeVar("Result")

MORE_LOSSES_MARK = "..."
MAX_LOSSES = 200
"""The maximum length of `Call.losses`, which a header must hold; further fields become one "..." entry."""


class Timeouts(Value, frozen=True, kw_only=True):
    """Time limits in seconds: `connect` to connect, `first_event` to the first event, `gap` between two events, `total` for
    all.

    `whole` is the time to the first byte of a whole response (one that is not streamed); None: as `first_event`.
    """

    connect: float = 5.0
    first_event: float = 60.0
    whole: float | None = None
    gap: float = 60.0
    total: float = 600.0


class Budget(Value, frozen=True, kw_only=True):
    """The most that may be spent; None: no bound.

    `usd_per_day`, `usd_per_month`, `tokens_per_day` and `tokens_per_month` are US dollars and tokens in a UTC calendar day or
    month.
    """

    usd_per_day: float | None = None
    usd_per_month: float | None = None
    tokens_per_day: int | None = None
    tokens_per_month: int | None = None


NO_BUDGET = Budget()


class Limits(Value, frozen=True, kw_only=True):
    """What the keys of a team may do together, by `requests_per_minute`, `tokens_per_minute`, `concurrent_requests`; None: no
    limit.
    """

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    concurrent_requests: int | None = None


NO_LIMITS = Limits()


class Bound(NamedTuple):
    """What one `subject` (an id or a name) may use at most. `kind` is that of the subject: key, user, team, model, provider,
    gateway.

    `name` is the bound's name in conf, `limit` its value, for US dollars in nano-dollars. `counter` identifies the counter of
    the `family` (requests, tokens, open, periods: `admission/bounds.py`). `title` is the subject's name for people, "" if it is
    `subject` itself.
    """

    kind: str
    subject: str
    name: str
    limit: int
    family: str
    counter: tuple[int, int]
    title: str = ""


class LimitLevel(NamedTuple):
    """What is left of a limit per minute: `remaining` of `limit`; `reset` is the time in seconds until all of it is available
    again.
    """

    limit: int
    remaining: int
    reset: float


class LimitLevels(NamedTuple):
    """What is left of the limits on `requests` and `tokens` per minute: of those that concern a request, the one that leaves
    least. None: no limit.
    """

    requests: LimitLevel | None = None
    tokens: LimitLevel | None = None


class Caller(Value, frozen=True, kw_only=True):
    """The client of a request. `id` (of the key) and `account` are safe to log. Empty `models` and `operations` mean all.

    `name` is the key's name; `user` and `team` are ids, "" without one. `tags` are the key's, for the usage ledger. `addresses`
    are the networks from which the key may be used; empty: all. `bounds` are the limits and budgets of the key, its user and
    its team. `role` is that of the key: an administrator's may use /admin/v1.
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


class Target(Value, frozen=True, kw_only=True):
    """A provider entry of conf and the upstream's name of the model.

    `provider` is the entry's name and `plugin` its plugin; `model` is the name in conf under which the target was found,
    `upstream_model` the one to send. `headers` are those of the entry, which the plugin adds to its requests. `timeouts` are
    enforced by the core. `base_url` has no trailing slash; it includes a version segment if the plugin's `configure` added one.
    `settings` is the value from the plugin's `configure`, else the entry's settings. `facts` are the model's descriptive keys
    in conf (token limits, …). `operations` are those that conf and the plugin allow; None means all. `shared_objects` are the
    kinds of objects in the provider's account that every caller may use by id. Of an entry with several keys, `api_key` is the
    one to use, `key` its fingerprint and `account_keys` are all of them.
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
    shared_objects: frozenset[str] = frozenset()
    key: str = ""
    account_keys: tuple[str, ...] = ()

    hidden_fields = frozenset({"api_key", "headers", "account_keys"})

    @property
    def place(self) -> tuple[str, str]:
        """The provider entry and the canonical name of the upstream model, by which measurements and circuits are kept."""
        return self.provider, canonicalize_name(self.upstream_model)

    def shares(self, kind: str) -> bool:
        """Whether every caller may use objects of this kind in the provider's account by id."""
        return kind in self.shared_objects or ALL_KINDS in self.shared_objects

    def first_supported_operation(self, operations: Iterable[str]) -> str:
        """Return the first of `operations` that the target supports, or ""."""
        for operation in operations:
            if self.operations is None or operation in self.operations:
                return operation
        return ""


DEFAULT_RESPONSE_RULES = ResponseRules()
NO_TARGET = Target(provider="", plugin="", model="", upstream_model="")


class Meter(State):
    """Measurements of a request for metrics and logs; never any content.

    `usage` and `finish_reason` are those of the response so far; formats set them on the verbatim lane, the core on the common
    one. `attempts` counts the targets tried; `first_event_seconds` is the time to the first event. `model` is the requested
    name, `target` that of the last attempt. `late_error` is an error that ended the response after its first event, until the
    outcome is noted; `error_code` is its code after that. `images` counts generated images, `seconds` those of video or sound,
    `characters` those of text for speech; `size` and `quality` are those of images or video. `service_tier` is the one in which
    the upstream served the request, `web_searches` those that it made, if not in the usage.

    The next fields are for an estimate of what a request used that ends without usage (`ledger/estimates.py`). `is_asked`: an
    upstream has the request, and has not failed. `estimate_prompt` returns the tokens of the prompt; None for operations that
    have none. `asked` has the images or characters that the request asks for (a `ledger.costs.Quantities`). `measures_text`:
    `produced_bytes` and `produced_frames` count what was produced: characters of text and their events, or in the verbatim lane
    bytes and their frames, each with about `frame_bytes` that are no text. `counted_tokens` of the prompt another request was
    charged, which created the object that this one reads. `estimate_rest` returns what a realtime session has used since the
    last usage that its upstream reported.

    `charged`: the tokens are already counted against the key's limit by the inner calls that produced the response. `ends_at`:
    the time on the event loop's clock when the total timeout of the current attempt ends; None without an attempt. `cost`: the
    nano-dollars of a complete answer, where the caller was told it. `streamed`: the caller has requested a stream. `claim`:
    what the request has reserved of its bounds (`admission/reservations.py`); None if nothing limits it. `is_inner`: the request
    is part of another one of the same caller, and does not count as one. `is_withheld`: a target has answered, and a guard
    has refused the answer, for which the caller pays.

    `cached`: a wrapper has answered the current attempt without its target (true), or has asked the target (false); None: no
    wrapper has looked for an answer. A cached answer reports its usage to the caller, costs nothing, and says nothing of its
    target. `attempt_error` is the code of the error with which the last attempt has failed. `response_headers` and `observers`:
    see `Call.add_response_header` and `Call.when_ended`; None without any.
    """

    usage: Usage | None = None
    finish_reason: str = ""
    attempts: int = 0
    first_event_seconds: float | None = None
    charged: bool = False
    model: str = ""
    target: Target = NO_TARGET
    late_error: GateError | None = None
    error_code: str = ""
    images: int = 0
    seconds: float = 0.0
    characters: int = 0
    size: str = ""
    quality: str = ""
    service_tier: str = ""
    web_searches: int = 0
    is_asked: bool = False
    estimate_prompt: Callable[[], int] | None = None
    asked: Any = None
    measures_text: bool = False
    produced_bytes: int = 0
    produced_frames: int = 0
    frame_bytes: int = 0
    counted_tokens: int = 0
    estimate_rest: Callable[[], Usage] | None = None
    ends_at: float | None = None
    cost: int | None = None
    streamed: bool = False
    claim: Any = None
    is_inner: bool = False
    is_withheld: bool = False
    cached: bool | None = None
    attempt_error: str = ""
    response_headers: dict[str, str] | None = None
    observers: list[Callable[[RequestEnd], None]] | None = None

    hidden_fields = frozenset({"estimate_prompt", "estimate_rest", "observers"})

    @property
    def costs_nothing(self) -> bool:
        """Whether the usage is not the caller's to pay for: it is counted elsewhere, or nothing was used."""
        return self.charged or bool(self.cached)


class RequestEnd(Value, frozen=True, kw_only=True):
    """How a request has ended, for the functions of `Call.when_ended`.

    `status` is that of the response, `error_code` the code of the error that it was or with which it broke off, "" without one.
    `outcome` is "complete", "refused", "failed", "broken" (after its first event) or "aborted" (the caller has left). `seconds`
    is the time from the request's first byte. `call` is the last one of the request, with the target that has answered.
    """

    call: Call
    status: int
    error_code: str
    outcome: str
    seconds: float


class ValueGroup(NamedTuple):
    """A group of a memory: its `values` by name, in the order of the names, and the `size` that they take in bytes."""

    values: dict[str, Any]
    size: int


class Memory(Protocol):
    """A store of JSON values that outlives a request: private to the caller's account, with eviction and expiry."""

    async def get(self, name: str) -> Any | None:
        """Return the value; None if it does not exist, has expired or was evicted."""

    async def get_many(self, names: Iterable[str]) -> dict[str, Any]:
        """Return the values that exist, by name."""

    async def put(self, name: str, value: Any, seconds: float) -> None:
        """Store a JSON value for `seconds`. Values above 8 MiB are not stored."""

    async def put_many(self, values: Mapping[str, Any], seconds: float) -> None:
        """Store several values, as `put`."""

    async def delete(self, name: str) -> bool:
        """Delete a value. Returns False if it did not exist."""

    async def read_group(self, head: str) -> ValueGroup:
        """Return the group of values `head`: the value with this name and those whose names begin with it and a colon.

        Empty if the group does not exist. Raises Unavailable when the store cannot be used, as the next two methods.
        """

    async def extend_group(self, head: str, values: Mapping[str, Any], seconds: float, *, new: bool = False) -> bool:
        """Store `values` of a group, whose values all expire after `seconds` from now. They may be of any length.

        Returns False, and stores nothing, if the group does not exist and is not `new`.
        """

    async def delete_group(self, head: str) -> bool:
        """Delete a group. Returns False if it did not exist."""


class UrlFetcher(Protocol):
    """Fetches URLs from requests and upstream responses: `tornado_gate.http.fetch.Fetcher`. Plugins use no other client."""

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
    """Stores files of responses that callers download by URL: `tornado_gate.storage.files`.

    `public_url` is the prefix of the gateway's URLs as callers see them.
    """

    @property
    def public_url(self) -> str: ...

    async def keep(self, data: bytes | AsyncIterator[bytes], media_type: str, name: str = "") -> str:
        """Store a file until it expires; return its signed URL, which needs no key.

        Raises MediaFull (507) and MediaUnavailable (503).
        """


class InnerModelCaller(Protocol):
    """Calls other models of the gateway, for a provider built from them; with the caller's key, limits and permissions."""

    def ask(self, model: str, operation: str, request: Any) -> AsyncIterator[Any]:
        """Return the events of the response to a common request. Raises the GateError that a caller would receive."""


class LazyExitStack(AsyncExitStack):
    """An exit stack that is initialised on first use, because most requests push nothing on it."""

    def __init__(self) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        """Initialise the stack when one of its attributes is first read."""
        if self.__dict__:
            raise AttributeError(name)
        super().__init__()
        return getattr(self, name)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was pushed, so that nothing needs closing."""
        return not self.__dict__


class NullMemory:
    """A memory that stores nothing: the default of a call."""

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

    async def read_group(self, head: str) -> ValueGroup:
        return ValueGroup({}, 0)

    async def extend_group(self, head: str, values: Mapping[str, Any], seconds: float, *, new: bool = False) -> bool:
        return new

    async def delete_group(self, head: str) -> bool:
        return False


class Call(Value, frozen=True, kw_only=True):
    """The context of one request. `target` is NO_TARGET until routing selects one; a provider's hooks always see a real target.

    `id` is the request's (``x-request-id``), `caller` who sent it, `format` the name of the format plugin ("" in a video task),
    `model` the requested name. `strict`: the caller sent ``x-gate-strict: 1``. `losses` are the fields dropped so far: use
    `drop_field`. `meter` has the measurements. `headers` are the caller's, with lower-case names and without keys. `dialect` is
    conf's choice where the gateway's contract and the vendor's API differ; with "auto" the format chooses. `facts` are the
    requested model's descriptive keys in conf; `operation` is the one of the route's operations that the target performs.
    `memory` outlives the request. `files` stores files that the response links to. `fetcher` fetches URLs; see also
    `http.fetch.pictures`. `pool` holds the connections to the provider and is used only by the core's `call_upstream` and
    `open_socket`. `inner` calls other models of the gateway. `started` is the time of the request's first byte on the
    monotonic clock. `notes` is what hooks of one plugin remember of the request for each other, by keys of their own; all
    attempts share it, and a call of an inner model has a copy. `key_digest` is a digest of the caller's key. `responses` are
    conf's rules for storing responses. `failover`: whether another target may be tried after a failure; None: yes, neither
    the caller nor conf says anything of it. `worker` runs a function in a thread; None if the request's body is small, see
    `run`. `explain_refusal` is for the core's `call_upstream`: the provider's hook `translate_upstream_error`, if it has one.
    The handler owns `closing`: its contents are closed when the response is complete, when it fails and when the
    caller disconnects.
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
        """The result of a function that processes all of the request: of a large one in a thread, so that the event loop is
        free.

        For hooks that are coroutines; the core calls other hooks in the thread itself.
        """
        if self.worker is None:
            return function(*arguments)
        result: Result = await self.worker(function, *arguments)
        return result

    def when_ended(self, tell: Callable[[RequestEnd], None]) -> None:
        """Have `tell` called once, when the response has ended or the caller has left. It must not wait.

        The function that was added last is called first. Not called for the calls of a video task after the response that
        created it, which belong to no request.
        """
        if self.meter.observers is None:
            self.meter.observers = []
        self.meter.observers.append(tell)

    def add_response_header(self, name: str, value: str) -> None:
        """Add a header to the response, unless its status line was sent. A later value replaces an earlier one."""
        if self.meter.response_headers is None:
            self.meter.response_headers = {}
        self.meter.response_headers[name] = value

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
