"""What one key of conf says of another: names that must exist, loops, doubles, and what is off because a plugin is.

Works on what is sound of a file that may have faults, so that all of them are found in one pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Any

from tornado_gate.config.faults import Fault, KeyPath, KnownNames, did_you_mean
from tornado_gate.config.model import FIRST_PARTY_FORMATS
from tornado_gate.types.value import State, field

Data = Mapping[str, Any]

MAX_FALLBACK_DEPTH = 10


class InactiveKeys(State):
    """What is off, by key path, with the reason. All that lies below such a path is off with it."""

    reasons: dict[KeyPath, str] = field(default_factory=dict)

    def covers(self, path: KeyPath) -> bool:
        return any(path[:length] in self.reasons for length in range(1, len(path) + 1))


def get_section(data: Data, name: str) -> dict[str, Any]:
    """A section of entries; a faulty entry is an empty one, because its name exists all the same."""
    return {key: entry or {} for key, entry in (data.get(name) or {}).items()}


def list_targets(entry: Data) -> list[tuple[KeyPath, Data]]:
    """The targets of a model's entry, with their paths below it: the short form is a list of one."""
    if "targets" in entry:
        return [(("targets", index), target or {}) for index, target in enumerate(entry["targets"])]
    return [((), entry)] if "provider" in entry else []


def wildcard_matches(pattern: str, name: str) -> bool:
    """Whether `name` is one of those that the model name `pattern`, with one ``*``, stands for."""
    before, star, after = pattern.partition("*")
    long_enough = len(name) > len(before) + len(after)
    return bool(star) and long_enough and name.startswith(before) and name.endswith(after)


def find_inactive(data: Data) -> InactiveKeys:
    """What is off because a plugin is: providers, targets, models that have no other target, and what names those."""
    inactive = InactiveKeys()
    models = get_section(data, "models")
    _disable_providers(data, inactive)
    for name, entry in models.items():
        _disable_targets(name, entry, inactive)
    for name, entry in models.items():
        for index, other in enumerate(entry.get("fallback") or []):
            if ("models", str(other)) in inactive.reasons:
                inactive.reasons["models", name, "fallback", index] = f"the model '{other}' is off"
    for operation, model in (data.get("defaults") or {}).items():
        found = _find_model_entries(str(model), models)
        if found and all(("models", name) in inactive.reasons for name in found):
            inactive.reasons["defaults", operation] = f"the model '{model}' is off"
    return inactive


def _disable_providers(data: Data, inactive: InactiveKeys) -> None:
    plugins = data.get("plugins") or {}
    for name, entry in get_section(data, "providers").items():
        plugin = entry.get("plugin")
        if plugin is None or plugins.get(plugin, plugin in FIRST_PARTY_FORMATS):
            continue
        if plugin in plugins:
            reason = f"its plugin '{plugin}' is off"
        else:
            reason = f"its plugin '{plugin}' is not named under plugins, so it is off{did_you_mean(plugin, plugins)}"
        inactive.reasons["providers", name] = reason


def _disable_targets(name: str, entry: Data, inactive: InactiveKeys) -> None:
    targets = [(path, target.get("provider")) for path, target in list_targets(entry)]
    off = {path: provider for path, provider in targets if ("providers", str(provider)) in inactive.reasons}
    if off and len(off) == len(targets):
        providers = " and ".join(f"'{provider}'" for provider in dict.fromkeys(off.values()))
        inactive.reasons["models", name] = f"the plugin of its provider {providers} is off"
        return
    for path, provider in off.items():
        inactive.reasons["models", name, *path] = f"the plugin of its provider '{provider}' is off"


def find_faults(data: Data, broken: Set[KeyPath]) -> Iterator[Fault]:
    """Every fault between keys that are sound by themselves; what stands in `broken` has one of its own already."""
    for path, message in _find_cross_key_faults(data):
        if path not in broken and path[:-1] not in broken and not _is_consequence(path, broken):
            yield path, message


def _is_consequence(path: KeyPath, broken: Set[KeyPath]) -> bool:
    """Whether a name is unknown, or missing, only because what should give it is broken."""
    if path[0] == "models" and path[-1] == "provider":
        return ("providers",) in broken or (*path[:2], "targets") in broken
    return path[0] == "defaults" and ("models",) in broken


def _find_cross_key_faults(data: Data) -> Iterator[Fault]:
    models = get_section(data, "models")
    known_models, known_providers = KnownNames(models), KnownNames(get_section(data, "providers"))
    for name, entry in models.items():
        yield from _find_target_faults(name, entry, known_providers)
        yield from _find_fallback_faults(name, entry, models, known_models)
    yield from _find_fallback_loops(models)
    yield from _find_key_faults(data.get("keys") or [])
    yield from _find_default_faults(data.get("defaults") or {}, models)
    yield from _find_port_faults(data.get("server") or {})


def _find_target_faults(name: str, entry: Data, providers: KnownNames) -> Iterator[Fault]:
    path: KeyPath = ("models", name)
    if "targets" in entry and "provider" in entry:
        yield (*path, "provider"), "must not stand beside targets; give one or the other"
    elif "targets" in entry and "model" in entry:
        yield (*path, "model"), "must not stand beside targets; each target has its own"
    elif "targets" not in entry and "provider" not in entry:
        yield (*path, "provider"), "is missing; name an entry of providers, or give a list of targets"
    for below, target in list_targets(entry):
        provider = target.get("provider")
        if provider is not None and provider not in providers:
            yield (*path, *below, "provider"), providers.describe_unknown(f"provider '{provider}'", provider)
        if "*" in str(target.get("model") or "") and "*" not in name:
            yield (*path, *below, "model"), "holds *, which stands for the * of the model's name; this name has none"


def _find_fallback_faults(name: str, entry: Data, models: Data, known: KnownNames) -> Iterator[Fault]:
    for index, other in enumerate(entry.get("fallback") or []):
        path: KeyPath = ("models", name, "fallback", index)
        if other is None:
            continue  # a fault of its own
        if other not in models:
            yield path, known.describe_unknown(f"model '{other}'", other)
        elif "*" in other and "*" not in name:
            yield path, f"'{other}' stands for many models; name one without *"


def _find_fallback_loops(models: Data) -> Iterator[Fault]:
    """Each fallback that leads back to a model on the way to it. A walk with its own stack: chains may be long."""
    done: set[str] = set()
    for start in models:
        if start in done:
            continue
        way = {start: iter(enumerate(models[start].get("fallback") or []))}
        while way:
            name, rest = next(reversed(way.items()))
            step = next(rest, None)
            if step is None:
                done.add(name)
                del way[name]
                continue
            index, other = step
            if other in way:
                circle = _format_chain([*list(way)[list(way).index(other) :], other])
                yield ("models", name, "fallback", index), f"makes a loop: {circle}; a fallback must lead to an end"
            elif other in models and other not in done:
                way[other] = iter(enumerate(models[other].get("fallback") or []))


def _format_chain(names: list[str]) -> str:
    shown = names if len(names) <= MAX_FALLBACK_DEPTH else [*names[:5], "…", *names[-4:]]
    return " -> ".join(shown)


def _find_key_faults(keys: list[Data | None]) -> Iterator[Fault]:
    names: dict[str, int] = {}
    secrets: dict[str, int] = {}
    for index, entry in enumerate(keys):
        name, secret = (entry or {}).get("name"), (entry or {}).get("key")
        if name is not None and names.setdefault(name, index) != index:
            yield ("keys", index, "name"), f"'{name}' is the name of keys.{names[name]} too; each key needs its own"
        if secret and secrets.setdefault(secret, index) != index:
            yield ("keys", index, "key"), f"is the same key as keys.{secrets[secret]}; each entry needs its own"


def _find_default_faults(defaults: Data, models: Data) -> Iterator[Fault]:
    known = KnownNames(name for name in models if "*" not in name)
    for operation, model in defaults.items():
        if model is None:
            continue  # a fault of its own
        if "*" in model:
            yield ("defaults", operation), f"'{model}' stands for many models; name one without *"
        elif not _find_model_entries(model, models):
            yield ("defaults", operation), known.describe_unknown(f"model '{model}'", model)


def _find_model_entries(name: str, models: Data) -> list[str]:
    """The entries that a name may be served by."""
    return [name] if name in models else [pattern for pattern in models if wildcard_matches(pattern, name)]


def _find_port_faults(server: Data) -> Iterator[Fault]:
    metrics_port = server.get("metrics_port")
    if metrics_port and metrics_port == server.get("port", 8080):
        yield ("server", "metrics_port"), "must be another port than server.port; leave it out to serve both on one"
