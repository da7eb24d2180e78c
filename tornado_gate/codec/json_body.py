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

SMALL_BYTES = 4096
"""In a body of this length at most it is quicker to count brackets than to look for depth."""

_FLAT_BYTES = 2 * MAX_DEPTH
"""A body of this length at most cannot be too deep: each container needs two brackets."""

_CONTAINERS = frozenset({dict, list})
_ESCAPED_COLON = re.compile(rb"\\u003[aA]")


def load_object(raw: bytes) -> dict[str, Any]:
    """The JSON object in `raw`. Raises RequestError, or InvalidField naming the path of a duplicate or too deep value."""
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise _invalid_json_error(raw, error) from None
    if type(value) is not dict:
        raise RequestError("The body must be a JSON object.", code="invalid_json")
    length = len(raw)
    if length > SMALL_BYTES or (length > _FLAT_BYTES and raw.count(b"{") + raw.count(b"[") > MAX_DEPTH):
        _check_depth(value)
    written = orjson.dumps(value)
    if written != raw and _may_have_duplicates(raw, written):
        _refuse_duplicates(raw)
    return value


def _may_have_duplicates(raw: bytes, written: bytes) -> bool:
    """Whether a duplicate may have been lost between `raw` and `written`, which is what was read of it.

    A name that is lost takes its colon with it. All other colons stand in both, those inside strings too, unless they are
    escaped in `raw`.
    """
    if raw.count(b":") != written.count(b":"):
        return True
    return raw.rfind(b"\\u003") >= 0 and _ESCAPED_COLON.search(raw) is not None


def _invalid_json_error(raw: bytes, error: orjson.JSONDecodeError) -> RequestError:
    if not raw or raw.isspace():
        return RequestError("The body is empty; a JSON object is needed.", code="invalid_json")
    reason = str(error)
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as broken:
        reason = f"byte {broken.start} is not UTF-8"
    return RequestError(f"The body is not valid JSON: {reason}.", code="invalid_json")


def _check_depth(value: dict[str, Any]) -> None:
    """Level by level, so that depth costs no stack."""
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        inside = (one.values() if type(one) is dict else one for one in level)
        level = [item for items in inside for item in items if type(item) in _CONTAINERS]
        if not level:
            return
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
