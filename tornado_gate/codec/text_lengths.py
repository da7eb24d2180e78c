"""The length of the texts in a JSON value, from which tokens are estimated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

FILE_CHARACTERS: Final = 2048
"""A longer text whose beginning of this length has no space is a file in base64."""
FILE_LENGTH: Final = 4000
"""The length that a file counts as, independent of its real length."""


def count_characters(value: Any) -> int:
    """Return the number of characters of all texts in a JSON value, with the names of members.

    A file in base64 counts as FILE_LENGTH.
    """
    if isinstance(value, str):
        is_file = len(value) > FILE_CHARACTERS and " " not in value[:FILE_CHARACTERS]
        return FILE_LENGTH if is_file else len(value)
    if isinstance(value, Mapping):
        return sum(len(name) + count_characters(member) for name, member in value.items())
    if isinstance(value, list | tuple):
        return sum(map(count_characters, value))
    return 1


def count_text_values(value: Any) -> int:
    """Return the number like `count_characters`, of the texts alone: without names, numbers and true or false."""
    if isinstance(value, str):
        return count_characters(value)
    if isinstance(value, Mapping):
        return sum(map(count_text_values, value.values()))
    if isinstance(value, list):
        return sum(map(count_text_values, value))
    return 0
