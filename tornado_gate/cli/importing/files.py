"""The files of the sources: YAML and JSON, as plain values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import yaml

MAX_BYTES: Final = 32 * 1024 * 1024
MAX_VALUES: Final = 1_000_000
MAX_DEPTH: Final = 100
"""The readers of the sources are recursive. No configuration has a tenth of this depth."""


class UnreadableSource(Exception):
    """A file or a database cannot be read as what the command expects. The message says why and what to do."""


def read_yaml(path: Path) -> Any:
    """Return the values of a YAML file, which may be JSON and may have merge keys. Raises UnreadableSource."""
    try:
        value = yaml.load(_read_text(path), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or "it cannot be parsed"
        raise UnreadableSource(
            f"{path}{line}: is not valid YAML: {problem}; a value that begins with * needs quotes"
        ) from None
    except RecursionError:
        raise UnreadableSource(f"{path} is nested too deeply") from None
    _check_size(value, path)
    return value


def _check_size(value: Any, path: Path) -> None:
    """Refuse a file that is too deep, or whose aliases expand to too many values."""
    rest, count = [(value, 1)], 0
    while rest:
        item, depth = rest.pop()
        count += 1
        if count > MAX_VALUES:
            raise UnreadableSource(f"{path} has more than {MAX_VALUES} values with its aliases expanded")
        if depth > MAX_DEPTH:
            raise UnreadableSource(f"{path} is nested too deeply")
        if isinstance(item, dict):
            rest += [(inner, depth + 1) for inner in item.values()]
        elif isinstance(item, list):
            rest += [(inner, depth + 1) for inner in item]


def read_json(path: Path) -> Any:
    """Return the value of a JSON file. Raises UnreadableSource."""
    try:
        value = json.loads(_read_text(path))
    except ValueError as error:
        raise UnreadableSource(f"{path} is not valid JSON: {error}") from None
    except RecursionError:
        raise UnreadableSource(f"{path} is nested too deeply") from None
    _check_size(value, path)
    return value


def check_kind(path: Path) -> None:
    """Refuse pipes and devices, which may have no end. Raises UnreadableSource."""
    if path.exists() and not path.is_file():
        raise UnreadableSource(f"{path} is not a file; name the file with the configuration")


def _read_text(path: Path) -> str:
    check_kind(path)
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UnreadableSource(f"{path} is larger than {MAX_BYTES // 1024 // 1024} MiB")
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UnreadableSource(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UnreadableSource(f"{path} is not text in UTF-8") from None
