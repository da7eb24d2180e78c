"""Faults of conf: key path and message, their formatting, and their conversion from marshmallow's messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from tornado_gate.errors import ConfigError

KeyPath = tuple[str | int, ...]
Fault = tuple[KeyPath, str]

LONGEST_KEY = 120
MANY_CHOICES = 200
MAX_LISTED = 30
MAX_SEARCHES = 100


class FileFaults(ConfigError):
    """The faults of one file. `lines` maps a key path to its line; () maps to the line of faults without a key."""

    def __init__(self, faults: list[Fault], path: Path | None, lines: Mapping[KeyPath, int]) -> None:
        super().__init__(faults)
        self.path = path
        self.lines = lines

    def report(self) -> list[str]:
        """Return one ``FILE:LINE: KEY: message`` for each fault, in the order of the file."""
        return describe(self.faults, self.path, self.lines)


def describe(faults: Iterable[Fault], config_path: Path | None, lines: Mapping[KeyPath, int]) -> list[str]:
    """Return ``FILE:LINE: KEY: message`` for each fault, sorted by line; a missing key has the line of its parent.

    `config_path` None means the built-in conf.
    """
    file = "built-in conf" if config_path is None else str(config_path)
    placed = sorted((line_of(path, lines), ".".join(map(str, path)), message) for path, message in faults)
    return [_escape_unprintable(f"{file}:{line}: {_format_key(key)}{message}") for line, key, message in placed]


def line_of(path: KeyPath, lines: Mapping[KeyPath, int]) -> int:
    """Return the line of `path` or of its nearest parent."""
    for length in range(len(path), -1, -1):
        if path[:length] in lines:
            return lines[path[:length]]
    return 1


def _format_key(key: str) -> str:
    if not key:
        return ""
    return f"{key[:LONGEST_KEY]}{'…' if len(key) > LONGEST_KEY else ''}: "


def _escape_unprintable(text: str) -> str:
    """Escape unprintable characters: a fault is one line, and a file's content must not send control codes to a terminal."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """Return ``; did you mean 'port'?`` for the nearest of `choices`, or "" if none is near."""
    nearest = _find_nearest(word[:LONGEST_KEY], tuple(choices))
    return f"; did you mean '{nearest}'?" if nearest else ""


@lru_cache(maxsize=256)
def _find_nearest(word: str, choices: tuple[str, ...]) -> str:
    """Return the nearest choice or "". A choice that differs in case, hyphens and underscores only is the nearest.

    difflib is slow, so of many choices only those of similar length are compared. A choice that is much shorter or longer than
    the word, such as ``api`` for ``apikey``, is not near.
    """
    folded = _fold_word(word)
    same = next((name for name in choices if _fold_word(name) == folded), "")
    if same:
        return same
    if len(choices) > MANY_CHOICES:
        similar = (name for name in choices if abs(len(name) - len(word)) <= 1 and name[:1] == word[:1])
        choices = tuple(similar)[:MANY_CHOICES]
    most = max(2, len(word) // 3)
    near = [name for name in choices if abs(len(name) - len(word)) <= most]
    return next(iter(difflib.get_close_matches(word, near, n=1)), "")


def _fold_word(word: str) -> str:
    return word.lower().replace("-", "").replace("_", "")


class KnownNames:
    """The allowed names for a reference. The number of searches for similar names is limited, because they are slow."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(sorted(names))
        self.members = frozenset(self.names)
        self.searches_left = MAX_SEARCHES

    def __contains__(self, name: object) -> bool:
        return name in self.members

    def find_similar(self, word: str) -> str:
        """Return the name nearest to `word`, or "" if none is near or the number of searches is exceeded."""
        self.searches_left -= 1
        return _find_nearest(word[:LONGEST_KEY], self.names) if self.searches_left >= 0 else ""

    def describe_unknown(self, kind: str, word: str) -> str:
        """Return ``unknown provider 'x'; did you mean 'y'?``, or a list of the allowed names if none is similar."""
        similar = self.find_similar(word)
        if similar:
            return f"unknown {kind}; did you mean '{similar}'?"
        if not self.names:
            return f"unknown {kind}; conf defines none"
        more = ", …" if len(self.names) > MAX_LISTED else ""
        return f"unknown {kind}; allowed: {', '.join(self.names[:MAX_LISTED])}{more}"


_PLAIN_MESSAGES = {
    "Missing data for required field.": "is missing",
    "Field may not be null.": "has no value; give it one, or leave the key out",
    "Not a valid string.": "must be a string",
    "Not a valid integer.": "must be an integer",
    "Not a valid number.": "must be a number",
    "Not a valid boolean.": "must be true or false",
    "Not a valid list.": "must be a list",
    "Not a valid mapping type.": "must be a mapping",
    "Invalid input type.": "must be a mapping",
}
_UNKNOWN_KEY = "Unknown field."


class KeyDescriber(Protocol):
    """A protocol for descriptions of unknown keys: `key_index.KeyIndex`."""

    def describe_unknown_key(self, word: str, siblings: KnownNames) -> str: ...


def flatten_messages(
    messages: Any,
    keys: KeyDescriber,
    checker: object = None,
    path: KeyPath = (),
    names: Iterable[str] = (),
    top_names: Iterable[str] | None = None,
) -> Iterator[Fault]:
    """Yield every leaf of marshmallow's nested messages with its path. `keys` describes unknown keys.

    `checker` is the schema or field that produced the messages and defines the allowed keys; `names` are the keys allowed at the
    level of the last key of `path`. `top_names` replaces the allowed keys of `checker` itself.
    """
    if isinstance(messages, Mapping):
        for key, inner in messages.items():
            if key == "_schema" and inner != [_UNKNOWN_KEY]:
                yield from flatten_messages(inner, keys, checker, path, names)
            else:
                allowed = list_allowed_keys(checker) if top_names is None else top_names
                yield from flatten_messages(inner, keys, find_field(checker, key), (*path, key), allowed)
    elif isinstance(messages, list):
        for message in messages:
            yield from flatten_messages(message, keys, checker, path, names)
    elif messages == _UNKNOWN_KEY:
        yield path, keys.describe_unknown_key(str(path[-1]), KnownNames(names))
    else:
        yield path, _PLAIN_MESSAGES.get(str(messages), str(messages))


def find_field(checker: object, key: str | int) -> object:
    """Return the schema or field that checks the value under `key` in `checker`, or None without one."""
    schema = _get_inner_field(checker)
    if hasattr(schema, "load_fields"):
        if isinstance(key, int):  # Nested(many=True)
            return schema
        return next((field for name, field in list_fields_by_key(schema) if name == key), None)
    return getattr(checker, "item", None) or getattr(checker, "inner", None)


def list_allowed_keys(checker: object) -> list[str]:
    """Return the keys that `checker` allows; [] if it is not a schema."""
    return [name for name, _ in list_fields_by_key(_get_inner_field(checker))]


def _get_inner_field(checker: object) -> Any:
    return getattr(checker, "schema", checker)


def list_fields_by_key(schema: Any) -> list[tuple[str, object]]:
    """Return the keys of a schema with their fields; [] if it is not a schema."""
    load_fields: Mapping[str, Any] = getattr(schema, "load_fields", {})
    return [(field.data_key or name, field) for name, field in load_fields.items()]
