"""Conf as frozen data: what `conf/gate.yaml` says, checked, with every default filled in."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Any, Literal

from tornado_gate.types import Timeouts
from tornado_gate.types.value import Value, field

MEDIA_BYTES = 2 * 1024 * 1024 * 1024
MEDIA_SECONDS = 24 * 3600.0

FIRST_PARTY_FORMATS = ("format-openai", "format-anthropic", "format-gemini")
"""Plugins that are on unless conf says off, when they are installed."""


class Secret(str):
    """A value that must not be shown. `repr` masks it, so that no dataclass, traceback or log line gives it away."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "Secret(***)" if self else "Secret('')"


class ServerConfig(Value, frozen=True, kw_only=True):
    """`processes` 0 means one for each core. Seconds where a name ends in seconds.

    `metrics_port` None serves /metrics on `port`. `drain_seconds` is how long open requests may go on after SIGTERM.
    `loop`, `http` (towards callers) and `upstream_http` each choose the fast part or the general one of the same behaviour.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    processes: int = 1
    data_dir: Path = Path("var")
    public_url: str = ""
    metrics_port: int | None = None
    access_log: bool = True
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["json", "text"] = "json"
    drain_seconds: float = 30.0
    hook_seconds: float = 5.0
    keep_alive_seconds: float = 15.0
    loop: Literal["uvloop", "asyncio"] = "uvloop"
    http: Literal["httptools", "tornado"] = "httptools"
    upstream_http: Literal["httptools", "aiohttp"] = "httptools"


class ProviderConfig(Value, frozen=True, kw_only=True):
    """An account at an upstream. `settings` are the entry's keys that belong to its plugin."""

    name: str
    plugin: str
    base_url: str = ""
    api_key: Secret = Secret("")
    headers: Mapping[str, Secret] = field(default_factory=dict)
    timeouts: Timeouts = Timeouts()
    settings: Mapping[str, Any] = field(default_factory=dict)


class ModelTarget(Value, frozen=True, kw_only=True):
    """Where a model is served. `model` None means the name the client asked for (after a wildcard: the rest of it)."""

    provider: str
    model: str | None = None
    weight: int = 1


class ModelEntry(Value, frozen=True, kw_only=True):
    """A name that clients may ask for; one `*` in it stands for the rest of the name.

    `fallback` are names of other entries. `operations` None means all that the plugin offers. `timeouts` holds only what
    the entry narrows. `facts` are the descriptive keys (`display_name`, `input_token_limit`, …) that were given.
    """

    name: str
    targets: tuple[ModelTarget, ...]
    fallback: tuple[str, ...] = ()
    operations: frozenset[str] | None = None
    timeouts: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)


class KeyEntry(Value, frozen=True, kw_only=True):
    """A key given by file. Empty `models` and `operations` mean all; entries that share `account` share what it owns."""

    name: str
    key: Secret
    account: str
    models: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None


class LimitsConfig(Value, frozen=True, kw_only=True):
    """For keys that say nothing of their own; None means no limit.

    `body_bytes` is the largest JSON body, `upload_bytes` the largest form; `bodies_bytes` is what large JSON bodies may take
    together: whoever comes when that is full waits.
    """

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    body_bytes: int = 32 * 1024 * 1024
    upload_bytes: int = 512 * 1024 * 1024
    bodies_bytes: int = 256 * 1024 * 1024


class MediaConfig(Value, frozen=True, kw_only=True):
    """Files that the gateway serves: all of them together, and for how long each."""

    max_bytes: int = MEDIA_BYTES
    seconds: float = MEDIA_SECONDS


class CircuitsConfig(Value, frozen=True, kw_only=True):
    """When a target is left alone: after `failures` in a row, for `open_seconds`, then one request probes it."""

    failures: int = 5
    open_seconds: float = 10.0


class VideosConfig(Value, frozen=True, kw_only=True):
    """Video tasks. `concurrency` of one provider entry run at a time; an account may have `queued_per_account` that have not
    ended; one is looked at each `poll_seconds`, given up after `task_seconds`, and kept for `keep_seconds` once it has ended.

    `max_bytes` is room for finished videos. `prefixes` are the words that stand before the vendor-style routes.
    `bounds` are least and most of what a request may ask for, where they differ from the format's: seconds, side, fps, n.
    """

    concurrency: int = 4
    queued_per_account: int = 100
    poll_seconds: float = 5.0
    task_seconds: float = 3600.0
    keep_seconds: float = 24 * 3600.0
    max_bytes: int = 20 * 1024 * 1024 * 1024
    prefixes: tuple[str, ...] = ("vendor",)
    bounds: Mapping[str, tuple[int, int]] = field(default_factory=dict)


class RealtimeConfig(Value, frozen=True, kw_only=True):
    """Sessions by voice: how many a key may have open in one process, for how long each, how many messages a caller may send
    in a second (then it is slowed down), how large one may be. `origins` are the pages that may open one; empty means all.
    """

    sessions_per_key: int = 20
    minutes: float = 60.0
    messages_per_second: int = 200
    message_bytes: int = 1024 * 1024
    origins: tuple[str, ...] = ()


class FetchRules(Value, frozen=True, kw_only=True):
    """What may be fetched from addresses that clients and upstreams give.

    `allow_private` opens the networks of an organisation and the machine itself, never the addresses that clouds give secrets
    on; `allow_networks` opens any network that it names. `ports` None: all but `http.fetch.DENIED_PORTS`. `seconds` limits one
    fetch; of a file that is read while it arrives it limits the time until the file begins, and `gap_seconds` the time between
    two chunks. At most `parallel` fetches run at once.
    """

    max_bytes: int = 20 * 1024 * 1024
    seconds: float = 20.0
    gap_seconds: float = 60.0
    redirects: int = 3
    allow_private: bool = False
    allow_networks: tuple[IPv4Network | IPv6Network, ...] = ()
    schemes: frozenset[str] = frozenset({"http", "https"})
    ports: frozenset[int] | None = None
    parallel: int = 32


class Config(Value, frozen=True, kw_only=True):
    """The whole file. `lines` maps a key path to its line, for faults that are found later (by a plugin's `configure`).

    `inactive` are entries that are off because a plugin is: (key path, why).
    """

    path: Path | None
    server: ServerConfig = ServerConfig()
    plugins: Mapping[str, bool] = field(default_factory=dict)
    providers: Mapping[str, ProviderConfig] = field(default_factory=dict)
    models: Mapping[str, ModelEntry] = field(default_factory=dict)
    keys: tuple[KeyEntry, ...] = ()
    limits: LimitsConfig = LimitsConfig()
    circuits: CircuitsConfig = CircuitsConfig()
    media: MediaConfig = MediaConfig()
    videos: VideosConfig = VideosConfig()
    realtime: RealtimeConfig = RealtimeConfig()
    fetch: FetchRules = FetchRules()
    defaults: Mapping[str, str] = field(default_factory=dict)
    dialect: Literal["contract", "vendor", "auto"] = "auto"
    lines: Mapping[tuple[str | int, ...], int] = field(default_factory=dict)
    inactive: tuple[tuple[tuple[str | int, ...], str], ...] = ()
