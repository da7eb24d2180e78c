"""A configuration that grows while a source is read, and its text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

import yaml

from tornado_gate.cli.importing.report import Report
from tornado_gate.cli.importing.texts import make_name
from tornado_gate.cli.importing.vendors import SourceVendor
from tornado_gate.config.checks import wildcard_matches
from tornado_gate.config.globs import globs_overlap
from tornado_gate.config.model import ModelTarget
from tornado_gate.targets.routing import resolve_upstream_model
from tornado_gate.types.value import State, field

_REFERENCE: Final = re.compile(r"(?<!\$)\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
SECTIONS: Final = (
    "plugins",
    "providers",
    "models",
    "keys",
    "users",
    "teams",
    "limits",
    "prices",
    "retries",
    "circuits",
    "cors",
)


class _Dumper(yaml.SafeDumper):
    """A writer that repeats equal values instead of writing aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


class ConfBuilder(State):
    """The entries of conf by section, keys and teams for the database, and the report. Names that are taken get a number.

    `stored_keys` are keys of which only the hash is known, `stored_teams` their teams: the members of the file that
    ``tornado-gate keys import`` reads.
    """

    report: Report = field(default_factory=Report)
    plugins: dict[str, Any] = field(default_factory=dict)
    providers: dict[str, dict[str, Any]] = field(default_factory=dict)
    models: dict[str, dict[str, Any]] = field(default_factory=dict)
    keys: list[dict[str, Any]] = field(default_factory=list)
    users: dict[str, dict[str, Any]] = field(default_factory=dict)
    teams: dict[str, dict[str, Any]] = field(default_factory=dict)
    limits: dict[str, Any] = field(default_factory=dict)
    prices: dict[str, dict[str, Any]] = field(default_factory=dict)
    retries: dict[str, Any] = field(default_factory=dict)
    circuits: dict[str, Any] = field(default_factory=dict)
    cors: dict[str, Any] = field(default_factory=dict)
    stored_keys: list[dict[str, Any]] = field(default_factory=list)
    stored_teams: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add_provider(
        self, name: str, vendor: SourceVendor, settings: Mapping[str, Any], *, is_shared: bool = True
    ) -> str:
        """Return the name of the provider entry with these settings. An equal entry is used again if it may be shared.

        The vendor's own settings apply where `settings` has none; another base_url replaces the vendor's version part too.
        """
        own = dict(vendor.settings)
        if settings.get("base_url", own.get("base_url")) != own.get("base_url"):
            own.pop("version_path", None)
        entry = {"plugin": vendor.plugin, **own, **settings}
        known = next((known for known, other in self.providers.items() if other == entry), None)
        if is_shared and known is not None:
            return known
        name = _choose_free_name(make_name(name, vendor.name).replace("*", "-"), self.providers)
        self.providers[name] = entry
        self.plugins[vendor.plugin] = True
        return name

    def add_model(self, name: str, entry: dict[str, Any], where: str) -> None:
        """Add a model, unless conf cannot have its name."""
        reason = find_name_fault(name)
        if reason:
            self.report.lose(where, f"conf cannot have this model name, which {reason}; give the model another name")
        else:
            self.models[name] = entry

    def add_key(self, name: str, key: str, **rest: Any) -> str:
        """Add a key and return its name. Members of `rest` that are None or empty are left out."""
        names = {entry["name"]: entry for entry in self.keys}
        name = _choose_free_name(make_name(name, "key"), names)
        self.keys.append({"name": name, "key": key, **{field: value for field, value in rest.items() if value}})
        return name

    def add_stored_key(self, name: str, digest: str, *, expires: datetime | None = None, **rest: Any) -> None:
        """Add a key for the database by the SHA-256 of its text in hexadecimal. Empty members of `rest` are left out."""
        entry = {"name": name, "sha256": digest, **{field: value for field, value in rest.items() if value}}
        self.stored_keys.append(entry if expires is None else {**entry, "expires": expires.isoformat()})

    def add_stored_team(self, name: str, **rest: Any) -> str:
        """Add a team for the database and return its name. Empty members of `rest` are left out."""
        name = _choose_free_name(name, self.stored_teams)
        self.stored_teams[name] = {field: value for field, value in rest.items() if value}
        return name

    def finish(self) -> None:
        """Repair references between entries: fallbacks to models that were not carried, loops, and globs without a model."""
        for name, entry in list(self.models.items()):
            self._check_fallbacks(name, entry)
        self._replace_loops()
        self.keys = [entry for entry in self.keys if self._check_globs(entry)]
        for entry in self.stored_keys if self.models else ():
            self._report_unmatched(entry)

    def _check_fallbacks(self, name: str, entry: dict[str, Any]) -> None:
        kept = [other for other in entry.pop("fallback", []) if self._prepare_fallback(name, other)]
        if kept:
            entry["fallback"] = list(dict.fromkeys(kept))

    def _prepare_fallback(self, name: str, other: str) -> bool:
        """Return whether a model can fall back to another. One that only a wildcard serves gets an entry."""
        where = f"the fallback of '{name}' to '{other}'"
        if "*" in other:
            self.report.lose(where, "a fallback cannot be a wildcard, whose model would be unknown; name one model")
            return False
        if other in self.models:
            return other != name
        pattern = next((pattern for pattern in self.models if wildcard_matches(pattern, other)), None)
        if pattern is None:
            self.report.lose(where, "that model is not in conf; add it under models, then under fallback")
            return False
        self.models[other] = expand_wildcard(pattern, self.models[pattern], other)
        return True

    def _replace_loops(self) -> None:
        """Replace each fallback that closes a loop by a copy of its model without fallbacks.

        conf has no loops. A copy has the same effect, because a fallback's own fallbacks are not tried.
        """
        for name in list(self.models):
            for index, other in enumerate(self.models[name].get("fallback", [])):
                if name in self._list_reachable(other):
                    copy = f"{other}.fallback"
                    if copy not in self.models:
                        self.models[copy] = {
                            key: value for key, value in self._write_out(other).items() if key != "fallback"
                        }
                    self.models[name]["fallback"][index] = copy
                    self.report.note(
                        f"'{copy}' is a copy of the model '{other}', because fallbacks in a circle are not allowed"
                    )

    def _write_out(self, name: str) -> dict[str, Any]:
        """Return a model's entry that names its upstream models, so that it can have another name."""
        return expand_wildcard(name, self.models[name], name)

    def add_alias(self, alias: str, name: str, where: str) -> None:
        """Add a second name for a model."""
        pattern = name if name in self.models else next((p for p in self.models if wildcard_matches(p, name)), None)
        if pattern is None:
            self.report.lose(where, f"its model '{name}' is not in conf; add it under models")
        else:
            self.add_model(alias, expand_wildcard(pattern, self.models[pattern], name), where)

    def _list_reachable(self, start: str) -> set[str]:
        reached: set[str] = set()
        rest = [start]
        while rest:
            name = rest.pop()
            if name not in reached:
                reached.add(name)
                rest += self.models.get(name, {}).get("fallback", [])
        return reached

    def _check_globs(self, key: dict[str, Any]) -> bool:
        """Remove globs of a key that match no model. Return False for a key without other globs, which would allow all."""
        globs = key.get("models")
        if not globs:
            return True
        unmatched = self._report_unmatched(key)
        kept = [glob for glob in globs if glob not in unmatched]
        if not kept:
            self.report.lose(
                f"the key '{key['name']}'", "none of its models is in conf, and a key without models may use all"
            )
            return False
        key["models"] = kept
        return True

    def _report_unmatched(self, key: dict[str, Any]) -> list[str]:
        """Return the globs of a key that match no model, and report them."""
        globs = key.get("models", [])
        unmatched = [glob for glob in globs if not any(globs_overlap(glob, name) for name in self.models)]
        for glob in unmatched:
            text = "this gateway has no such model; add it under models, then to the key"
            self.report.lose(f"the model '{glob}' of the key '{key['name']}'", text)
        return unmatched

    def list_variables(self) -> list[str]:
        """Return the environment variables that the configuration needs, in the order of the file."""
        variables = [name for text in list_texts(self.collect()) for name in _REFERENCE.findall(text)]
        return list(dict.fromkeys(variables))

    def collect(self) -> dict[str, Any]:
        """Return the sections that have entries."""
        return {name: value for name in SECTIONS if (value := getattr(self, name))}

    def format_accounts(self) -> str:
        """Return the text of the file with keys and teams for the database."""
        return json.dumps({"teams": self.stored_teams, "keys": self.stored_keys}, indent=1, ensure_ascii=False) + "\n"

    def format_text(self, source: str) -> str:
        """Return the text of the file. `source` describes where it comes from."""
        head = [f"# Imported from {source} by `tornado-gate import`. Check it with `tornado-gate check`.\n"]
        variables = self.list_variables()
        if variables:
            head.append("# Environment variables to set: " + ", ".join(variables) + "\n")
        for name, value in self.collect().items():
            text = yaml.dump(
                {name: value}, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110, default_flow_style=None
            )
            head.append("\n" + text)
        return "".join(head)


def make_target(provider: str, name: str, upstream: str) -> dict[str, Any]:
    """Return a target of the model `name`. The upstream's name is left out where conf's default is the same."""
    is_unknown = "*" in upstream and "*" not in name
    is_default = upstream == "*" if "*" in name else upstream in ("", name)
    return {"provider": provider} if is_default or is_unknown else {"provider": provider, "model": upstream}


def expand_wildcard(pattern: str, entry: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a copy of a model's entry for one name that its pattern matches, with the upstream's model in each target."""
    before, star, after = pattern.partition("*")
    rest = name[len(before) : len(name) - len(after)] if star and name != pattern else ""

    def write_model(target: dict[str, Any]) -> dict[str, Any]:
        routed = ModelTarget(provider=target["provider"], model=target.get("model"))
        return {**target, "model": resolve_upstream_model(pattern, rest, routed)}

    entry = {key: list(value) if isinstance(value, list) else value for key, value in entry.items()}
    if "targets" in entry:
        return {**entry, "targets": [write_model(target) for target in entry["targets"]]}
    return write_model(entry)


def find_name_fault(name: str) -> str:
    """Return what is wrong with the name of a model, or ""."""
    from marshmallow import ValidationError

    from tornado_gate.config.value_checks import check_model_name

    try:
        check_model_name(name)
    except ValidationError as error:
        return f"is not allowed: {error.messages[0]}"
    return ""


def list_texts(value: Any) -> Iterator[str]:
    """Yield all texts in nested lists and mappings."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from list_texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from list_texts(item)


def _choose_free_name(name: str, used: Mapping[str, Any]) -> str:
    if name not in used:
        return name
    return next(free for number in range(2, len(used) + 3) if (free := f"{name}-{number}") not in used)
