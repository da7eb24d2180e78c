"""The settings of a plugin in conf, as text that an administrator changes. A masked value stands for the secret that conf has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.codec.secret_words import MASK, is_harmless, is_secret_name, is_secret_value
from tornado_gate.config.edit import SECTION
from tornado_gate.config.model import Config
from tornado_gate.config.source import digest_text
from tornado_gate.config.stored import read_conf_text
from tornado_gate.config.yaml_edit import EditRefused, read_text, read_values
from tornado_gate.config.yaml_text import format_lines
from tornado_gate.errors import InvalidField
from tornado_gate.server.configuration_changes import store_secrets
from tornado_gate.server.process.conf_change import read_current
from tornado_gate.server.process.conf_diff import CORE_OPTIONS
from tornado_gate.types.value import Value

LONGEST_TEXT: Final = 100_000


class WrittenEntry(Value, frozen=True, kw_only=True):
    """An entry of the file: its members without `on`, and the version of the file that has them."""

    members: Mapping[str, Any]
    version: str

    hidden_fields = frozenset({"members"})


def read_entry(config: Config, name: str, section: str = SECTION) -> WrittenEntry:
    """Return an entry of a section as it is written, with its references; without members if conf has none. Synchronous.

    Raises OSError, UnicodeDecodeError, EditRefused and DatabaseError.
    """
    if config.path is None:
        return WrittenEntry(members={}, version="")
    text = read_conf_text(read_current(config.path))
    entry = (read_text(text).get(section) or {}).get(name)
    members = {member: value for member, value in entry.items() if member != "on"} if isinstance(entry, Mapping) else {}
    return WrittenEntry(members=members, version=digest_text(text))


def store_setting_secrets(config: Config, plugin: str, members: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Keep the secrets among new settings in the store. Return the members with references, and the references.

    Synchronous. Raises GateError.
    """
    core = {name: value for name, value in members.items() if name in CORE_OPTIONS}
    own, references = store_secrets(config, plugin, {k: v for k, v in members.items() if k not in CORE_OPTIONS})
    return {**core, **own}, references


def render_settings(members: Mapping[str, Any]) -> str:
    """Return members as YAML, without secrets."""
    lines = (format_lines(name, _mask(value, name), "") for name, value in members.items())
    return "".join(f"{line}\n" for entry in lines for line in entry)


def parse_settings(text: str, members: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes that a text makes to `members`; None removes one. Raises InvalidField for a text that is no mapping."""
    if len(text) > LONGEST_TEXT:
        raise InvalidField("settings", f"The settings are longer than {LONGEST_TEXT} characters.")
    try:
        written = read_values(text, "The settings are not valid YAML")
    except EditRefused as error:
        raise InvalidField("settings", str(error)) from error
    if "on" in written:
        raise InvalidField("settings", "Switch the plugin on or off by its switch, not by 'on' among the settings.")
    changed = {name: _unmask(value, members.get(name)) for name, value in written.items()}
    removed = {name: None for name in members if name not in written}
    return {name: value for name, value in changed.items() if members.get(name) != value} | removed


def _mask(value: Any, name: str) -> Any:
    if name in CORE_OPTIONS:
        return value
    if isinstance(value, Mapping):
        return {key: _mask(item, name if is_secret_name(name) else str(key)) for key, item in value.items()}
    if isinstance(value, list):
        return [_mask(item, name) for item in value]
    is_secret = isinstance(value, str) and (is_secret_name(name) or is_secret_value(value))
    return MASK if is_secret and not is_harmless(value) else value


def _unmask(value: Any, old: Any) -> Any:
    """Return a new value in which each mask is the old value of the same place."""
    if value == MASK and old is not None:
        return old
    if isinstance(value, Mapping):
        inner = old if isinstance(old, Mapping) else {}
        return {key: _unmask(item, inner.get(key)) for key, item in value.items()}
    if isinstance(value, list):
        items = old if isinstance(old, list) else []
        return [
            _unmask(item, items[position] if position < len(items) else None) for position, item in enumerate(value)
        ]
    return value
