"""Comparisons whose failure shows the differences, for the contracts, and for the conformance kit, which runs without
pytest.
"""

from __future__ import annotations

import difflib
import pprint
import sys
from collections.abc import Mapping
from typing import Any

import msgspec

GUIDE = "docs/plugins/plugin-testing.md"
MOST_LINES = 60
MOST_BYTES = 200


def check_equal(actual: Any, expected: Any, what: str = "") -> None:
    """Compare two values. Raises AssertionError if they differ. `what` describes the compared values and where to look.

    Below pytest its own explanation of the assert follows; elsewhere the message has the differing lines.
    """
    if actual == expected:
        return
    message = f"{what or 'The values differ.'} See {GUIDE}."
    if "pytest" not in sys.modules:
        message += "\n" + describe_difference(actual, expected)
    assert actual == expected, message


def describe_difference(actual: Any, expected: Any) -> str:
    """Return the differing lines: a line with - is expected, a line with + is actual."""
    before, after = (pprint.pformat(simplify(value), width=100).splitlines() for value in (expected, actual))
    lines = [
        line.rstrip()
        for line in difflib.unified_diff(before, after, "expected", "found", lineterm="", n=2)
        if not line.startswith("@@")
    ]
    if len(lines) > MOST_LINES:
        lines = [*lines[:MOST_LINES], f"… and {len(lines) - MOST_LINES} more lines"]
    return "\n".join(lines) or f"expected {expected!r}\nfound    {actual!r}"


def simplify(value: Any) -> Any:
    """Convert `value` to dicts, lists and short texts. A struct becomes its name and its fields with values other than
    the default.
    """
    if isinstance(value, msgspec.Struct):
        fields = {}
        for field in msgspec.structs.fields(value):
            member = getattr(value, field.name)
            if not _is_default(field, member):
                fields[field.name] = simplify(member)
        return {type(value).__name__: fields}
    if isinstance(value, Mapping):
        return {name: simplify(member) for name, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [simplify(item) for item in value]
    if isinstance(value, (bytes, str)) and len(value) > MOST_BYTES * 5:
        return value[:MOST_BYTES], f"… {len(value)} in total"
    return value


def _is_default(field: msgspec.structs.FieldInfo, member: Any) -> bool:
    if field.default is not msgspec.NODEFAULT:
        return bool(member == field.default)
    return field.default_factory is not msgspec.NODEFAULT and bool(member == field.default_factory())
