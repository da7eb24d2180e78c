"""Switch a plugin on or off in the text of a configuration file. All other bytes stay as they are.

The text is changed at positions that PyYAML reports, and is never written from values. So comments, order, quotes and
line ends stay. The result is read again: an edit that changes more than the one switch is refused.
"""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import yaml

from tornado_gate.config import source
from tornado_gate.config.faults import FileFaults
from tornado_gate.config.model import FIRST_PARTY_FORMATS
from tornado_gate.types.value import Value

SECTION = "plugins"
INDENT = "  "
LARGEST_TEXT = 1024 * 1024

_PLAIN_KEY = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)
_LINE_END = re.compile(r"\r\n|\n|\r")
_SWITCHES = frozenset({"true", "false", "on", "off", "yes", "no"})


class EditRefused(Exception):
    """The text cannot be edited safely. The message names the cause; a person can make the change by hand."""


class _Patch(Value, frozen=True):
    """A replacement of the characters from `start` to `end`."""

    start: int
    end: int
    text: str


def set_plugin(text: str, name: str, *, on: bool) -> str:
    """Return `text`, a configuration file, with the plugin `name` on or off; the same text if it is so already.

    Raises EditRefused.
    """
    if len(text) > LARGEST_TEXT:
        raise EditRefused(f"The file is longer than {LARGEST_TEXT} characters.")
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    body = text.removeprefix(mark)
    values = _read_values(body, "The file is not valid now")
    if _is_on(values, name) == on:
        return text
    patch = _PatchFinder(body, name, on=on).find_patch()
    edited = body[: patch.start] + patch.text + body[patch.end :]
    if _read_values(edited, "The edit would make the file invalid") != _make_expected(values, name, on=on):
        raise EditRefused(
            "The edit would change other values too, because the file shares values by anchors and aliases."
        )
    return mark + edited


def make_lines(name: str, *, on: bool) -> str:
    """Return the lines that a person adds to the file for the same change."""
    return f"{SECTION}:\n{INDENT}{_format_key(name)}: {_format_switch(on)}\n"


def compose_nodes(text: str) -> yaml.Node | None:
    """Return the root of a text without a byte order mark; None if the text has no value."""
    loader = source.make_loader(text)
    try:
        node: yaml.Node | None = loader.get_single_node()
    finally:
        loader.dispose()
    return node


def _read_values(text: str, problem: str) -> Any:
    """Return the values of a text. Raises EditRefused with `problem` and the faults."""
    try:
        document = source.parse(text, Path("file"))
    except FileFaults as faults:
        raise EditRefused(f"{problem}: {faults.report()[0].partition(':')[2]}") from None
    if document.faults:
        path, message = document.faults[0]
        raise EditRefused(f"{problem}: {'.'.join(map(str, path))}: {message}")
    if document.values is not None and not isinstance(document.values, dict):
        raise EditRefused(f"{problem}: it is not a mapping.")
    return document.values or {}


def _is_on(values: dict[str, Any], name: str) -> bool | None:
    """Return whether a plugin is on; None if the text gives it a value that is not a switch, such as one from the
    environment.
    """
    section = values.get(SECTION) or {}
    if not isinstance(section, dict):
        raise EditRefused(f"'{SECTION}' is not a mapping.")
    if name not in section:
        return name in FIRST_PARTY_FORMATS
    entry = section[name]
    switch = entry.get("on", True) if isinstance(entry, dict) else entry
    return switch if isinstance(switch, bool) else None


def _make_expected(values: dict[str, Any], name: str, *, on: bool) -> dict[str, Any]:
    expected = copy.deepcopy(values)
    section = expected[SECTION] = expected.get(SECTION) or {}
    if isinstance(section.get(name), dict):
        section[name] = {**section[name], "on": on}
    else:
        section[name] = on
    return expected


class _PatchFinder:
    """A search for the parts of a text that must be replaced so that a plugin is on or off."""

    def __init__(self, text: str, name: str, *, on: bool) -> None:
        self.text = text
        self.name = name
        self.switch = _format_switch(on)
        match = _LINE_END.search(text)
        self.newline = match[0] if match else "\n"

    def find_patch(self) -> _Patch:
        root = compose_nodes(self.text)
        if root is None:
            return self._append_section("")
        self._refuse_flow(root, "the whole file")
        for key, section in get_entries(root):
            if key.value == SECTION:
                return self._find_in_section(key, section)
        return self._append_section(" " * root.start_mark.column)

    def _append_section(self, indent: str) -> _Patch:
        end = len(self.text)
        before = "" if not self.text or self.text[-1] in "\r\n" else self.newline
        lines = make_lines(self.name, on=self.switch == "true").splitlines()
        return _Patch(end, end, before + "".join(indent + line + self.newline for line in lines))

    def _find_in_section(self, key: yaml.Node, section: yaml.Node) -> _Patch:
        entry = f"{_format_key(self.name)}: {self.switch}"
        if isinstance(section, yaml.ScalarNode):  # a section without entries
            return self._insert_line(section.end_mark.index, " " * key.start_mark.column + INDENT + entry)
        for name, value in get_entries(section):
            if name.value == self.name:
                return self._find_in_entry(name, value)
        self._refuse_flow(section, f"'{SECTION}'")
        last = section.value[-1]
        return self._insert_line(find_end(*last), " " * section.value[0][0].start_mark.column + entry)

    def _find_in_entry(self, key: yaml.Node, value: yaml.Node) -> _Patch:
        if isinstance(value, yaml.ScalarNode):
            return self._replace_switch(key, value)
        for name, switch in get_entries(value):
            if name.value == "on":
                return self._replace_switch(name, switch)
        self._refuse_flow(value, f"the entry of '{self.name}'")
        column = value.value[0][0].start_mark.column
        return self._insert_line(key.end_mark.index, f"{' ' * column}on: {self.switch}")

    def _replace_switch(self, key: yaml.Node, value: yaml.Node) -> _Patch:
        start, end = value.start_mark.index, value.end_mark.index
        written = self.text[start:end]
        if "${" in written:
            raise EditRefused(f"The switch of '{self.name}' comes from the environment. Change it there.")
        if start < key.end_mark.index or written.strip("\"'").lower() not in _SWITCHES:
            raise EditRefused(f"The switch of '{self.name}' is not written as true or false in its own place.")
        return _Patch(start, end, self.switch)

    def _insert_line(self, after: int, line: str) -> _Patch:
        """Insert a line below the line that has the character before `after`."""
        match = _LINE_END.search(self.text, max(after - 1, 0) if self.text[after - 1 : after] in "\r\n" else after)
        if match is None:
            end = len(self.text)
            return _Patch(end, end, self.newline + line)
        return _Patch(match.end(), match.end(), line + self.newline)

    def _refuse_flow(self, node: yaml.Node, description: str) -> None:
        if not isinstance(node, yaml.MappingNode) or node.flow_style:
            raise EditRefused(
                f"The file has {description} in flow style, {{…}}. Write one entry per line, or edit the file by hand."
            )


def get_entries(node: yaml.Node | None) -> list[tuple[yaml.Node, yaml.Node]]:
    """Return the keys and values of a mapping; [] for any other node."""
    return node.value if isinstance(node, yaml.MappingNode) else []


def find_end(key: yaml.Node, value: yaml.Node) -> int:
    """Return the position after the last character of an entry, without the comments and empty lines that follow."""
    if value.start_mark.index < key.end_mark.index:  # an alias: its node is elsewhere
        return int(key.end_mark.index)
    if isinstance(value, yaml.CollectionNode) and not value.flow_style and value.value:
        last = value.value[-1]
        return find_end(*last) if isinstance(value, yaml.MappingNode) else find_end(key, last)
    return int(value.end_mark.index)


def _format_key(name: str) -> str:
    return name if _PLAIN_KEY.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _format_switch(on: bool) -> str:
    return "true" if on else "false"
