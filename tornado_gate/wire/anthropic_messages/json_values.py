"""Small ways with JSON objects that every module here uses. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import orjson

WIRE_FORMAT: Final = "anthropic-messages"


def select_unknown(value: Mapping[str, Any], *known: str) -> dict[str, Any]:
    """The members of `value` whose names are not `known`."""
    return {name: member for name, member in value.items() if name not in known}


def drop_null(value: Mapping[str, Any]) -> dict[str, Any]:
    """The members that are not null."""
    return {name: member for name, member in value.items() if member is not None}


def drop_none(**members: Any) -> dict[str, Any]:
    """The members that are not None, in their order."""
    return drop_null(members)


def read_string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def add_extra(value: dict[str, Any], extra: Mapping[str, Any], inside: str = "") -> dict[str, Any]:
    """`value` with `extra` put back; what it says itself stands. The member `inside` is merged one level down."""
    for name, member in extra.items():
        if name == inside and isinstance(member, Mapping) and isinstance(value.get(name), dict):
            value[name] = {**member, **value[name]}
        else:
            value.setdefault(name, member)
    return value


def dump_compact(value: Any) -> str:
    """JSON text; integers beyond 64 bits too, which orjson refuses."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def parse_arguments(text: str) -> dict[str, Any]:
    """The JSON object in the arguments of a call: no text is no argument, and any other text goes below ``input``."""
    if not text.strip():
        return {}
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {"input": text}
    return value if isinstance(value, dict) else {"input": text}
