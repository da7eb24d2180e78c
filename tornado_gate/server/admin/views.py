"""The administrator's views of models, providers, plugins and video tasks, for /admin/v1 and for the console's pages.

They are plain values without secrets: no key, no header, no path or query of an address, no prompt. Each process has
separate circuits and failures; the views show the ones of the process that responds. `describe_providers` only reads
memory. `describe_models` is a coroutine, because there may be many models. `describe_plugins` and `list_tasks` are
coroutines, because they also read files.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Literal

from tornado_gate.config.model import FIRST_PARTY_FORMATS, Config, ModelEntry, ModelTarget
from tornado_gate.config.secret_moves import read_origin
from tornado_gate.hookspecs import Capabilities
from tornado_gate.pipeline.conf_secrets import collect_secrets
from tornado_gate.pipeline.snapshot import Snapshot
from tornado_gate.plugins import failure_log
from tornado_gate.plugins.host import Plugin, make_absent_plugin
from tornado_gate.server.admin.target_views import CircuitView, KeyView, ModelState, State, TargetView, judge_state
from tornado_gate.server.services import Services
from tornado_gate.targets.circuits import EVERYBODY, Circuit
from tornado_gate.targets.configured_provider import ConfiguredProvider
from tornado_gate.targets.routing import resolve_upstream_model
from tornado_gate.tasks.record import TaskRecord
from tornado_gate.telemetry.redaction import Scrubber
from tornado_gate.types.model_names import canonicalize_glob, canonicalize_name
from tornado_gate.types.value import Value, field

MODELS_AT_ONCE = 500
"""The number of models that are described in one turn of the event loop: 10,000 take 80 ms."""


class ModelView(Value, frozen=True, kw_only=True):
    """A model entry of conf. `wildcard`: its name has a ``*``. `facts` are its descriptive keys, such as
    `display_name`.

    `operations` are what its upstream models can do. `state`: `available`: a target works; `failing`: the circuits of its
    targets are open, or the last requests failed; `unavailable`: no target can be used; `inactive`: the plugins of its
    targets are off. `reason` is the reason for the state, and names the targets that do not work. `strategy` is how its
    targets are chosen, `affinity` are the sources of its cache affinity. `abilities` are what its first upstream model can
    do in a chat, such as ``tools`` and ``images``, and `context_tokens` is how much that model reads; both are empty for a
    pattern, and if unknown.
    """

    name: str
    wildcard: bool
    state: ModelState
    reason: str
    operations: tuple[str, ...]
    targets: tuple[TargetView, ...]
    fallback: tuple[str, ...]
    facts: Mapping[str, Any]
    strategy: str = "weighted"
    affinity: tuple[str, ...] = ()
    abilities: tuple[str, ...] = ()
    context_tokens: int | None = None


class ProviderView(Value, frozen=True, kw_only=True):
    """A provider entry of conf. `origin` is scheme and host of its address. `has_api_key`: a key is set.

    `wire_formats` are the formats whose bodies it accepts unchanged. `models` are the entries that have it as a target.
    `timeouts` are in seconds. `keys` are the keys of an entry with several. `health` is "down" while its health checks
    fail, "up" while they succeed, "" without checks.
    """

    name: str
    plugin: str
    state: State
    error: str
    origin: str
    has_api_key: bool
    operations: tuple[str, ...]
    wire_formats: tuple[str, ...]
    timeouts: Mapping[str, float]
    models: tuple[str, ...]
    circuits: tuple[CircuitView, ...]
    keys: tuple[KeyView, ...] = ()
    health: Literal["", "up", "down"] = ""


class PluginView(Value, frozen=True, kw_only=True):
    """A plugin that is installed, or that conf names. `kind` is "" for a plugin that is not loaded.

    `hooks` are the implemented hooks by side (format, provider). `failed_at` (Unix seconds) and `last_failure` are the
    last failure of any process since the start; a plugin that failed once may be on. `version` is the running version,
    `update` the version after a restart, if it differs.
    """

    name: str
    distribution: str
    version: str
    kind: str
    state: State
    required: bool
    error: str
    hooks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    operations: tuple[str, ...] = ()
    failed_at: float | None = None
    last_failure: str = ""
    update: str = ""


class TaskView(Value, frozen=True, kw_only=True):
    """A video task without its prompt. Times are Unix seconds; `key` is the id of the key that created it."""

    id: str
    account: str
    key: str
    model: str
    provider: str
    upstream_model: str
    status: str
    progress: int
    created: float
    started: float | None
    completed: float | None
    expires: float | None
    error_code: str
    error_message: str
    videos: int
    bytes: int


class TaskViews(Value, frozen=True, kw_only=True):
    """A page of tasks; `next` is the id after which the next page begins, "" on the last one. A page may be short."""

    tasks: tuple[TaskView, ...]
    next: str


# Models


async def describe_models(services: Services) -> list[ModelView]:
    """Return the models of conf in its order, with their targets and their current state; then the models that are off."""
    snapshot = services.gate.snapshot
    circuits = list_circuits(services)
    views: list[ModelView] = []
    for entry in snapshot.config.models.values():
        views.append(_describe_model(services, snapshot, entry, circuits))
        if len(views) % MODELS_AT_ONCE == 0:
            await asyncio.sleep(0)
    off = [
        (str(path[1]), reason) for path, reason in snapshot.config.inactive if path[0] == "models" and len(path) == 2
    ]
    return views + [_make_inactive_model(name, reason) for name, reason in off]


def _describe_model(
    services: Services, snapshot: Snapshot, entry: ModelEntry, circuits: list[CircuitView]
) -> ModelView:
    targets = tuple(_describe_target(services, snapshot, entry, target, circuits) for target in entry.targets)
    affinity = entry.affinity
    state, reason = judge_state(targets)
    abilities, context = _find_facts(snapshot, entry, targets)
    return ModelView(
        name=entry.name,
        wildcard="*" in entry.name,
        state=state,
        reason=reason,
        operations=tuple(sorted({name for target in targets for name in target.operations})),
        targets=targets,
        fallback=entry.fallback,
        facts=entry.facts,
        strategy=entry.strategy,
        abilities=abilities,
        context_tokens=context,
        affinity=()
        if affinity is None
        else (*affinity.sources, *((affinity.otherwise,) if affinity.otherwise != "none" else ())),
    )


def _find_facts(
    snapshot: Snapshot, entry: ModelEntry, targets: tuple[TargetView, ...]
) -> tuple[tuple[str, ...], int | None]:
    """Return the abilities and the context of the first target's model. conf's context comes first."""
    context = entry.facts.get("input_token_limit")
    if "*" in entry.name or not targets:
        return (), context
    provider, model = targets[0].provider, targets[0].upstream_model
    abilities = list_abilities(snapshot.targets.providers[provider].capabilities, model)
    return abilities, context or snapshot.prices.find_context(provider, model)


def list_abilities(capabilities: Capabilities, model: str) -> tuple[str, ...]:
    """Return what an upstream model can do in a chat; () if it does not chat, or is unknown."""
    table = capabilities.model_table
    return () if table is None or "chat" not in capabilities.get_operations(model) else table.list_abilities(model)


def _describe_target(
    services: Services, snapshot: Snapshot, entry: ModelEntry, target: ModelTarget, circuits: list[CircuitView]
) -> TargetView:
    provider = snapshot.targets.providers[target.provider]
    upstream_model = resolve_upstream_model(entry.name, "*" if "*" in entry.name else "", target)
    prefix, star, suffix = canonicalize_glob(upstream_model).partition("*")
    offered = provider.capabilities.get_operations(upstream_model)
    load = (
        snapshot.targets.loads.peek(target.provider, upstream_model)
        if entry.name in snapshot.targets.measured
        else None
    )
    latency = None if load is None else load.latency
    return TargetView(
        provider=target.provider,
        plugin=provider.entry.plugin,
        upstream_model=upstream_model,
        weight=target.weight,
        state="on" if provider.lane is not None else "failed",
        error=_get_provider_error(snapshot, provider),
        operations=tuple(sorted(offered if entry.operations is None else offered & entry.operations)),
        priced=snapshot.prices.find_price(target.provider, upstream_model) is not None,
        down=target.provider in services.gate.health.circuits.down,
        keys=_list_keys(services, provider, upstream_model),
        in_flight=None if load is None else load.in_flight,
        first_event_seconds=None if latency is None else round(latency, 3),
        circuits=tuple(
            circuit
            for circuit in circuits
            if circuit.provider == target.provider
            and (
                circuit.upstream_model.startswith(prefix) and circuit.upstream_model.endswith(suffix)
                if star
                else circuit.upstream_model == prefix
            )
        ),
    )


def _list_keys(services: Services, provider: ConfiguredProvider, upstream_model: str = "") -> tuple[KeyView, ...]:
    """Return the keys of an entry with several, and how long each is suspended for an upstream model, or for all."""
    gate, views = services.gate, []
    now = gate.health.circuits.clock()
    for key in provider.keys:
        suspensions = gate.health.keys.get_suspensions(provider.entry.name, key.fingerprint)
        ends = 0.0 if suspensions is None else suspensions.get_end(canonicalize_name(upstream_model))
        seconds = max(0.0, ends - now)
        code = suspensions.code if suspensions is not None and seconds else ""
        views.append(KeyView(number=key.number, rests_seconds=round(seconds, 1), error_code=code))
    return tuple(views)


def _make_inactive_model(name: str, reason: str) -> ModelView:
    return ModelView(
        name=name,
        wildcard="*" in name,
        state="inactive",
        reason=reason,
        operations=(),
        targets=(),
        fallback=(),
        facts={},
    )


# Circuits and providers


def list_circuits(services: Services) -> list[CircuitView]:
    """Return the circuits of targets that have failed: the machine's open circuits, and all circuits of this process."""
    health = services.gate.health.circuits
    now = health.clock()
    return [_describe_circuit(name, circuit, now) for name, circuit in sorted(health.list_all().items())]


def _describe_circuit(name: tuple[str, str], circuit: Circuit, now: float) -> CircuitView:
    account = EVERYBODY if circuit.blocked is None else circuit.blocked
    state: Any = circuit.state(account, now)
    failed_at, error_code = circuit.last_failure or (None, "")
    return CircuitView(
        provider=name[0],
        upstream_model=name[1],
        model=circuit.labels[1],
        state=state,
        account=account,
        retry_seconds=round(circuit.wait_seconds(account, now), 1),
        opened_seconds=None if circuit.opened_at is None else round(now - circuit.opened_at, 1),
        failed_seconds=None if failed_at is None else round(now - failed_at, 1),
        error_code=error_code,
        failing=circuit.is_failing,
    )


def describe_providers(services: Services) -> list[ProviderView]:
    """Return the provider entries of conf in its order, then the entries that are off."""
    snapshot = services.gate.snapshot
    circuits = list_circuits(services)
    views = [_describe_provider(services, provider, circuits) for provider in snapshot.targets.providers.values()]
    for path, reason in snapshot.config.inactive:
        if path[0] == "providers" and len(path) == 2:
            views.append(_make_inactive_provider(str(path[1]), reason))
    return views


def _describe_provider(services: Services, provider: ConfiguredProvider, circuits: list[CircuitView]) -> ProviderView:
    entry, capabilities, name = provider.entry, provider.capabilities, provider.entry.name
    snapshot, is_down = services.gate.snapshot, provider.entry.name in services.gate.health.circuits.down
    timeouts = entry.timeouts
    return ProviderView(
        name=name,
        plugin=entry.plugin,
        state="on" if provider.lane is not None else "failed",
        error=_get_provider_error(snapshot, provider),
        origin=read_origin(capabilities.base_url or entry.base_url),
        has_api_key=bool(entry.api_key),
        operations=tuple(sorted(capabilities.operations)),
        wire_formats=tuple(sorted(capabilities.speaks)),
        timeouts={key: getattr(timeouts, key) for key in ("connect", "first_event", "gap", "total")},
        models=tuple(
            model.name
            for model in snapshot.config.models.values()
            if any(target.provider == name for target in model.targets)
        ),
        circuits=tuple(circuit for circuit in circuits if circuit.provider == name),
        keys=_list_keys(services, provider),
        health="" if entry.health_check is None else "down" if is_down else "up",
    )


def _make_inactive_provider(name: str, reason: str) -> ProviderView:
    return ProviderView(
        name=name, plugin="", state="off", error=reason, origin="", has_api_key=False, operations=(), wire_formats=(),
        timeouts={}, models=(), circuits=(),
    )  # fmt: skip


def _get_provider_error(snapshot: Snapshot, provider: ConfiguredProvider) -> str:
    if provider.lane is not None:
        return ""
    plugin = provider.entry.plugin
    return snapshot.plugins.failed.get(plugin, f"its plugin '{plugin}' failed")


# Plugins


async def describe_plugins(services: Services) -> list[PluginView]:
    """Return all installed plugins by name, then the plugins that conf names and that are not installed."""
    gate = services.gate
    recorded = await asyncio.to_thread(failure_log.read, gate.snapshot.config.server.data_dir)
    for name, (moment, detail) in gate.host.failures.items():
        recorded.setdefault(name, {"time": moment, "error": detail})
    switches = gate.snapshot.config.plugins
    absent = [make_absent_plugin(name) for name, on in switches.items() if on and name not in gate.host.plugins]
    plugins = [*gate.host.plugins.values(), *absent]
    scrubber = await asyncio.to_thread(_make_scrubber, gate.snapshot.config)
    views = (_describe_plugin(services, plugin, recorded, scrubber) for plugin in plugins)
    return sorted(views, key=lambda view: view.name)


def _make_scrubber(config: Config) -> Scrubber:
    """Return a scrubber of the secrets in conf. Blocks: the spellings of 10,000 keys take a tenth of a second."""
    return Scrubber(collect_secrets(config))


def _describe_plugin(services: Services, plugin: Plugin, recorded: Mapping[str, Any], scrubber: Scrubber) -> PluginView:
    """Return the view of a plugin. Its errors may repeat its settings, so they are scrubbed."""
    gate, snapshot = services.gate, services.gate.snapshot
    config, name = snapshot.config, plugin.name
    error = snapshot.plugins.failed.get(name) or plugin.error or gate.host.deferred_faults.get(name, "")
    on = config.plugins.get(name, name in FIRST_PARTY_FORMATS)
    failure = recorded.get(name, {})
    options = config.plugin_options.get(name)
    return PluginView(
        name=name,
        distribution=plugin.distribution,
        version=plugin.version,
        kind=plugin.kind,
        state=("failed" if error else "on") if on else "off",
        required=options is not None and options.required,
        error=scrubber.scrub_text(error),
        hooks={side: tuple(sorted(names)) for side, names in plugin.hooks.items()},
        operations=_list_operations(snapshot, name),
        failed_at=failure.get("time"),
        last_failure=scrubber.scrub_text(str(failure.get("error", ""))),
        update=plugin.update,
    )


def _list_operations(snapshot: Snapshot, plugin: str) -> tuple[str, ...]:
    """Return the operations of a format's routes, or the operations that the plugin offers for its provider entries."""
    lane = snapshot.formats.get(plugin)
    operations = {operation for route in lane.routes for operation in route.operations} if lane is not None else set()
    for provider in snapshot.targets.providers.values():
        if provider.entry.plugin == plugin:
            operations |= provider.capabilities.operations
    return tuple(sorted(operations))


# Tasks


async def list_tasks(
    services: Services, *, status: str = "", account: str = "", model: str = "", after: str = "", limit: int = 50
) -> TaskViews:
    """Return video tasks of all accounts, newest first, filtered by the arguments that are not "". Raises InvalidField
    for `after`.
    """

    def accepts(record: TaskRecord) -> bool:
        filters = ((status, record.status), (account, record.account), (model, record.model))
        return all(filter_value in ("", value) for filter_value, value in filters)

    page = await services.tasks.engine.store.list_all(after, limit, accepts)
    return TaskViews(tasks=tuple(describe_task(record) for record in page.records), next=page.next)


def describe_task(record: TaskRecord) -> TaskView:
    """Return the task without its prompt, its webhook and the addresses of its videos."""
    return TaskView(
        id=record.id,
        account=record.account,
        key=record.caller_id,
        model=record.model,
        provider=record.provider,
        upstream_model=record.upstream_model,
        status=record.status,
        progress=record.progress,
        created=record.created_at,
        started=record.started_at,
        completed=record.completed_at,
        expires=record.expires_at,
        error_code=record.error_code,
        error_message=record.error_message,
        videos=len(record.files),
        bytes=sum(file.size for file in record.files),
    )
