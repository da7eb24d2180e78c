"""Add, change and remove provider entries and models in the text of a configuration file. Pure.

Each step reads the values of the text that it changes, so that several steps, or two administrators, lose nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol

from tornado_gate.config import edit
from tornado_gate.config.checks import find_inactive, wildcard_matches
from tornado_gate.config.faults import KeyPath
from tornado_gate.config.secret_moves import check_secrets
from tornado_gate.config.yaml_edit import Edit, EditRefused, apply_edits, make_edit_lines, read_text
from tornado_gate.errors import InvalidField, NotFound, RequestError
from tornado_gate.types.value import Value, field

Section = Literal["providers", "models"]
_KINDS: Mapping[str, str] = {"providers": "provider entry", "models": "model"}
PROVIDER_NAME = re.compile(r"[A-Za-z0-9_.:@~-]{1,100}")
"""Names of new provider entries. Addresses of /admin/v1 have them unchanged."""
PROVIDER_NAME_RULE = "1 to 100 characters: letters, digits, '.', '_', '-', ':', '@' and '~'"
_SECRET = re.compile(r"\$\{secret:([A-Za-z0-9][A-Za-z0-9._-]*)")


class Step(Protocol):
    """One change of the text. `plugins` must work after it."""

    @property
    def plugins(self) -> frozenset[str]: ...

    def edit_text(self, text: str) -> str:
        """Return the changed text. Raises EditRefused, or a GateError for a change that does not fit the text."""

    def make_lines(self) -> str:
        """Return the lines with which a person makes the same change."""


class PluginSwitch(Value, frozen=True):
    """Switch a plugin on or off."""

    plugin: str
    on: bool

    @property
    def plugins(self) -> frozenset[str]:
        return frozenset({self.plugin})

    def edit_text(self, text: str) -> str:
        return edit.set_plugin(text, self.plugin, on=self.on)

    def make_lines(self) -> str:
        return edit.make_lines(self.plugin, on=self.on)


class PluginChange(Value, frozen=True, kw_only=True):
    """Set members of a plugin's entry: options of the core, and settings of the plugin. The value None removes a member.

    `on` is a switch, unless it is None. `new_secrets` as in `EntryChange`.
    """

    plugin: str
    members: Mapping[str, Any]
    on: bool | None = None
    new_secrets: frozenset[str] | None = None

    @property
    def plugins(self) -> frozenset[str]:
        return frozenset({self.plugin})

    def edit_text(self, text: str) -> str:
        if self.on is not None:
            text = edit.set_plugin(text, self.plugin, on=self.on)
        values = read_text(text)
        entry = _get_section(values, edit.SECTION).get(self.plugin)
        path = (edit.SECTION, self.plugin)
        _check_change(edit.SECTION, entry, self.members, self.new_secrets)
        if isinstance(entry, Mapping):
            changed = {member: value for member, value in self.members.items() if value is not None or member in entry}
            edits = [
                Edit(path=(*path, member), value=value, removes=value is None)
                for member, value in sorted(changed.items(), key=lambda item: item[1] is None)
                if member not in entry or entry[member] != value
            ]
            return apply_edits(text, edits)
        on = edit.is_plugin_on(values, self.plugin)
        if on is None:
            raise EditRefused(
                f"The switch of '{self.plugin}' comes from the environment. Change the entry in the file."
            )
        added = {member: value for member, value in self.members.items() if value is not None}
        return apply_edits(text, [Edit(path=path, value={"on": on, **added})] if added else [])

    def make_lines(self) -> str:
        path = (edit.SECTION, self.plugin)
        switch = [] if self.on is None else [Edit(path=(*path, "on"), value=self.on)]
        edits = [
            Edit(path=(*path, member), value=value, removes=value is None) for member, value in self.members.items()
        ]
        return make_edit_lines([*switch, *edits])


class TextRestoration(Value, frozen=True):
    """Restore an earlier text of the whole file."""

    text: str

    hidden_fields = frozenset({"text"})

    @property
    def plugins(self) -> frozenset[str]:
        return frozenset()

    def edit_text(self, text: str) -> str:
        return self.text

    def make_lines(self) -> str:
        return ""


class EntryAddition(Value, frozen=True, kw_only=True):
    """Add an entry to a section. An entry of this name that is off is replaced; keys that only it has stay.

    The plugin of a new provider entry is switched on; its other entries, which were off with it, stay off. With `may_exist`, an
    equal entry is accepted. `new_secrets` as in `EntryChange`.
    """

    section: Section
    name: str
    entry: Mapping[str, Any] = field(default_factory=dict)
    may_exist: bool = False
    new_secrets: frozenset[str] | None = None

    @property
    def plugins(self) -> frozenset[str]:
        return frozenset({self.entry["plugin"]} if "plugin" in self.entry else ())

    def edit_text(self, text: str) -> str:
        if self.section == "providers" and not PROVIDER_NAME.fullmatch(self.name):
            raise InvalidField("name", f"'name' must have {PROVIDER_NAME_RULE}.")
        values = read_text(text)
        old = _get_section(values, self.section).get(self.name)
        if self.may_exist and old == dict(self.entry):
            return text
        off = find_off_entries(values)
        if self.name in _get_section(values, self.section) and (self.section, self.name) not in off:
            message = (
                f"conf has a {_KINDS[self.section]} '{self.name}' already. Choose another name, or change that one."
            )
            raise RequestError(message, param="name", code="already_exists", status=409)
        _check_change(self.section, old if self._keeps_members(old) else {}, self.entry, self.new_secrets)
        for plugin in self.plugins:
            text = edit.set_plugin(text, plugin, on=True)
        return apply_edits(text, [*self._keep_others_off(values, off), *self._make_edits(old)])

    def _keep_others_off(self, values: Mapping[str, Any], off: Collection[KeyPath]) -> Iterator[Edit]:
        """Yield a switch for each other entry that the plugin would switch on: its key may be missing."""
        for name, entry in _get_section(values, "providers").items():
            is_other = name != self.name and isinstance(entry, Mapping) and entry.get("plugin") in self.plugins
            if is_other and ("providers", name) in off:
                yield Edit(path=("providers", name, "on"), value=False)

    def _keeps_members(self, old: Any) -> bool:
        """Return whether members of an entry that is off stay, because the new entry has the same plugin."""
        is_entry = isinstance(old, Mapping) and self.section == "providers"
        return is_entry and old.get("plugin") == self.entry.get("plugin")

    def _make_edits(self, old: Any) -> list[Edit]:
        path = (self.section, self.name)
        if not self._keeps_members(old):
            return [Edit(path=path, value=dict(self.entry))]
        edits = [Edit(path=(*path, "on"), removes=True)] if "on" in old else []
        return edits + [Edit(path=(*path, member), value=value) for member, value in self.entry.items()]

    def make_lines(self) -> str:
        switches = [Edit(path=(edit.SECTION, plugin), value=True) for plugin in self.plugins]
        return make_edit_lines([*switches, Edit(path=(self.section, self.name), value=dict(self.entry))])


class EntryChange(Value, frozen=True, kw_only=True):
    """Set members of an entry. The value None removes a member.

    `new_secrets` are the references to secrets that an administrator has stored for this change; None for a change by somebody
    who may read all secrets.
    """

    section: Section
    name: str
    members: Mapping[str, Any]
    new_secrets: frozenset[str] | None = None

    @property
    def plugins(self) -> frozenset[str]:
        return frozenset()

    def edit_text(self, text: str) -> str:
        entry = _get_entry(text, self.section, self.name)
        _check_change(self.section, entry, self.members, self.new_secrets)
        edits = [each for each in self._make_edits() if not each.removes or each.path[-1] in entry]
        return apply_edits(text, sorted(edits, key=lambda each: each.removes))

    def make_lines(self) -> str:
        return make_edit_lines(self._make_edits())

    def _make_edits(self) -> list[Edit]:
        return [
            Edit(path=(self.section, self.name, member), value=value, removes=value is None)
            for member, value in self.members.items()
        ]


class EntryRemoval(Value, frozen=True, kw_only=True):
    """Remove an entry that no other one needs."""

    section: Section
    name: str

    @property
    def plugins(self) -> frozenset[str]:
        return frozenset()

    def edit_text(self, text: str) -> str:
        _get_entry(text, self.section, self.name)
        values = read_text(text)
        find_users = find_users_of_provider if self.section == "providers" else find_users_of_model
        users = list(dict.fromkeys(find_users(values, self.name)))
        if users:
            message = (
                f"The {_KINDS[self.section]} '{self.name}' is used by {', '.join(users[:20])}. Change these first."
            )
            raise RequestError(message, code="in_use", status=409)
        return apply_edits(text, [Edit(path=(self.section, self.name), removes=True)])

    def make_lines(self) -> str:
        return make_edit_lines([Edit(path=(self.section, self.name), removes=True)])


def find_users_of_provider(values: Mapping[str, Any], provider: str) -> Iterator[str]:
    """Yield the models with a provider entry as a target."""
    for name, entry in _get_section(values, "models").items():
        if isinstance(entry, Mapping):
            targets = entry.get("targets")
            rows = [entry, *(targets if isinstance(targets, list) else ())]
            if any(isinstance(row, Mapping) and row.get("provider") == provider for row in rows):
                yield f"the model '{name}'"


def find_users_of_model(values: Mapping[str, Any], model: str) -> Iterator[str]:
    """Yield the models that fall back to a model, and the defaults that name it."""
    models = _get_section(values, "models")
    for name, entry in models.items():
        fallback = entry.get("fallback") if isinstance(entry, Mapping) else None
        if name != model and isinstance(fallback, list) and model in fallback:
            yield f"the fallback of the model '{name}'"
    others = [name for name in models if name != model]
    for operation, name in (values.get("defaults") or {}).items():
        if name == model and not any(wildcard_matches(pattern, model) for pattern in others):
            yield f"defaults.{operation}"


def find_off_entries(values: Mapping[str, Any]) -> frozenset[KeyPath]:
    """Return the paths of provider entries and models that are off, because they or their plugins are."""
    providers = {name: entry for name, entry in _get_section(values, "providers").items() if isinstance(entry, Mapping)}
    names = {str(entry.get("plugin")) for entry in providers.values()}
    data = {
        "plugins": {name: {"on": edit.is_plugin_on(dict(values), name) is not False} for name in names},
        "providers": providers,
        "models": {name: entry for name, entry in _get_section(values, "models").items() if isinstance(entry, Mapping)},
    }
    return frozenset(path for path in find_inactive(data).reasons if len(path) == 2)


def list_secret_names(text: str) -> frozenset[str]:
    """Return the secrets of the store that a text names."""
    return frozenset(_SECRET.findall(text))


def make_all_lines(steps: Sequence[Step]) -> str:
    """Return the lines for all steps."""
    return "".join(step.make_lines() for step in steps)


def _check_change(section: str, entry: Any, members: Mapping[str, Any], new_secrets: frozenset[str] | None) -> None:
    """Check a change of an entry by an administrator. Raises RequestError."""
    if new_secrets is not None:
        before = entry if isinstance(entry, Mapping) else {}
        after = {name: value for name, value in {**before, **members}.items() if value is not None}
        check_secrets(section, before, after, new_secrets)


def _get_section(values: Mapping[str, Any], section: str) -> Mapping[str, Any]:
    entries = values.get(section)
    return entries if isinstance(entries, Mapping) else {}


def _get_entry(text: str, section: Section, name: str) -> Mapping[str, Any]:
    """Return an entry; {} if it has no members. Raises NotFound."""
    entries = _get_section(read_text(text), section)
    if name not in entries:
        kind = _KINDS[section]
        raise NotFound(f"conf has no {kind} '{name[:100]}'.", code=f"unknown_{section.removesuffix('s')}")
    entry = entries[name]
    return entry if isinstance(entry, Mapping) else {}
