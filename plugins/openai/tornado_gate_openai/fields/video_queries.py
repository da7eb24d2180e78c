"""Query parameters of task requests. Numbers are plain digits; each parser raises InvalidField for anything else.

Source of the list limits: openai-python 3.52, types/video_list_params.py, and the vendor's reference.
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
    """Return the seconds for which the response may wait for the task to end; 0.0 by default."""
    text = query.get("wait")
    if text is None:
        return 0.0
    if not _NUMBER_PATTERN.fullmatch(text) or float(text) > MAX_WAIT_SECONDS:
        raise_invalid("wait", f"must be a number of seconds from 0 to {MAX_WAIT_SECONDS:g}, not '{text[:50]}'")
    return float(text)


def parse_index(query: Mapping[str, str]) -> int:
    """Return the index of the requested video, from 0. The core checks that the task has it."""
    variant = query.get("variant", "video")
    if variant in ("thumbnail", "spritesheet"):
        message = f"'variant' '{variant}' is not supported. Use 'video'."
        raise InvalidField("variant", message, code="unsupported_value")
    if variant != "video":
        raise_invalid("variant", f"must be 'video', not '{variant[:50]}'")
    text = query.get("index", "0")
    if not _INTEGER_PATTERN.fullmatch(text):
        raise_invalid("index", f"must be an integer from 0 (the first video) to 9999, not '{text[:50]}'")
    return int(text)


def parse_limit(query: Mapping[str, str]) -> int:
    """Return the maximum number of tasks of a page."""
    text = query.get("limit")
    if text is None:
        return DEFAULT_LIMIT
    if not _INTEGER_PATTERN.fullmatch(text) or not 1 <= int(text) <= MAX_LIMIT:
        raise_invalid("limit", f"must be an integer from 1 to {MAX_LIMIT}, not '{text[:50]}'")
    return int(text)


def parse_order(query: Mapping[str, str]) -> Literal["asc", "desc"]:
    """Return the order of the list by creation time."""
    match query.get("order", "desc"):
        case "asc":
            return "asc"
        case "desc":
            return "desc"
        case other:
            raise_invalid("order", f"must be 'asc' or 'desc', not '{other[:50]}'")
