"""Frozen data types for a checked `conf/gate.yaml`, with all defaults."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Any, Literal

from tornado_gate.config.alerting import AlertsConfig
from tornado_gate.config.network import DIRECT, Network
from tornado_gate.config.prices import PriceEntry
from tornado_gate.config.routing import Affinity, CircuitsConfig, HealthCheck, RetriesConfig, Strategy
from tornado_gate.config.tapes import TapesConfig
from tornado_gate.types import NO_BUDGET, NO_LIMITS, Budget, Limits, ResponseRules, Timeouts
from tornado_gate.types.upstream_objects import OPERATORS_KINDS
from tornado_gate.types.value import Value, field

MEDIA_BYTES = 2 * 1024 * 1024 * 1024
MEDIA_SECONDS = 24 * 3600.0

FIRST_PARTY_FORMATS = ("format-openai", "format-anthropic", "format-gemini")
"""Plugins that are on by default, if they are installed."""

Role = Literal["member", "administrator"]
"""The role of a key. An administrator also sees the addresses of upstreams in ``_explain``."""


class Secret(str):
    """A value that must not be shown: `repr` masks it in data types, tracebacks and logs."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "Secret(***)" if self else "Secret('')"


class TlsConfig(Value, frozen=True, kw_only=True):
    """The section ``server.tls``: PEM files of the certificate with its chain, and of its key; the lowest version of TLS."""

    certificate: Path
    key: Path
    minimum: Literal["1.2", "1.3"] = "1.2"


class ServerConfig(Value, frozen=True, kw_only=True):
    """The section ``server``. `processes` 0 means one for each core.

    `metrics_port` None serves /metrics on `port`: without a `metrics_token` only if `host` is a loopback address, else with the
    token only. `trusted_proxies` are the peers whose headers about forwarded requests are believed. `drain_delay` is the time
    after SIGTERM in which /readyz is 503 and the port is still open, `drain_seconds` the time that open requests have to finish
    then. `log_format` None is text at a terminal, else JSON. `loop` and `http` (for callers' connections) each select a fast or
    a general implementation with the same behaviour. `max_connections` is the limit of callers' connections of each process,
    `max_connections_per_address` the limit of one address among them; None: half of all. With `tls` the port serves HTTPS only.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    processes: int = 1
    data_dir: Path = Path("var")
    public_url: str = ""
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = ()
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = None
    metrics_token: Secret = Secret("")
    access_log: bool = True
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["json", "text"] | None = None
    drain_delay: float = 0.0
    drain_seconds: float = 30.0
    hook_seconds: float = 5.0
    keep_alive_seconds: float = 15.0
    stalled_reader_seconds: float = 60.0
    max_connections: int = 10_000
    max_connections_per_address: int | None = None
    loop: Literal["uvloop", "asyncio"] = "uvloop"
    http: Literal["httptools", "tornado"] = "httptools"
    tls: TlsConfig | None = None

    @property
    def scheme(self) -> str:
        """Return the scheme of the gateway's own port: http or https."""
        return "http" if self.tls is None else "https"


class EntrySettings(dict[str, Any]):
    """The settings in an entry of conf that its plugin defines. `core_keys` are the keys of the entry that the core defines."""

    __slots__ = ("core_keys",)

    def __init__(self, values: Mapping[str, Any], core_keys: frozenset[str]) -> None:
        super().__init__(values)
        self.core_keys = core_keys


class PluginOptions(Value, frozen=True, kw_only=True):
    """The options in conf of a plugin that is on, beyond ``true``. `settings` are the keys that the plugin defines.

    The others are for wrappers: `models`, `operations` and `keys` are the scope (globs for names of models, and for IDs
    of keys and teams); empty means all. With `required` a request in the scope receives 503 while the wrapper cannot
    work. `review_timeout` is for guards: the seconds that one review may take. Each MB of text adds
    `review_timeout_per_mb`; None: the default. `distribution` chooses between several that install a plugin of this
    name.
    """

    distribution: str = ""
    required: bool = False
    models: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    review_timeout: float | None = None
    review_timeout_per_mb: float | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


class BoundsConfig(Value, frozen=True, kw_only=True):
    """The limits of a subject that is not a key: per minute, concurrent, per day and per month."""

    limits: Limits = NO_LIMITS
    budget: Budget = NO_BUDGET


NO_BOUNDS = BoundsConfig()


class TargetConcurrency(Value, frozen=True, kw_only=True):
    """At most `most` requests of a provider entry run at a time on a machine; `queue` more wait, each for `wait` seconds."""

    most: int
    queue: int = 100
    wait: float = 5.0


class ProviderConfig(Value, frozen=True, kw_only=True):
    """A provider entry: an account at an upstream. `settings` are the entry's keys that its plugin defines.

    `shared_objects` are the kinds of objects in this account that every caller may use by id
    (`types.upstream_objects`). `prices` are the prices of this account, by pattern of upstream models; they override
    the section ``prices``. `price_provider` is the provider's name in the default prices; None: the plugin or the base
    URL determines it; "": it has none. `api_keys` are all keys of an entry with several, `api_key` is the first of
    them. `concurrency` limits the concurrent requests; None: only the limits of all requests apply. `network` is how
    connections are made.
    """

    name: str
    plugin: str
    base_url: str = ""
    api_key: Secret = Secret("")
    api_keys: tuple[Secret, ...] = ()
    headers: Mapping[str, Secret] = field(default_factory=dict)
    timeouts: Timeouts = Timeouts()
    shared_objects: frozenset[str] = OPERATORS_KINDS
    prices: Mapping[str, PriceEntry] = field(default_factory=dict)
    price_provider: str | None = None
    limits: BoundsConfig = NO_BOUNDS
    health_check: HealthCheck | None = None
    concurrency: TargetConcurrency | None = None
    network: Network = DIRECT
    settings: Mapping[str, Any] = field(default_factory=dict)


class ModelTarget(Value, frozen=True, kw_only=True):
    """A target of a model. `model` None means the requested name (for a wildcard entry: the part that ``*`` matches).

    `weight` 0 drains the target: it gets no new requests, even when all others fail. Only requests for its stored
    objects continue.
    """

    provider: str
    model: str | None = None
    weight: int = 1


class ModelEntry(Value, frozen=True, kw_only=True):
    """A model name for clients; it may contain one `*` as a wildcard.

    `fallback` are names of other entries. `operations` None means all operations of the plugin. `timeouts` holds only
    the timeouts that the entry overrides. `strategy` is how targets are chosen; with `affinity` requests of one
    conversation go to the same target. `facts` are its descriptive keys (`display_name`, `input_token_limit`, …).
    `failover` false: no other target is tried after one has failed, unless the caller asks for it. `retries` replaces
    the retries of all models.
    """

    name: str
    targets: tuple[ModelTarget, ...]
    fallback: tuple[str, ...] = ()
    strategy: Strategy = "weighted"
    affinity: Affinity | None = None
    operations: frozenset[str] | None = None
    timeouts: Mapping[str, float] = field(default_factory=dict)
    limits: BoundsConfig = NO_BOUNDS
    facts: Mapping[str, Any] = field(default_factory=dict)
    failover: bool = True
    retries: RetriesConfig | None = None


class TeamEntry(Value, frozen=True, kw_only=True):
    """A team, or a user, of keys in conf, by its name: the limits that these keys share."""

    name: str
    budget: Budget = NO_BUDGET
    limits: Limits = NO_LIMITS


class KeyEntry(Value, frozen=True, kw_only=True):
    """A key from conf. Empty `models` and `operations` mean all; entries with the same `account` share its stored data.

    `index` is its position in the list of conf.
    """

    name: str
    key: Secret
    account: str
    models: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    concurrent_requests: int | None = None
    budget: Budget = NO_BUDGET
    user: str = ""
    team: str = ""
    tags: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    role: Role = "member"
    index: int = 0


class LimitsConfig(Value, frozen=True, kw_only=True):
    """Limits. The rate limits apply to keys without their own; None means no limit. `gateway` bounds all requests
    together.

    `store` is the address of the Redis or Valkey that counts for several nodes; "": they are counted on this machine.

    `body_bytes` is the maximum size of a JSON body, `upload_bytes` the maximum size of a form. `body_values` is the
    maximum cost of the values in a JSON body, see `codec.json_bounds`. `bodies_bytes` is the maximum memory for all
    large JSON bodies together, `forms_bytes` the maximum disk space for all forms; excess bodies wait (back-pressure).
    `turns_bytes` is the maximum memory for the turns that WebSocket connections can continue. A body that arrives
    slower than `body_bytes_per_second` is refused; 0 means no minimum.

    `open_requests`, `loop_lag_seconds` and `memory_bytes` are bounds of a process beyond which new requests are refused
    (`admission/overload.py`); `memory_bytes` None: a part of the container's memory.

    These limit the size of an upstream's response, decompressed: `stream_bytes` for a stream of events, `event_bytes`
    for one event, `media_answer_bytes` for images, speech and embeddings, `answer_bytes` for all others; `file_bytes`
    for one file, such as a video, which is never in memory as a whole. `answers_bytes` is the maximum memory for all
    large responses and incomplete events.
    """

    store: Secret = Secret("")
    gateway: BoundsConfig = NO_BOUNDS
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    body_bytes: int = 32 * 1024 * 1024
    upload_bytes: int = 512 * 1024 * 1024
    body_values: int = 500_000
    body_bytes_per_second: int = 1024
    bodies_bytes: int = 512 * 1024 * 1024
    forms_bytes: int = 4 * 1024 * 1024 * 1024
    turns_bytes: int = 256 * 1024 * 1024
    answer_bytes: int = 64 * 1024 * 1024
    event_bytes: int = 16 * 1024 * 1024
    answers_bytes: int = 1024 * 1024 * 1024
    open_requests: int = 10_000
    loop_lag_seconds: float = 1.0
    memory_bytes: int | None = None
    media_answer_bytes: int = 256 * 1024 * 1024
    stream_bytes: int = 256 * 1024 * 1024
    file_bytes: int = 2 * 1024 * 1024 * 1024


class BucketConfig(Value, frozen=True, kw_only=True):
    """A bucket for the files that the gateway serves, which several nodes share.

    `store` is its address (``s3://bucket/prefix``), `endpoint` that of its service, "" for the vendor's. `options` are
    options of the client library. `secret` signs the addresses of files; "": a key that the bucket keeps. With
    `redirect`, callers read files from the bucket. Files that are not uploaded yet may use `spool_bytes` of the disk.
    """

    store: str
    endpoint: str = ""
    options: Mapping[str, Secret] = field(default_factory=dict)
    secret: Secret = Secret("")
    redirect: bool = False
    spool_bytes: int = 4 * 1024 * 1024 * 1024


class MediaConfig(Value, frozen=True, kw_only=True):
    """Files that the gateway serves: the maximum size of all together, and the lifetime of each in seconds.

    `bucket` None: they lie in folders below data_dir.
    """

    max_bytes: int = MEDIA_BYTES
    seconds: float = MEDIA_SECONDS
    bucket: BucketConfig | None = None


class VideosConfig(Value, frozen=True, kw_only=True):
    """Video tasks. At most `concurrency` tasks of one provider entry run at a time; an account may have `queued_per_account`
    unfinished tasks. A task is polled every `poll_seconds`, fails after `task_seconds`, and is deleted `keep_seconds` later. An
    attempt to download a finished video may take `download_seconds`.

    `max_bytes` is the storage for finished videos. `prefixes` are the path prefixes of the vendor-style routes.
    `bounds` are (minimum, maximum) of request parameters that override the format's: seconds, side, fps, n.
    """

    concurrency: int = 4
    queued_per_account: int = 100
    poll_seconds: float = 5.0
    task_seconds: float = 3600.0
    download_seconds: float = 3600.0
    keep_seconds: float = 24 * 3600.0
    max_bytes: int = 20 * 1024 * 1024 * 1024
    prefixes: tuple[str, ...] = ("vendor",)
    bounds: Mapping[str, tuple[int, int]] = field(default_factory=dict)


class TasksConfig(Value, frozen=True, kw_only=True):
    """Where the state of video tasks is: in files in the data directory, or in the database that all nodes share."""

    store: Literal["file", "database"] = "file"


class StateConfig(Value, frozen=True, kw_only=True):
    """Where short-lived state is: in files in the data directory, or in the database that all nodes share.

    `max_bytes` is the space of all kept values in the database.
    """

    store: Literal["file", "database"] = "file"
    max_bytes: int = 4 * 1024 * 1024 * 1024


class RealtimeConfig(Value, frozen=True, kw_only=True):
    """Realtime sessions: open sessions per key and per account, client secrets of an account that have not expired,
    duration of a session, messages per second from a caller (excess messages wait), size of a message. `origins` are the web
    origins that may open a session; empty means all.
    """

    sessions_per_key: int = 20
    sessions_per_account: int = 100
    client_secrets_per_account: int = 1000
    minutes: float = 60.0
    messages_per_second: int = 200
    message_bytes: int = 1024 * 1024
    origins: tuple[str, ...] = ()


class CorsConfig(Value, frozen=True, kw_only=True):
    """Web pages of other origins that may use the API with a key: their origins, such as ``https://app.example``, or
    ``*``.

    Empty: none. A browser keeps the response to its preflight request for `seconds`.
    """

    origins: frozenset[str] = frozenset()
    seconds: float = 600.0


class ConsoleConfig(Value, frozen=True, kw_only=True):
    """The console: the rule for sign-ups after the first account, and the duration of a session, in seconds.

    `enabled` false removes the console, /admin/v1 and /docs.
    """

    enabled: bool = True
    signup: Literal["open", "invite", "closed"] = "invite"
    session_seconds: float = 14 * 24 * 3600.0


class AccountsConfig(Value, frozen=True, kw_only=True):
    """Defaults of accounts.

    `default_limits` and `default_budget` apply to users without their own. `personal_keys`: whether members of a team
    with limits may make keys outside it, unless the team decides.
    """

    default_limits: Limits = NO_LIMITS
    default_budget: Budget = NO_BUDGET
    personal_keys: bool = False


class OidcConfig(Value, frozen=True, kw_only=True):
    """An OpenID Connect provider with which people sign in to the console. `name` is shown on the button.

    `groups` maps groups of the provider, in the claim `groups_claim`, to teams. An empty `client_secret`: a public client.
    """

    issuer: str
    client_id: str
    client_secret: Secret
    name: str = "OpenID"
    scopes: tuple[str, ...] = ("openid", "email", "profile")
    groups_claim: str = "groups"
    groups: Mapping[str, str] = field(default_factory=dict)


class LedgerConfig(Value, frozen=True, kw_only=True):
    """The usage ledger. It keeps requests and the totals of hours and days for these times.

    `whole_months`: keep the rows of a month until all are old. While the database is away, its rows may take this much
    disk. `bodies`: also record the beginning of request bodies.
    """

    keep_days: int = 90
    whole_months: bool = False
    keep_totals_days: int = 1100
    spool_bytes: int = 256 * 1024 * 1024
    bodies: bool = False


class FetchRules(Value, frozen=True, kw_only=True):
    """Rules for fetching URLs from clients and upstreams.

    `allow_private` allows private networks and this machine, but never the metadata addresses of clouds; `allow_networks`
    allows the networks in it. `ports` None allows all ports except `http.fetch.addresses.DENIED_PORTS`. `seconds` limits one
    fetch; for a streamed file it limits the time to the first chunk, and `gap_seconds` the time between two chunks. At most
    `parallel` fetches run at a time. `max_bytes` limits one file, `request_bytes` the files of one request together, and
    `total_bytes` the memory of all fetched files, with their copies in base64 and JSON. One account has at most a quarter of
    `parallel` and of `total_bytes`; its further fetches wait. `network` has the proxy and the authorities of fetches.
    """

    max_bytes: int = 20 * 1024 * 1024
    request_bytes: int = 64 * 1024 * 1024
    total_bytes: int = 1024 * 1024 * 1024
    seconds: float = 20.0
    gap_seconds: float = 60.0
    redirects: int = 3
    allow_private: bool = False
    allow_networks: tuple[IPv4Network | IPv6Network, ...] = ()
    schemes: frozenset[str] = frozenset({"http", "https"})
    ports: frozenset[int] | None = None
    parallel: int = 32
    network: Network = DIRECT


class Config(Value, frozen=True, kw_only=True):
    """The whole file. `lines` maps a key path to its line, for faults that a plugin's `configure` finds later.

    `inactive` are the entries that are off because a plugin is: (key path, reason). `plugins` are on or off.
    `plugin_options` has the plugins that are on and have options. `unlisted_plugins` maps provider entries that are off
    to their plugins, which ``plugins`` does not list. `sections` are the top-level keys with a value. `is_closed`: the
    file ends with the line ``...``. `warnings` are (key path, message) of values that are valid but unsafe. `version` is
    the digest of the file's text, "" without a file.
    """

    path: Path | None
    server: ServerConfig = ServerConfig()
    plugins: Mapping[str, bool] = field(default_factory=dict)
    plugin_options: Mapping[str, PluginOptions] = field(default_factory=dict)
    providers: Mapping[str, ProviderConfig] = field(default_factory=dict)
    models: Mapping[str, ModelEntry] = field(default_factory=dict)
    keys: tuple[KeyEntry, ...] = ()
    limits: LimitsConfig = LimitsConfig()
    circuits: CircuitsConfig = CircuitsConfig()
    retries: RetriesConfig = RetriesConfig()
    media: MediaConfig = MediaConfig()
    videos: VideosConfig = VideosConfig()
    tasks: TasksConfig = TasksConfig()
    state: StateConfig = StateConfig()
    realtime: RealtimeConfig = RealtimeConfig()
    responses: ResponseRules = ResponseRules()
    fetch: FetchRules = FetchRules()
    network: Network = DIRECT
    database: Secret = Secret("")
    console: ConsoleConfig = ConsoleConfig()
    accounts: AccountsConfig = AccountsConfig()
    oidc: OidcConfig | None = None
    cors: CorsConfig = CorsConfig()
    ledger: LedgerConfig = LedgerConfig()
    alerts: AlertsConfig = AlertsConfig()
    tapes: TapesConfig | None = None
    users: Mapping[str, TeamEntry] = field(default_factory=dict)
    teams: Mapping[str, TeamEntry] = field(default_factory=dict)
    prices: Mapping[str, PriceEntry] = field(default_factory=dict)
    default_prices: bool = True
    unpriced: Literal["allow", "deny"] = "allow"
    defaults: Mapping[str, str] = field(default_factory=dict)
    dialect: Literal["contract", "vendor", "auto"] = "auto"
    lines: Mapping[tuple[str | int, ...], int] = field(default_factory=dict)
    inactive: tuple[tuple[tuple[str | int, ...], str], ...] = ()
    unlisted_plugins: Mapping[str, str] = field(default_factory=dict)
    sections: frozenset[str] = frozenset()
    is_closed: bool = False
    warnings: tuple[tuple[tuple[str | int, ...], str], ...] = ()
    version: str = ""
