"""The details of a ledger row: a JSON object beside the columns of reports. Members with an unknown value are omitted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

DEFAULTS: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("key_name", "account", "upstream_model", "plugin", "format", "error_code", "end_user"), ""),
    **dict.fromkeys(("error_message", "error_detail"), ""),
    **dict.fromkeys(("audio_input_tokens", "audio_output_tokens", "image_tokens", "image_output_tokens")),
    **{"characters": 0, "estimated": False, "cached": False, "first_byte_ms": None, "total_ms": 0.0, "attempts": 0},
    **{"attribution": {}, "body": None},
}
"""The members, and the meaning of each when it is absent."""


def render_details(values: Mapping[str, Any]) -> str:
    """Render the object from `values` by name."""
    known = {name: values.get(name, default) for name, default in DEFAULTS.items()}
    return orjson.dumps({name: value for name, value in known.items() if value != DEFAULTS[name]}).decode()


def parse_details(text: str) -> dict[str, Any]:
    """Return all members. An absent member has its default; a member that this version does not define is dropped."""
    members = orjson.loads(text)
    # A migrated row has null for an unknown value.
    return {name: default if (value := members.get(name)) is None else value for name, default in DEFAULTS.items()}
