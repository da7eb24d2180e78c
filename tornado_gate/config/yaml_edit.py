"""Set and remove values in the text of a configuration file. All other bytes stay as they are.

The text is changed at positions that PyYAML reports, and is never written from values. So comments, order, quotes and
line ends stay. The result is read again: an edit that changes anything else is refused.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from tornado_gate.config import source
from tornado_gate.config.faults import FileFaults
from tornado_gate.config.yaml_text import INDENT, format_flow, format_key, format_lines
from tornado_gate.types.value import Value

LARGEST_TEXT = 1024 * 1024

_LINE_END = re.compile(r"\r\n|\n|\r")
_END_MARK = re.compile(r"^\.\.\.(?:[ \t]*#.*)?\s*\Z", re.MULTILINE)

ValuePath = tuple[str, ...]


class EditRefused(Exception):
    """The text cannot be edited safely. The message names the cause; a person can make the change by hand."""


class Edit(Value, frozen=True, kw_only=True):
    """A new value of one key, or its removal. `value` has JSON types; `first` puts a new key before its siblings."""

    path: ValuePath
    value: Any = None
    removes: bool = False
    first: bool = False


class _Patch(Value, frozen=True):
    """A replacement of the characters from `start` to `end`."""

    start: int
    end: int
    text: str


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """Return `text`, a configuration file, with the edits applied in their order. Raises EditRefused."""
    for edit in edits:
        text = _apply_edit(text, edit)
    return text


def _apply_edit(text: str, edit: Edit) -> str:
    if not _is_unicode(format_flow(edit.value) + "".join(edit.path)):
        raise EditRefused("The new value has a character that is not Unicode. Write it without.")
    values = read_text(text)
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    body = text.removeprefix(mark)
    expected = _make_expected(values, edit)
    if expected == values and find_value(values, edit.path) == (None if edit.removes else edit.value):
        return text
    finder = _PatchFinder(body)
    patch = finder.find_removal(edit.path) if edit.removes else finder.find_setting(edit)
    edited = body[: patch.start] + patch.text + body[patch.end :]
    if read_values(edited, "The edit would make the file invalid") != expected:
        raise EditRefused(
            "The edit would change other values too, because the file shares values by anchors and aliases."
        )
    return mark + edited


def _is_unicode(text: str) -> bool:
    """Return whether a text can be written as UTF-8. Bytes of a command line that are not, become lone surrogates."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def make_edit_lines(edits: Iterable[Edit]) -> str:
    """Return the lines that a person adds to the file, or what to remove from it, for the same change."""
    added: dict[str, Any] = {}
    removed = []
    for edit in edits:
        if edit.removes:
            removed.append(f"# remove {'.'.join(edit.path)}\n")
            continue
        *above, last = edit.path
        values = added
        for name in above:
            values = values.setdefault(name, {})
        values[last] = edit.value
    lines = [line for name, value in added.items() for line in format_lines(name, value, "", is_section=True)]
    return "".join(f"{line}\n" for line in lines) + "".join(removed)


def read_text(text: str) -> dict[str, Any]:
    """Return the values of a configuration file. Raises EditRefused if it is too long or has faults."""
    if len(text) > LARGEST_TEXT:
        raise EditRefused(f"The file is longer than {LARGEST_TEXT} characters.")
    return read_values(text.removeprefix("\ufeff"))


def find_written(text: str, path: ValuePath) -> str | None:
    """Return the characters of a value as they are written; "" for an alias; None without the key."""
    body = text.removeprefix("\ufeff")
    node = compose_nodes(body)
    written = None
    for depth in range(len(path)):
        entry = find_entry(node, path[depth:])
        if entry is None:
            return None
        key, node = entry
        start = node.start_mark.index
        written = "" if start < key.end_mark.index else body[start : node.end_mark.index]
    return written


def read_values(text: str, problem: str = "The file is not valid now") -> dict[str, Any]:
    """Return the values of a text without a byte order mark. Raises EditRefused with `problem` and the first fault."""
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


def compose_nodes(text: str) -> yaml.Node | None:
    """Return the root of a text without a byte order mark; None if the text has no value."""
    loader = source.make_loader(text)
    try:
        node: yaml.Node | None = loader.get_single_node()
    finally:
        loader.dispose()
    return node


def get_entries(node: yaml.Node | None) -> list[tuple[yaml.Node, yaml.Node]]:
    """Return the keys and values of a mapping; [] for any other node."""
    return node.value if isinstance(node, yaml.MappingNode) else []


def find_entry(node: yaml.Node | None, path: ValuePath) -> tuple[yaml.Node, yaml.Node] | None:
    """Return the entry of a mapping with the first name of `path`; None without one.

    A section may be in the file several times (`source.REPEATABLE`). Then it is the last one that has the next name of the
    path, else the first one.
    """
    entries = [entry for entry in get_entries(node) if entry[0].value == path[0]]
    if len(entries) > 1 and len(path) > 1:
        having = [entry for entry in entries if any(key.value == path[1] for key, _ in get_entries(entry[1]))]
        return having[-1] if having else entries[0]
    return entries[0] if entries else None


def find_end(key: yaml.Node, value: yaml.Node) -> int:
    """Return the position after the last character of an entry, without the comments and empty lines that follow."""
    if value.start_mark.index < key.end_mark.index:  # an alias: its node is elsewhere
        return int(key.end_mark.index)
    if isinstance(value, yaml.CollectionNode) and not value.flow_style and value.value:
        last = value.value[-1]
        return find_end(*last) if isinstance(value, yaml.MappingNode) else find_end(key, last)
    return int(value.end_mark.index)


def _make_expected(values: dict[str, Any], edit: Edit) -> dict[str, Any]:
    """Return the values after an edit. A section that a removal leaves without entries stays, as an empty one."""
    expected = copy.deepcopy(values)
    *above, last = edit.path
    inner = expected
    for name in above:
        if edit.removes and name not in inner:
            return expected
        below = inner.get(name)
        if below is None:
            below = inner[name] = {}
        if not isinstance(below, dict):
            raise EditRefused(f"'{name}' is not a mapping.")
        inner = below
    if edit.removes:
        inner.pop(last, None)
    else:
        inner[last] = copy.deepcopy(edit.value)
    return expected


class _PatchFinder:
    """A search for the characters of a text that must be replaced so that a key has a value, or is removed."""

    def __init__(self, text: str) -> None:
        self.text = text
        match = _LINE_END.search(text)
        self.newline = match[0] if match else "\n"

    def find_setting(self, edit: Edit) -> _Patch:
        root = compose_nodes(self.text)
        if root is None:
            return self._append_section("", edit)
        self._refuse_flow_root(root)
        key, node = None, root
        for depth, name in enumerate(edit.path):
            entry = find_entry(node, edit.path[depth:])
            if entry is None:
                if key is None:
                    return self._append_section(" " * root.start_mark.column, edit)
                return self._add_entry(key, node, edit, depth)
            key, node = entry
            self._refuse_alias(key, node, name)
        assert key is not None
        return self._replace_value(key, node, edit.value)

    def find_removal(self, path: ValuePath) -> _Patch:
        root = compose_nodes(self.text)
        self._refuse_flow_root(root)
        parent_key, parent, key, node = None, root, None, root
        for depth, name in enumerate(path):
            parent_key, parent = key, node
            entry = find_entry(node, path[depth:])
            assert entry is not None
            key, node = entry
            self._refuse_alias(key, node, name)
        assert key is not None
        assert node is not None
        assert parent is not None
        if isinstance(parent, yaml.MappingNode) and parent.flow_style:
            return self._remove_from_flow(parent, key)
        start, end = self._find_line_start(key.start_mark.index), self._find_next_line(find_end(key, node))
        if len(parent.value) > 1 or parent_key is None:
            return _Patch(start, end, "")
        colon = self.text.index(":", parent_key.end_mark.index) + 1  # the parent stays, as an empty mapping
        return _Patch(colon, end, " {}" + self.text[colon:start])

    def _append_section(self, indent: str, edit: Edit) -> _Patch:
        mark = _END_MARK.search(self.text)
        end = mark.start() if mark else len(self.text)
        before = "" if end == 0 or self.text[end - 1] in "\r\n" else self.newline
        lines = format_lines(edit.path[0], _nest(edit.path[1:], edit.value), indent, is_section=True)
        return _Patch(end, end, before + "".join(line + self.newline for line in lines))

    def _add_entry(self, key: yaml.Node, parent: yaml.Node, edit: Edit, depth: int) -> _Patch:
        name, value = edit.path[depth], _nest(edit.path[depth + 1 :], edit.value)
        if isinstance(parent, yaml.MappingNode) and parent.flow_style and parent.value:
            end = find_end(*parent.value[-1])
            return _Patch(end, end, f", {format_key(name)}: {format_flow(value)}")
        if not isinstance(parent, yaml.MappingNode) or not parent.value:  # a section without entries
            lines = format_lines(name, value, " " * key.start_mark.column + INDENT)
            return self._fill_empty(parent, lines)
        lines = format_lines(name, value, " " * parent.value[0][0].start_mark.column)
        return self._insert_lines(key.end_mark.index if edit.first else find_end(*parent.value[-1]), lines)

    def _fill_empty(self, parent: yaml.Node, lines: list[str]) -> _Patch:
        """Write lines below the name of an entry that has no value, or an empty mapping, which is removed."""
        start, end = parent.start_mark.index, parent.end_mark.index
        patch = self._insert_lines(end, lines)
        rest = self.text[end : patch.start]
        kept = rest if rest.strip() else rest.strip(" \t")
        if isinstance(parent, yaml.MappingNode) and not kept.strip():
            start -= len(self.text[:start]) - len(self.text[:start].rstrip(" \t"))
        return _Patch(start, patch.end, kept + patch.text)

    def _replace_value(self, key: yaml.Node, node: yaml.Node, value: Any) -> _Patch:
        start = node.start_mark.index
        end = find_end(key, node)
        if isinstance(node, yaml.CollectionNode) and not node.flow_style:
            start = self.text.index(":", key.end_mark.index) + 1
            return _Patch(start, end, " " + format_flow(value))
        written = self.text[start:end]
        tail = written[len(written.rstrip()) :] if written.strip() else ""  # a block scalar ends with its line break
        space = "" if written.strip() or self.text[start - 1 : start] == " " else " "
        return _Patch(start, end, space + format_flow(value) + tail)

    def _remove_from_flow(self, parent: yaml.MappingNode, key: yaml.Node) -> _Patch:
        index = next(number for number, entry in enumerate(parent.value) if entry[0] is key)
        if index + 1 < len(parent.value):
            return _Patch(key.start_mark.index, parent.value[index + 1][0].start_mark.index, "")
        start = find_end(*parent.value[index - 1]) if index else key.start_mark.index
        return _Patch(start, find_end(*parent.value[index]), "")

    def _insert_lines(self, after: int, lines: list[str]) -> _Patch:
        """Insert lines below the line that has the character before `after`."""
        start = max(after - 1, 0) if self.text[after - 1 : after] in tuple("\r\n") else after
        match = _LINE_END.search(self.text, start)
        if match is None:
            end = len(self.text)
            return _Patch(end, end, "".join(self.newline + line for line in lines))
        return _Patch(match.end(), match.end(), "".join(line + self.newline for line in lines))

    def _find_line_start(self, index: int) -> int:
        return max(self.text.rfind("\n", 0, index), self.text.rfind("\r", 0, index)) + 1

    def _find_next_line(self, index: int) -> int:
        if self.text[index - 1 : index] in tuple("\r\n"):
            return index
        match = _LINE_END.search(self.text, index)
        return match.end() if match else len(self.text)

    def _refuse_alias(self, key: yaml.Node, node: yaml.Node, name: str) -> None:
        if node.start_mark.index < key.end_mark.index:
            raise EditRefused(
                f"The file shares the value of '{name}' by anchors and aliases. Write it out, or edit the file by hand."
            )

    def _refuse_flow_root(self, root: yaml.Node | None) -> None:
        if not isinstance(root, yaml.MappingNode) or root.flow_style:
            raise EditRefused(
                "The file has the whole file in flow style, {…}. Write one entry per line, or edit the file by hand."
            )


def _nest(path: ValuePath, value: Any) -> Any:
    """Return the value below the names of `path`."""
    for name in reversed(path):
        value = {name: value}
    return value


def find_value(values: Mapping[str, Any], path: ValuePath) -> Any:
    """Return the value at a path; None without one."""
    value: Any = values
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
