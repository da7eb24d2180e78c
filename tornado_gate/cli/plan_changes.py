"""The changes between two configurations: entries and settings, and the callers that each change affects."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tornado_gate.codec.secret_words import MASK, is_harmless, is_secret_name, is_secret_value
from tornado_gate.config.globs import globs_overlap
from tornado_gate.config.model import Config, KeyEntry, ModelEntry
from tornado_gate.server.process.reloader import FIXED_SETTINGS
from tornado_gate.types.value import Value

ENTRIES: Final = ("plugins", "providers", "models", "keys", "users", "teams", "prices")
MOST_NAMES: Final = 10
LONGEST_VALUE: Final = 60


class Change(Value, frozen=True):
    """One change: `sign` is +, - or ~; `details` are its settings; `effect` says who is affected."""

    sign: str
    section: str
    name: str
    details: tuple[str, ...] = ()
    effect: str = ""

    def as_json(self) -> dict[str, Any]:
        change = {"+": "added", "-": "removed", "~": "changed"}[self.sign]
        return {
            **{"change": change, "section": self.section, "name": self.name},
            **{"details": list(self.details), "affects": self.effect},
        }

    def format_text(self) -> str:
        place = f"{self.section}.{self.name}" if self.name else self.section
        lines = [f"{self.sign} {place}", *(f"    {detail}" for detail in self.details)]
        return "\n".join([*lines, f"    affects: {self.effect}"] if self.effect else lines)


def list_changes(old: Any, new: Any, old_config: Config, new_config: Config) -> list[Change]:
    """Return the changes between the written values `old` and `new`, with the effects that the checked ones have."""
    old, new = old or {}, new or {}
    effects = _Effects(old_config, new_config)
    changes = []
    for section in [*ENTRIES, *dict.fromkeys(name for name in (*old, *new) if name not in ENTRIES)]:
        before, after = _name_entries(old.get(section)), _name_entries(new.get(section))
        if section in ENTRIES and isinstance(before, dict) and isinstance(after, dict):
            changes += list(_compare_entries(section, before, after, effects))
        elif before != after:
            details = tuple(_list_details(old.get(section), new.get(section), ()))
            changes.append(Change("~", section, "", details, effects.describe_section(section, before, after)))
    return changes


def _name_entries(section: Any) -> Any:
    """Return the entries of a section by name. A list of keys becomes a mapping."""
    if section is None:
        return {}
    if not isinstance(section, list):
        return section
    return {str(entry.get("name")): entry for entry in section if isinstance(entry, dict)}


def _compare_entries(
    section: str, before: dict[str, Any], after: dict[str, Any], effects: _Effects
) -> Iterator[Change]:
    for name in dict.fromkeys([*before, *after]):
        if name not in after:
            yield Change("-", section, name, (), effects.describe(section, name, "-"))
        elif name not in before:
            details = tuple(_list_details(None, after[name], ()))
            yield Change("+", section, name, details, effects.describe(section, name, "+"))
        elif before[name] != after[name]:
            details = tuple(_list_details(before[name], after[name], ()))
            yield Change("~", section, name, details, effects.describe(section, name, "~"))


def _list_details(old: Any, new: Any, path: tuple[str, ...]) -> Iterator[str]:
    """Yield ``path: old -> new`` for each setting that differs. Secrets are masked."""
    if old == new:
        return
    if isinstance(new, dict) and (old is None or isinstance(old, dict)):
        before = old or {}
        for key in dict.fromkeys([*before, *new]):
            yield from _list_details(before.get(key), new.get(key), (*path, str(key)))
        return
    place = ".".join(path)
    prefix = f"{place}: " if place else ""
    is_secret = any(is_secret_name(name) for name in path if name != "keys")
    shown = [_format_value(value, is_secret=is_secret) for value in (old, new)]
    if shown[0] == shown[1]:
        yield f"{prefix}changed"
    elif old is None:
        yield f"{prefix}{shown[1]}"
    else:
        yield f"{prefix}{shown[0]} -> {'not set' if new is None else shown[1]}"


def _format_value(value: Any, *, is_secret: bool) -> str:
    """Return a value in short. Masks each text in it that is secret, and each that is not a reference below a secret name."""
    return json.dumps(_mask(value, is_secret=is_secret), ensure_ascii=False)[:LONGEST_VALUE]


def _mask(value: Any, *, is_secret: bool) -> Any:
    if isinstance(value, Mapping):
        return {key: _mask(item, is_secret=is_secret or is_secret_name(str(key))) for key, item in value.items()}
    if isinstance(value, list):
        return [_mask(item, is_secret=is_secret) for item in value]
    if isinstance(value, str) and ((is_secret and not is_harmless(value)) or is_secret_value(value)):
        return MASK
    return value


class _Effects:
    """Descriptions of the callers that a change affects: models by their providers, callers by their keys."""

    def __init__(self, old: Config, new: Config) -> None:
        self._old = old
        self._new = new

    def describe(self, section: str, name: str, sign: str) -> str:
        describe = getattr(self, f"_describe_{section}", None)
        return describe(name, sign) if describe is not None else ""

    def describe_section(self, section: str, before: Any, after: Any) -> str:
        """Return who is affected by a section of settings. Some of them apply only after a restart."""
        before, after = (value if isinstance(value, dict) else {"": value} for value in (before, after))
        changed = {key for key in {*before, *after} if before.get(key) != after.get(key)}
        fixed = {"server": frozenset(FIXED_SETTINGS), "limits": frozenset({"store"}), "database": changed}.get(
            section, frozenset()
        )
        waiting = (
            f"{', '.join(sorted(f'{section}.{key}' for key in changed & fixed))} only after a restart"
            if changed & fixed
            else ""
        )
        if section == "limits" and changed - fixed:
            return "; ".join(filter(None, ["all keys, where they have no limits of their own", waiting]))
        return waiting

    def _describe_models(self, name: str, sign: str) -> str:
        if sign == "-":
            fallbacks = [model.name for model in self._new.models.values() if name in model.fallback]
            also = f"; fallbacks of {_join(fallbacks)}" if fallbacks else ""
            return f"{self._describe_keys_of(self._old, name)}: requests for it are a 404{also}"
        return self._describe_keys_of(self._new, name)

    def _describe_keys_of(self, config: Config, model: str) -> str:
        """Return the keys of conf that may use a model. Keys of the database may use it too."""
        names = [key.name for key in config.keys if _may_use(key, model)]
        known = f"the keys {_join(names)}" if names else "no key of conf"
        return f"{known}, and keys of the database that allow it"

    def _describe_providers(self, name: str, sign: str) -> str:
        config = self._old if sign == "-" else self._new
        models = [model.name for model in config.models.values() if _is_served_by(model, name)]
        return f"the models {_join(models)}" if models else "no model"

    def _describe_plugins(self, name: str, sign: str) -> str:
        config = self._old if sign == "-" else self._new
        providers = [entry.name for entry in config.providers.values() if entry.plugin == name]
        if providers:
            models = [m.name for m in config.models.values() if any(_is_served_by(m, entry) for entry in providers)]
            return (
                f"the providers {_join(providers)} and the models {_join(models)}"
                if models
                else f"the providers {_join(providers)}"
            )
        options = config.plugin_options.get(name)
        scope = _join(list(options.models)) if options is not None and options.models else "all"
        return f"as a wrapper or format: requests for {scope} models"

    def _describe_keys(self, name: str, sign: str) -> str:
        if sign == "-":
            return "its callers get 401"
        if sign == "+":
            return "its new callers"
        return "its callers, also those with an open session"

    def _describe_teams(self, name: str, sign: str) -> str:
        config = self._old if sign == "-" else self._new
        names = [key.name for key in config.keys if key.team == name]
        return f"the keys {_join(names)}" if names else "no key of conf"

    def _describe_users(self, name: str, sign: str) -> str:
        config = self._old if sign == "-" else self._new
        names = [key.name for key in config.keys if key.user == name]
        return f"the keys {_join(names)}" if names else "no key of conf"

    def _describe_prices(self, name: str, sign: str) -> str:
        return "the cost and the budgets of requests from now on"


def _may_use(key: KeyEntry, model: str) -> bool:
    return not key.models or any(globs_overlap(glob, model) for glob in key.models)


def _is_served_by(model: ModelEntry, provider: str) -> bool:
    return any(target.provider == provider for target in model.targets)


def _join(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more
