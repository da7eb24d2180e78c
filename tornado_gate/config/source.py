"""Read a YAML file as plain values, with the line of every key and item. The meaning of keys is not used.

There are differences from `yaml.safe_load`: duplicate keys, tags and merge keys are faults; a key is its literal text
(``on:`` is "on"); a date stays text; the number of values is limited, with aliases expanded.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import yaml

from tornado_gate.config.faults import Fault, FileFaults, KeyPath
from tornado_gate.config.stored import StoredConf
from tornado_gate.config.written import hold_off_writers
from tornado_gate.types.value import State, field

LARGEST_FILE = 16 * 1024 * 1024
READ_ATTEMPTS = 20
READ_PAUSE_SECONDS = 0.05
MAX_VALUES = 500_000
MAX_DEPTH = 50

_TAG = "tag:yaml.org,2002:"
_BaseLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_Loader: Any = type(
    "ConfLoader",
    (_BaseLoader,),
    {
        "yaml_implicit_resolvers": {
            first: [(tag, pattern) for tag, pattern in resolvers if tag != f"{_TAG}timestamp"]
            for first, resolvers in _BaseLoader.yaml_implicit_resolvers.items()
        }
    },
)


class FileBusy(FileFaults):
    """Another process has the file open for writing, so its content may be incomplete."""


class Document(State):
    """The content of a file: None, str, bool, int, float, list and dict with string keys. `lines` counts from 1."""

    values: Any = None
    lines: dict[KeyPath, int] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    is_closed: bool = False
    """The text ends with the line ``...``, YAML's mark of the end."""
    version: str = ""
    """The version of the text: see `digest_text`."""


def digest_text(text: str) -> str:
    """Return the version of a file's text: its SHA-256, in 64 hexadecimal digits. A byte order mark is not part of it."""
    return hashlib.sha256(text.removeprefix("\ufeff").encode()).hexdigest()


def read(path: Path, *, at_rest: bool = False) -> Document:
    """Read the file at `path`. Raises FileFaults if it cannot be read or is not valid YAML.

    With `at_rest`, as for a reload, raises FileBusy if another process has the file open for writing, and never waits for a pipe.
    """
    if isinstance(path, StoredConf):
        return parse(path.text, path)
    content = _read_unchanging(path, at_rest=at_rest)
    if len(content) > LARGEST_FILE:
        raise FileFaults([((), f"is too large; at most {LARGEST_FILE >> 20} MiB are allowed")], path, {})
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise FileFaults([((), "has a byte that is not UTF-8; save the file as UTF-8")], path, {(): line}) from None
    return parse(text, path)


def _read_unchanging(path: Path, *, at_rest: bool) -> bytes:
    """Return the content of a file that was not changed while it was read. Raises FileFaults.

    A writer that does not replace the file atomically may leave half of it. In that case it is read again a little
    later.
    """
    for _ in range(READ_ATTEMPTS):
        try:
            with (
                open(path, "rb", opener=_open_at_once if at_rest else None) as file,
                hold_off_writers(file.fileno()) as held,
            ):
                before = os.fstat(file.fileno())
                if at_rest and not stat.S_ISREG(before.st_mode):
                    raise FileFaults([((), "is not a regular file")], path, {})
                content = file.read(LARGEST_FILE + 1)
                after = os.fstat(file.fileno())
        except OSError as error:
            raise FileFaults([((), f"cannot be read: {error.strerror}")], path, {}) from None
        if held is False and at_rest:
            raise FileBusy([((), "another process has the file open for writing")], path, {})
        is_same = (before.st_mtime_ns, before.st_size) == (after.st_mtime_ns, after.st_size)
        if not stat.S_ISREG(after.st_mode) or (is_same and len(content) == min(after.st_size, LARGEST_FILE + 1)):
            return content
        time.sleep(READ_PAUSE_SECONDS)
    raise FileFaults([((), "changes while it is read; replace it in one step, with `mv`")], path, {})


def _open_at_once(path: str, flags: int) -> int:
    """Open a file for reading, without blocking. A pipe would wait for a writer, and block the thread of each reload."""
    return os.open(path, flags | os.O_NONBLOCK)


def parse(text: str, path: Path) -> Document:
    """Parse YAML text as a Document. Raises FileFaults for the file `path` if it is not valid YAML."""
    try:
        is_closed = _check_depth(text)
        loader = make_loader(text)
        try:
            document = _NodeReader(loader).read()
        finally:
            loader.dispose()
        document.is_closed = is_closed
        document.version = digest_text(text)
        return document
    except _YamlError as error:
        message, line = str(error), error.line
    except yaml.MarkedYAMLError as error:
        message, line = _explain_yaml_error(error, text)
    except yaml.reader.ReaderError as error:
        message = f"is not valid YAML: the character U+{ord(_describe_character(error)):04X} is not allowed"
        line = text.count("\n", 0, max(text.find(_describe_character(error)), 0)) + 1
    raise FileFaults([((), message)], path, {(): line})


def make_loader(text: str) -> Any:
    """Return a PyYAML loader of a text, which composes nodes by the rules of this module. Dispose it after use."""
    return _Loader(text)


REPEATABLE: Final = frozenset({"plugins", "providers", "models"})
"""Sections that a file may have several times, so that lines which add a vendor can be put at its end."""


class _YamlError(Exception):
    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


def _check_depth(text: str) -> bool:
    """Raise _YamlError for text nested too deeply. Returns whether the text has the mark of the end.

    libyaml composes recursively in C, where deep nesting crashes the process. This function reads events, without
    recursion. Newer versions of libyaml have a limit of their own, which a text may exceed before its first event.
    """
    depth, is_closed = 0, False
    try:
        for event in yaml.parse(text, Loader=_Loader):
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                if depth > MAX_DEPTH:
                    raise _make_depth_error(event.start_mark)
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            elif isinstance(event, yaml.DocumentEndEvent):
                is_closed = bool(event.explicit)
    except yaml.MarkedYAMLError as error:
        if "nesting depth" not in str(error.problem):
            raise
        raise _make_depth_error(error.problem_mark) from None
    return is_closed


def _make_depth_error(mark: Any) -> _YamlError:
    return _YamlError(f"is nested too deeply; at most {MAX_DEPTH} levels are allowed", _get_line_number(mark))


def _get_line_number(mark: Any) -> int:
    """Return the line of a PyYAML mark, counted from 1."""
    return int(mark.line) + 1


class _NodeReader:
    """A converter of composed nodes to values. Aliases are expanded, so one node may be read several times."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader
        self.document = Document()
        self.count = 0
        self.scalars: dict[str, Callable[[yaml.Node], Any]] = {
            f"{_TAG}null": lambda node: None,
            f"{_TAG}bool": loader.construct_yaml_bool,
            f"{_TAG}int": loader.construct_yaml_int,
            f"{_TAG}float": loader.construct_yaml_float,
        }

    def read(self) -> Document:
        node = self.loader.get_single_node()
        self.document.lines[()] = 1
        if node is not None:
            self.document.values = self.read_value(node, ())
        return self.document

    def read_value(self, node: yaml.Node, path: KeyPath) -> Any:
        self.count += 1
        if self.count > MAX_VALUES or len(path) > MAX_DEPTH:
            raise _YamlError(
                f"is too large with its aliases expanded; at most {MAX_VALUES} values "
                f"and {MAX_DEPTH} levels are allowed",
                _get_line_number(node.start_mark),
            )
        if node.tag == f"{_TAG}str":
            return node.value
        if node.tag == f"{_TAG}map" and isinstance(node, yaml.MappingNode):
            return self.read_mapping(node, path)
        if node.tag == f"{_TAG}seq" and isinstance(node, yaml.SequenceNode):
            return self.read_sequence(node, path)
        return self.read_scalar(node, path)

    def read_mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        lines, values = self.document.lines, dict[str, Any]()
        for key_node, value_node in node.value:
            line = _get_line_number(key_node.start_mark)
            if not isinstance(key_node, yaml.ScalarNode):
                self.add_fault((*path, "?"), line, "a key must be text; put quotes around it and around any ${...}")
                continue
            key = key_node.value
            below = (*path, key)
            if key_node.tag == f"{_TAG}merge":
                self.add_fault(below, line, "merge keys are not supported; write the keys out")
                continue
            if key in values and not path and key in REPEATABLE:
                values[key] = self.extend_section(values[key], value_node, key, line)
                continue
            if key in values:
                self.add_fault(below, line, f"occurs twice, first on line {lines[below]}; remove one of them")
            lines[below] = line
            values[key] = self.read_value(value_node, below)
        return values

    def extend_section(self, section: Any, node: yaml.Node, name: str, line: int) -> Any:
        """Return a section of REPEATABLE with the entries of a further one. An entry that both have is a fault.

        A plugin that is off in the first one may be switched on in the second.
        """
        lines = self.document.lines
        known = {below: lines[below] for below in lines if len(below) == 2 and below[0] == name}
        further = self.read_value(node, (name,))
        if not isinstance(section or {}, dict) or not isinstance(further or {}, dict):
            self.add_fault((name,), line, f"occurs twice, first on line {lines[name,]}; remove one of them")
            return section
        for entry in (section or {}).keys() & (further or {}).keys():
            if name != "plugins" or section[entry] is not False:
                first = known[name, entry]
                self.add_fault(
                    (name, entry), lines[name, entry], f"occurs twice, first on line {first}; remove one of them"
                )
        return {**(section or {}), **(further or {})}

    def read_sequence(self, node: yaml.SequenceNode, path: KeyPath) -> list[Any]:
        for index, item in enumerate(node.value):
            self.document.lines[(*path, index)] = _get_line_number(item.start_mark)
        return [self.read_value(item, (*path, index)) for index, item in enumerate(node.value)]

    def read_scalar(self, node: yaml.Node, path: KeyPath) -> Any:
        construct = self.scalars.get(node.tag)
        if construct is None or not isinstance(node, yaml.ScalarNode):
            self.add_fault(
                path,
                _get_line_number(node.start_mark),
                "tags are not allowed; write the plain value, in quotes if it begins with !",
            )
            return None
        try:
            return construct(node)
        except (ValueError, KeyError, IndexError):
            self.add_fault(
                path, _get_line_number(node.start_mark), "is not a number that can be read; put quotes around text"
            )
            return None

    def add_fault(self, path: KeyPath, line: int, message: str) -> None:
        self.document.lines.setdefault(path, line)
        self.document.faults.append((path, message))


def _describe_character(error: yaml.reader.ReaderError) -> str:
    """Return the character that the reader refused; the C reader gives its number, contrary to PyYAML's types."""
    character: Any = error.character
    return chr(character) if isinstance(character, int) else str(character)[:1]


def _explain_yaml_error(error: yaml.MarkedYAMLError, text: str) -> tuple[str, int]:
    """Return (PyYAML's message with a hint for common mistakes, line)."""
    problem = f"{error.context}: {error.problem}" if error.context else str(error.problem)
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return f"is not valid YAML: {problem}", 1
    start = mark.line
    lines = text.split("\n")
    line = lines[start] if start < len(lines) else ""
    hint = _find_hint(problem, line, line[mark.column : mark.column + 1])
    return f"is not valid YAML: {problem}{hint}", start + 1


def _find_hint(problem: str, line: str, character: str) -> str:
    if "tab" in problem or character == "\t":
        return "; YAML indents with spaces, never with tabs"
    if "alias" in problem:
        return '; a value or name that begins with * needs quotes: "*"'
    if "${" in line and "flow" in problem:
        return '; inside { } and [ ] a ${...} needs quotes: "${...}"'
    if "mapping values" in problem:
        return "; text that contains ': ' needs quotes"
    if "cannot start" in problem:
        return "; text that begins with this character needs quotes"
    return ""
