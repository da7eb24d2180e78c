"""The text of new entries of a configuration file: one line where it fits, else one line for each member."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

import yaml

from tornado_gate.config import source

INDENT: Final = "  "
WIDTH: Final = 88
"""The longest line with a whole entry."""
_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)
_PLAIN_VALUE: Final = re.compile(r"[A-Za-z_][\w./@+-]*", re.ASCII)


def format_key(name: str) -> str:
    """Return a key. A key is its literal text, so words such as ``on`` need no quotes."""
    return name if _PLAIN_KEY.fullmatch(name) else _quote(name)


def format_flow(value: Any) -> str:
    """Return a value of JSON types on one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{format_key(str(key))}: {format_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(format_flow(item) for item in value) + "]"
    if isinstance(value, str):
        return value if _PLAIN_VALUE.fullmatch(value) and _stays_text(value) else _quote(value)
    return json.dumps(value)


def format_lines(name: str, value: Any, indent: str, *, is_section: bool = False) -> list[str]:
    """Return the lines of an entry, without line ends. A section has one entry on each line."""
    line = f"{indent}{format_key(name)}: {format_flow(value)}"
    if not isinstance(value, Mapping) or not value or not (is_section or len(line) > WIDTH):
        return [line]
    inner = [format_lines(str(key), item, indent + INDENT) for key, item in value.items()]
    return [f"{indent}{format_key(name)}:", *(line for lines in inner for line in lines)]


def _stays_text(value: str) -> bool:
    """Return whether YAML reads a plain scalar as the same text, and not as a switch or as null."""
    loader = source.make_loader("")
    try:
        return bool(loader.resolve(yaml.ScalarNode, value, (True, False)) == "tag:yaml.org,2002:str")
    finally:
        loader.dispose()


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
