"""What stands in the query of a question about tasks. Numbers are plain digits; anything else is a 400 by its name.

Bounds of a list are those of openai-python 3.52, types/video_list_params.py, and the vendor's reference.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal

from tornado_gate.codec.checks import raise_invalid
from tornado_gate.errors import InvalidField

MAX_WAIT_SECONDS: Final = 60.0
"""Seconds."""
MAX_LIMIT: Final = 100
DEFAULT_LIMIT: Final = 20

_INTEGER_PATTERN: Final = re.compile(r"[0-9]{1,4}")
_NUMBER_PATTERN: Final = re.compile(r"[0-9]{1,4}(\.[0-9]{1,6})?")


def parse_wait(query: Mapping[str, str]) -> float:
    """Seconds that an answer may take when the task has not ended."""
    text = query.get("wait")
    if text is None:
        return 0.0
    if not _NUMBER_PATTERN.fullmatch(text) or float(text) > MAX_WAIT_SECONDS:
        raise_invalid("wait", f"must be a number of seconds from 0 to {MAX_WAIT_SECONDS:g}, not '{text[:50]}'")
    return float(text)


def parse_index(query: Mapping[str, str]) -> int:
    """Which of a task's videos, counted from 0. Whether there is one is for the task to say."""
    variant = query.get("variant", "video")
    if variant in ("thumbnail", "spritesheet"):
        message = f"There is no {variant} of videos here; the one 'variant' is 'video'."
        raise InvalidField("variant", message, code="unsupported_value")
    if variant != "video":
        raise_invalid("variant", f"must be 'video', not '{variant[:50]}'")
    text = query.get("index", "0")
    if not _INTEGER_PATTERN.fullmatch(text):
        raise_invalid("index", f"must be an integer, 0 for the first video, not '{text[:50]}'")
    return int(text)


def parse_limit(query: Mapping[str, str]) -> int:
    """How many tasks a list holds at most."""
    text = query.get("limit")
    if text is None:
        return DEFAULT_LIMIT
    if not _INTEGER_PATTERN.fullmatch(text) or not 1 <= int(text) <= MAX_LIMIT:
        raise_invalid("limit", f"must be an integer from 1 to {MAX_LIMIT}, not '{text[:50]}'")
    return int(text)


def parse_order(query: Mapping[str, str]) -> Literal["asc", "desc"]:
    """By the time when tasks began."""
    match query.get("order", "desc"):
        case "asc":
            return "asc"
        case "desc":
            return "desc"
        case other:
            raise_invalid("order", f"must be 'asc' or 'desc', not '{other[:50]}'")
