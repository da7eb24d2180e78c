"""Switch a plugin on or off in the text of a configuration file. All other bytes stay as they are."""

from __future__ import annotations

from typing import Any

from tornado_gate.config.model import FIRST_PARTY_FORMATS
from tornado_gate.config.yaml_edit import Edit, EditRefused, apply_edits, find_written, make_edit_lines, read_text

SECTION = "plugins"

_SWITCHES = frozenset({"true", "false", "on", "off", "yes", "no"})


def set_plugin(text: str, name: str, *, on: bool) -> str:
    """Return `text`, a configuration file, with the plugin `name` on or off; the same text if it is so already.

    Raises EditRefused.
    """
    values = read_text(text)
    if is_plugin_on(values, name) == on:
        return text
    entry = (values.get(SECTION) or {}).get(name)
    if not isinstance(entry, dict):
        edit = Edit(path=(SECTION, name), value=on)
    else:
        edit = Edit(path=(SECTION, name, "on"), value=on, first=True)
    _check_written(text, name, edit)
    return apply_edits(text, [edit])


def make_lines(name: str, *, on: bool) -> str:
    """Return the lines that a person adds to the file for the same change."""
    return make_edit_lines([Edit(path=(SECTION, name), value=on)])


def is_plugin_on(values: dict[str, Any], name: str) -> bool | None:
    """Return whether a plugin is on; None if the text gives it a value that is not a switch, such as one from the
    environment. Raises EditRefused if the section is not a mapping.
    """
    section = values.get(SECTION) or {}
    if not isinstance(section, dict):
        raise EditRefused(f"'{SECTION}' is not a mapping.")
    if name not in section:
        return name in FIRST_PARTY_FORMATS
    entry = section[name]
    switch = entry.get("on", True) if isinstance(entry, dict) else entry
    return switch if isinstance(switch, bool) else None


def _check_written(text: str, name: str, edit: Edit) -> None:
    """Raise EditRefused for a switch that is not written as one in its own position."""
    written = find_written(text, edit.path)
    if written is None:
        return
    if "${" in written:
        raise EditRefused(f"The switch of '{name}' comes from the environment. Change it there.")
    if written.strip("\"'").lower() not in _SWITCHES:
        raise EditRefused(f"The switch of '{name}' is not written as true or false in its own place.")
