"""Helpers for JSON objects, shared by the modules of this package. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import orjson

from tornado_gate.codec.large_json import dump_json, load_text

WIRE_FORMAT: Final = "anthropic-messages"
BETA_HEADER: Final = "anthropic-beta"
"""The header with the beta features of a request. It has this name in `ChatRequest.extra` too: other upstreams report it."""


def select_unknown(value: Mapping[str, Any], *known: str) -> dict[str, Any]:
    """The members of `value` whose names are not in `known`."""
    if not value.keys() - known:
        return {}
    return {name: member for name, member in value.items() if name not in known}


def drop_null(value: Mapping[str, Any]) -> dict[str, Any]:
    """The members that are not null."""
    return {name: member for name, member in value.items() if member is not None}


def drop_none(**members: Any) -> dict[str, Any]:
    """The members that are not None, in the given order."""
    return drop_null(members)


def read_string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def add_extra(value: dict[str, Any], extra: Mapping[str, Any], inside: str = "") -> dict[str, Any]:
    """Add the members of `extra` to `value` and return it. Members already in `value` win; `inside` is merged one level down."""
    for name, member in extra.items():
        if name == inside and isinstance(member, Mapping) and isinstance(value.get(name), dict):
            value[name] = {**member, **value[name]}
        else:
            value.setdefault(name, member)
    return value


def dump_compact(value: Any) -> str:
    """Compact JSON text. Falls back to `json` for integers over 64 bits, which orjson rejects."""
    try:
        return dump_json(value).decode()
    except TypeError:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def parse_arguments(text: str) -> dict[str, Any]:
    """The JSON object in the arguments of a tool call: {} for empty text, ``{"input": text}`` for text that is not an object."""
    if not text.strip():
        return {}
    try:
        value = load_text(text)
    except orjson.JSONDecodeError:
        return {"input": text}
    return value if isinstance(value, dict) else {"input": text}
