"""The files of the sources: YAML, JSON and SQLite, as plain values."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any, Final

import yaml

MAX_BYTES: Final = 32 * 1024 * 1024
MAX_ROWS: Final = 100_000
MAX_VALUES: Final = 1_000_000
SQLITE_START: Final = b"SQLite format 3\x00"
TABLES: Final = ("channels", "tokens", "users")


class UnreadableFile(Exception):
    """A file cannot be read as the format that the command expects. The message says why and what to do."""


def read_yaml(path: Path) -> Any:
    """Return the values of a YAML file, which may be JSON and may have merge keys. Raises UnreadableFile."""
    try:
        value = yaml.load(_read_text(path), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or "it cannot be parsed"
        raise UnreadableFile(
            f"{path}{line}: is not valid YAML: {problem}; a value that begins with * needs quotes"
        ) from None
    except RecursionError:
        raise UnreadableFile(f"{path} is nested too deeply") from None
    _check_size(value, path)
    return value


def _check_size(value: Any, path: Path) -> None:
    """Refuse a file whose aliases expand to too many values."""
    rest, count = [value], 0
    while rest:
        item = rest.pop()
        count += 1
        if count > MAX_VALUES:
            raise UnreadableFile(f"{path} has more than {MAX_VALUES} values with its aliases expanded")
        if isinstance(item, dict):
            rest += item.values()
        elif isinstance(item, list):
            rest += item


def read_json(path: Path) -> Any:
    """Return the value of a JSON file. Raises UnreadableFile."""
    try:
        return json.loads(_read_text(path))
    except ValueError as error:
        raise UnreadableFile(f"{path} is not valid JSON: {error}") from None
    except RecursionError:
        raise UnreadableFile(f"{path} is nested too deeply") from None


def read_tables(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of the tables `TABLES` of a SQLite database, or of a JSON object with these members.

    The answer of an API, ``{"data": {"items": […]}}``, is a table of channels. Raises UnreadableFile.
    """
    _check_kind(path)
    try:
        with path.open("rb") as file:
            is_database = file.read(len(SQLITE_START)) == SQLITE_START
    except OSError as error:
        raise UnreadableFile(f"{path} cannot be read: {error.strerror}") from None
    return _read_database(path) if is_database else _read_export(path)


def _check_kind(path: Path) -> None:
    """Refuse pipes and devices, which may have no end."""
    if path.exists() and not path.is_file():
        raise UnreadableFile(f"{path} is not a file; name the file with the configuration")


def _read_text(path: Path) -> str:
    _check_kind(path)
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UnreadableFile(f"{path} is larger than {MAX_BYTES // 1024 // 1024} MiB")
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UnreadableFile(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UnreadableFile(f"{path} is not text in UTF-8") from None


def _read_database(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Read a database without a change to it: a write-ahead log beside it is read too."""
    try:
        database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    except sqlite3.Error as error:
        raise UnreadableFile(f"{path} cannot be opened: {error}") from None
    database.row_factory = sqlite3.Row
    try:
        known = {row["name"] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if "channels" not in known:
            raise UnreadableFile(
                f"{path} has no table 'channels'; name the database of new-api or one-api, such as one-api.db"
            )
        return {name: _read_rows(database, name) if name in known else [] for name in TABLES}
    except sqlite3.Error as error:
        raise UnreadableFile(f"{path} cannot be read: {error}") from None
    finally:
        database.close()


def _read_rows(database: sqlite3.Connection, table: str) -> list[dict[str, Any]]:
    rows = [dict(row) for row in database.execute(f"SELECT * FROM {table} LIMIT {MAX_ROWS + 1}")]
    if len(rows) > MAX_ROWS:
        raise UnreadableFile(f"the table '{table}' has more than {MAX_ROWS} rows")
    return sorted(rows, key=lambda row: row.get("id") or 0)


def _read_export(path: Path) -> dict[str, list[dict[str, Any]]]:
    value = read_json(path)
    if isinstance(value, dict) and "channels" not in value and "data" in value:
        value = value["data"]
    if isinstance(value, dict) and "channels" not in value and "items" in value:
        value = value["items"]
    tables = {"channels": value} if isinstance(value, list) else value if isinstance(value, dict) else {}
    return {name: [row for row in tables.get(name) or [] if isinstance(row, dict)] for name in TABLES}
