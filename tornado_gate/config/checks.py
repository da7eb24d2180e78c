"""Checks between keys of conf: references to names, loops, duplicates, and entries that are off with their plugin.

The checks work on the valid values of a file that may have faults, so that one pass finds all faults.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any

from tornado_gate.config.faults import Fault, KeyPath, KnownNames, did_you_mean
from tornado_gate.config.globs import globs_overlap
from tornado_gate.config.model import FIRST_PARTY_FORMATS
from tornado_gate.config.routing_keys import find_routing_faults
from tornado_gate.types.value import State, field

Data = Mapping[str, Any]

MAX_FALLBACK_DEPTH = 10
SWITCHED_OFF = "it is switched off"


class InactiveKeys(State):
    """The entries that are off: key path to reason. Everything below such a path is off too."""

    reasons: dict[KeyPath, str] = field(default_factory=dict)

    def covers(self, path: KeyPath) -> bool:
        return any(path[:length] in self.reasons for length in range(1, len(path) + 1))


def get_section(data: Data, name: str) -> dict[str, Any]:
    """Return the entries of a section. An invalid entry becomes {}, because references to its name are valid."""
    return {key: entry or {} for key, entry in (data.get(name) or {}).items()}


def list_targets(entry: Data) -> list[tuple[KeyPath, Data]]:
    """Return the targets of a model's entry with their paths below it; the short form is one target."""
    if "targets" in entry:
        return [(("targets", index), target or {}) for index, target in enumerate(entry["targets"])]
    return [((), entry)] if "provider" in entry else []


def wildcard_matches(pattern: str, name: str) -> bool:
    """Return whether `name` matches the model name `pattern`, which has one ``*``."""
    before, star, after = pattern.partition("*")
    long_enough = len(name) > len(before) + len(after)
    return bool(star) and long_enough and name.startswith(before) and name.endswith(after)


def find_inactive(data: Data) -> InactiveKeys:
    """Return the entries that are off because a plugin is: providers, targets, models without other targets, and
    references to them.
    """
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
        entries = _find_model_entries(str(model), models)
        if entries and all(("models", name) in inactive.reasons for name in entries):
            inactive.reasons["defaults", operation] = f"the model '{model}' is off"
    return inactive


def _disable_providers(data: Data, inactive: InactiveKeys) -> None:
    plugins = get_section(data, "plugins")
    for name, entry in get_section(data, "providers").items():
        plugin = entry.get("plugin")
        if entry.get("on") is False:
            inactive.reasons["providers", name] = SWITCHED_OFF
            continue
        if plugin is None or plugins.get(plugin, {"on": plugin in FIRST_PARTY_FORMATS}).get("on"):
            continue
        if plugin in plugins:
            reason = f"its plugin '{plugin}' is off"
        else:
            reason = f"its plugin '{plugin}' is not named under plugins, so it is off{did_you_mean(plugin, plugins)}"
        inactive.reasons["providers", name] = reason


def _disable_targets(name: str, entry: Data, inactive: InactiveKeys) -> None:
    targets = [(path, target.get("provider")) for path, target in list_targets(entry)]
    off = {path: provider for path, provider in targets if ("providers", str(provider)) in inactive.reasons}
    drained = {path for path, target in list_targets(entry) if target.get("weight") == 0}
    if off and all(path in off or path in drained for path, _ in targets):
        providers = " and ".join(f"'{provider}'" for provider in dict.fromkeys(off.values()))
        inactive.reasons["models", name] = f"{_find_subject(inactive, off.values())} {providers} is off"
        return
    for path, provider in off.items():
        inactive.reasons["models", name, *path] = f"{_find_subject(inactive, [provider])} '{provider}' is off"


def _find_subject(inactive: InactiveKeys, providers: Iterable[Any]) -> str:
    """Return what is off: the provider entries themselves, or their plugins."""
    are_switched_off = all(inactive.reasons["providers", str(provider)] == SWITCHED_OFF for provider in providers)
    return "its provider" if are_switched_off else "the plugin of its provider"


def find_faults(data: Data, broken: Set[KeyPath]) -> Iterator[Fault]:
    """Yield the faults between keys that are valid by themselves; `broken` are the paths that already have a fault."""
    for path, message in _find_cross_key_faults(data):
        if path not in broken and path[:-1] not in broken and not _is_consequence(path, broken):
            yield path, message


def _is_consequence(path: KeyPath, broken: Set[KeyPath]) -> bool:
    """Return whether a name is unknown or missing only because the section that defines it has a fault."""
    if path[0] == "tasks":
        return ("database",) in broken
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
    yield from find_routing_faults(get_section(data, "providers"))
    yield from _find_key_faults(data.get("keys") or [])
    yield from _find_unknown_teams(data)
    yield from _find_unmatched_globs(data, models)
    yield from _find_default_faults(data.get("defaults") or {}, models)
    yield from _find_port_faults(data.get("server") or {})
    yield from _find_media_faults(data.get("media") or {})
    yield from _find_task_faults(data)


def _find_target_faults(name: str, entry: Data, providers: KnownNames) -> Iterator[Fault]:
    path: KeyPath = ("models", name)
    if "targets" in entry and "provider" in entry:
        yield (*path, "provider"), "cannot be combined with targets; remove one of the two"
    elif "targets" in entry and "model" in entry:
        yield (*path, "model"), "cannot be combined with targets; set model in each target"
    elif "targets" not in entry and "provider" not in entry:
        yield (*path, "provider"), "is missing; name an entry of providers, or give a list of targets"
    targets = list_targets(entry)
    if targets and all(target.get("weight") == 0 for _, target in targets):
        yield (*path, "targets"), "all weights are 0, so no target gets requests; give one a weight above 0"
    for below, target in targets:
        provider = target.get("provider")
        if provider is not None and provider not in providers:
            yield (*path, *below, "provider"), providers.describe_unknown(f"provider '{provider}'", provider)
        if "*" in str(target.get("model") or "") and "*" not in name:
            yield (*path, *below, "model"), "contains *, but the model's name does not; write the full upstream name"


def _find_fallback_faults(name: str, entry: Data, models: Data, known: KnownNames) -> Iterator[Fault]:
    for index, other in enumerate(entry.get("fallback") or []):
        path: KeyPath = ("models", name, "fallback", index)
        if other is None:
            continue  # reported by the schema
        if other not in models:
            yield path, known.describe_unknown(f"model '{other}'", other)
        elif "*" in other and "*" not in name:
            yield path, f"'{other}' matches many models; name one model without *"


def _find_fallback_loops(models: Data) -> Iterator[Fault]:
    """Yield each fallback that closes a loop. Iterative depth-first search, because chains may be long."""
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
                yield ("models", name, "fallback", index), f"forms a loop: {circle}; remove one of these fallbacks"
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
            yield (
                ("keys", index, "name"),
                f"'{name}' is also the name of keys.{names[name]}; give each key its own name",
            )
        if secret and secrets.setdefault(secret, index) != index:
            yield ("keys", index, "key"), f"is the same key as keys.{secrets[secret]}; give each entry its own key"


def _find_unknown_teams(data: Data) -> Iterator[Fault]:
    """Yield the teams of keys that ``teams`` does not have. Without ``teams`` any name groups keys."""
    if not data.get("teams"):
        return
    known = KnownNames(get_section(data, "teams"))
    for index, entry in enumerate(data.get("keys") or []):
        team = (entry or {}).get("team")
        if team is not None and team not in known:
            yield ("keys", index, "team"), known.describe_unknown(f"team '{team}'", team)


def _find_unmatched_globs(data: Data, models: Data) -> Iterator[Fault]:
    """Yield the globs of keys, of scopes of wrappers and of rules of tapes that match no model, so that they are useless."""
    lists: list[tuple[KeyPath, Data]] = [
        (("keys", index, "models"), entry or {}) for index, entry in enumerate(data.get("keys") or [])
    ]
    lists += [(("plugins", name, "models"), entry) for name, entry in get_section(data, "plugins").items()]
    rules = get_section(data, "tapes").get("rules") or []
    lists += [(("tapes", "rules", index, "models"), rule or {}) for index, rule in enumerate(rules)]
    names = list(_list_reachable_names(models))
    known = KnownNames(names)
    for path, entry in lists:
        for index, glob in enumerate(entry.get("models") or []):
            if glob is not None and glob not in known and not any(globs_overlap(glob, name) for name in names):
                yield (*path, index), f"'{glob}' matches no model{did_you_mean(glob, known.names)}"


def _list_reachable_names(models: Data) -> Iterator[str]:
    """Yield the names of models and of their targets, which scopes of wrappers may name."""
    for name, entry in models.items():
        yield name
        yield from (target["model"] for _, target in list_targets(entry) if target.get("model"))


def _find_default_faults(defaults: Data, models: Data) -> Iterator[Fault]:
    known = KnownNames(name for name in models if "*" not in name)
    for operation, model in defaults.items():
        if model is None:
            continue  # reported by the schema
        if "*" in model:
            yield ("defaults", operation), f"'{model}' matches many models; name one model without *"
        elif not _find_model_entries(model, models):
            yield ("defaults", operation), known.describe_unknown(f"model '{model}'", model)


def _find_model_entries(name: str, models: Data) -> list[str]:
    """Return the entries that match a model name: the exact one, else all matching wildcards."""
    return [name] if name in models else [pattern for pattern in models if wildcard_matches(pattern, name)]


def _find_port_faults(server: Data) -> Iterator[Fault]:
    metrics_port = server.get("metrics_port")
    if metrics_port and metrics_port == server.get("port", 8080):
        yield (
            ("server", "metrics_port"),
            "must differ from server.port; remove the key to serve /metrics on server.port",
        )


def _find_media_faults(media: Data) -> Iterator[Fault]:
    if not media.get("store"):
        for name in ("endpoint", "options", "secret", "redirect", "spool_bytes"):
            if media.get(name):
                yield ("media", name), "is for a bucket; set media.store, such as s3://bucket/prefix, or remove the key"


def _find_task_faults(data: Data) -> Iterator[Fault]:
    if (data.get("tasks") or {}).get("store") == "database" and not data.get("database"):
        yield (
            ("tasks", "store"),
            "needs a PostgreSQL database, which all nodes share: set database: postgresql://…, or remove this key, because "
            "the file store has the tasks of one machine",
        )
