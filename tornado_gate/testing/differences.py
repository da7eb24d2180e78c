"""Comparisons whose failure says what differs: for the contracts, and for the conformance kit, which runs without pytest."""

from __future__ import annotations

import difflib
import pprint
import sys
from collections.abc import Mapping
from typing import Any

import msgspec

GUIDE = "docs/plugin-testing.md"
MOST_LINES = 60
MOST_BYTES = 200


def check_equal(found: Any, expected: Any, what: str = "") -> None:
    """Raises AssertionError if the values differ. `what` says what was compared and where to look.

    Below pytest its own explanation of the assert follows; elsewhere the message has the differing lines.
    """
    if found == expected:
        return
    message = f"{what or 'The values differ.'} See {GUIDE}."
    if "pytest" not in sys.modules:
        message += "\n" + describe_difference(found, expected)
    assert found == expected, message


def describe_difference(found: Any, expected: Any) -> str:
    """The lines that differ: those with - are expected, those with + were found."""
    before, after = (pprint.pformat(simplify(value), width=100).splitlines() for value in (expected, found))
    lines = [
        line.rstrip()
        for line in difflib.unified_diff(before, after, "expected", "found", lineterm="", n=2)
        if not line.startswith("@@")
    ]
    if len(lines) > MOST_LINES:
        lines = [*lines[:MOST_LINES], f"… and {len(lines) - MOST_LINES} more lines"]
    return "\n".join(lines) or f"expected {expected!r}\nfound    {found!r}"


def simplify(value: Any) -> Any:
    """`value` of dicts, lists and short texts: a struct as its name and the fields that are not at their defaults."""
    if isinstance(value, msgspec.Struct):
        fields = {}
        for one in msgspec.structs.fields(value):
            member = getattr(value, one.name)
            if not _is_default(one, member):
                fields[one.name] = simplify(member)
        return {type(value).__name__: fields}
    if isinstance(value, Mapping):
        return {name: simplify(member) for name, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [simplify(item) for item in value]
    if isinstance(value, (bytes, str)) and len(value) > MOST_BYTES * 5:
        return value[:MOST_BYTES], f"… {len(value)} in total"
    return value


def _is_default(one: msgspec.structs.FieldInfo, member: Any) -> bool:
    if one.default is not msgspec.NODEFAULT:
        return bool(member == one.default)
    return one.default_factory is not msgspec.NODEFAULT and bool(member == one.default_factory())
