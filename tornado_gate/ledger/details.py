"""What a row of the ledger holds beside the columns of reports: a JSON object, without the members of which nothing is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

DEFAULTS: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("key_name", "account", "upstream_model", "plugin", "format", "error_code", "end_user"), ""),
    **dict.fromkeys(("audio_input_tokens", "audio_output_tokens", "image_tokens", "image_output_tokens")),
    **{"characters": 0, "estimated": False, "cached": False, "first_byte_ms": None, "total_ms": 0.0, "attempts": 0},
    **{"attribution": {}, "body": None},
}
"""The members and what the absence of each means."""


def render_details(values: Mapping[str, Any]) -> str:
    """The object, from `values` by name."""
    known = {name: values.get(name, default) for name, default in DEFAULTS.items()}
    return orjson.dumps({name: value for name, value in known.items() if value != DEFAULTS[name]}).decode()


def parse_details(text: str) -> dict[str, Any]:
    """All members, those that were left out with their default. Members that this version does not know are left out."""
    found = orjson.loads(text)
    # A migrated row has null for what is not known.
    return {name: default if (value := found.get(name)) is None else value for name, default in DEFAULTS.items()}
