"""What stands in the query of a question about tasks. Numbers are plain digits; anything else is a 400 by its name.

Bounds of a list are those of openai-python 3.52, types/video_list_params.py, and the vendor's reference.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal

from tornado_gate.codec.checks import wrong
from tornado_gate.errors import InvalidField

LONGEST_WAIT: Final = 60.0
"""Seconds."""
MOST_LISTED: Final = 100
USUALLY_LISTED: Final = 20

_INTEGER: Final = re.compile(r"[0-9]{1,4}")
_NUMBER: Final = re.compile(r"[0-9]{1,4}(\.[0-9]{1,6})?")


def wait_of(query: Mapping[str, str]) -> float:
    """Seconds that an answer may take when the task has not ended."""
    text = query.get("wait")
    if text is None:
        return 0.0
    if not _NUMBER.fullmatch(text) or float(text) > LONGEST_WAIT:
        wrong("wait", f"must be a number of seconds from 0 to {LONGEST_WAIT:g}, not '{text[:50]}'")
    return float(text)


def index_of(query: Mapping[str, str]) -> int:
    """Which of a task's videos, counted from 0. Whether there is one is for the task to say."""
    variant = query.get("variant", "video")
    if variant in ("thumbnail", "spritesheet"):
        message = f"There is no {variant} of videos here; the one 'variant' is 'video'."
        raise InvalidField("variant", message, code="unsupported_value")
    if variant != "video":
        wrong("variant", f"must be 'video', not '{variant[:50]}'")
    text = query.get("index", "0")
    if not _INTEGER.fullmatch(text):
        wrong("index", f"must be an integer, 0 for the first video, not '{text[:50]}'")
    return int(text)


def limit_of(query: Mapping[str, str]) -> int:
    """How many tasks a list holds at most."""
    text = query.get("limit")
    if text is None:
        return USUALLY_LISTED
    if not _INTEGER.fullmatch(text) or not 1 <= int(text) <= MOST_LISTED:
        wrong("limit", f"must be an integer from 1 to {MOST_LISTED}, not '{text[:50]}'")
    return int(text)


def order_of(query: Mapping[str, str]) -> Literal["asc", "desc"]:
    """By the time when tasks began."""
    match query.get("order", "desc"):
        case "asc":
            return "asc"
        case "desc":
            return "desc"
        case other:
            wrong("order", f"must be 'asc' or 'desc', not '{other[:50]}'")
