"""Request bytes to a JSON object, or a clear 400. Knows no wire format.

Stricter than a parser must be, because the same bytes may go upstream as they came and be read there by another parser:
duplicate names (which of the two was checked?), NaN and Infinity, invalid UTF-8 and unbounded depth are refused.
"""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

from tornado_gate.errors import InvalidField, RequestError

MAX_DEPTH = 128
"""Containers inside containers. No known API needs thirty; an encoder gives up at 254."""

_SPACED_COLON = re.compile(rb'"\s+:')


def load_object(raw: bytes) -> dict[str, Any]:
    """The JSON object in `raw`. Raises RequestError, or InvalidField naming the path of a duplicate or too deep value."""
    if not raw.strip():
        raise RequestError("The body is empty; a JSON object is needed.", code="invalid_json")
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise RequestError(f"The body is not valid JSON: {_reason(raw, error)}.", code="invalid_json") from None
    if not isinstance(value, dict):
        raise RequestError("The body must be a JSON object.", code="invalid_json")
    names = _count_names(value)
    if raw.count(b'":') != names or _SPACED_COLON.search(raw) is not None:
        _refuse_duplicates(raw)
    return value


def _reason(raw: bytes, error: orjson.JSONDecodeError) -> str:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as broken:
        return f"byte {broken.start} is not UTF-8"
    return str(error)


def _count_names(value: dict[str, Any]) -> int:
    """How many object members there are in all, level by level, so that depth costs no stack."""
    names = 0
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        deeper: list[Any] = []
        for container in level:
            items = container
            if isinstance(container, dict):
                names += len(container)
                items = container.values()
            deeper.extend(item for item in items if isinstance(item, (dict, list)))
        if not deeper:
            return names
        level = deeper
    raise RequestError(f"The body is nested more than {MAX_DEPTH} levels deep.", code="invalid_json")


def _refuse_duplicates(raw: bytes) -> None:
    """Read again, slowly, with the names of every object in view. Only bodies that look suspicious come here."""

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(items)
        if len(result) != len(items):
            seen: set[str] = set()
            for name, _ in items:
                if name in seen:
                    shown = name[:100]
                    raise InvalidField(shown, f"The name '{shown}' stands twice in one object.", code="duplicate_name")
                seen.add(name)
        return result

    json.loads(raw, object_pairs_hook=pairs)
