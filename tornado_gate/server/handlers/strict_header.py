"""The header ``x-gate-strict``: whether a field that would be dropped is an error of the caller."""

from __future__ import annotations

from tornado_gate.errors import InvalidField

HEADER = "x-gate-strict"
_ON = ("1", "true")
_OFF = ("0", "false")
_MAX_SHOWN = 60


def is_strict(value: str) -> bool:
    """Return whether a valid value of the header switches it on; False for an invalid one."""
    return value.lower() in _ON


def check_strict(value: str) -> None:
    """Raise InvalidField for a value that means neither on nor off."""
    if value.lower() not in _ON + _OFF:
        raise InvalidField(
            HEADER,
            f"The header '{HEADER}' is '{value[:_MAX_SHOWN]}'. Send 1 or true, or 0 or false, or omit the header.",
        )
