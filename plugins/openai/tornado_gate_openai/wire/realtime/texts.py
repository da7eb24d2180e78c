"""Find and replace the type of an event in its JSON text without parsing it, so that audio frames are never parsed. No I/O.

The search returns a type only if it is unambiguous. A pattern matches top-level members with scalar values (objects and arrays
are unusual here) up to the member ``type``, within the first 300 characters. The rest of the text must not contain:

- a backslash: a name could be written with escapes (``"\\u0074ype"``), and a quote need not end a string. Base64 has no
  backslash, so audio frames pass;
- a second ``"type"``: most parsers use the last of two members with the same name.

Otherwise the JSON is parsed. The text after an unambiguous type is not checked for valid JSON; the next parser does that.
"""

from __future__ import annotations

import re
from typing import Any, Final

import orjson

MAX_TYPE_POSITION: Final = 300
"""Number of characters at the start of the text that must contain the type."""

_SPACE_PATTERN = r"[ \t\r\n]*"
_STRING_PATTERN = r'"[^"\\\x00-\x1f]*"'
_SCALAR_PATTERN = rf"(?:{_STRING_PATTERN}|-?[0-9][0-9.eE+-]*|true|false|null)"
_TYPE_PATTERN = re.compile(
    rf"{_SPACE_PATTERN}\{{{_SPACE_PATTERN}(?:(?!\"type\"){_STRING_PATTERN}{_SPACE_PATTERN}:{_SPACE_PATTERN}{_SCALAR_PATTERN}{_SPACE_PATTERN},{_SPACE_PATTERN})*"
    rf'"type"{_SPACE_PATTERN}:{_SPACE_PATTERN}"([a-z0-9_.]+)"{_SPACE_PATTERN}[,}}]'
)


def find_type(text: str) -> re.Match[str] | None:
    """Return a match whose group 1 is the type if it is unambiguous without parsing, else None."""
    match = _TYPE_PATTERN.match(text, 0, MAX_TYPE_POSITION)
    if match is None or "\\" in text or text.find('"type"', match.end(1)) >= 0:
        return None
    return match


def replace_type(text: str, match: re.Match[str], name: str) -> str:
    """Return `text` with the type `name` and no other change. `match` is a match from `find_type`."""
    return text[: match.start(1)] + name + text[match.end(1) :]


def parse_event(text: str) -> dict[str, Any] | None:
    """Return the event in `text`; None if it is not a JSON object with a ``type`` that is a string."""
    try:
        event = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(event, dict) or not isinstance(event.get("type"), str):
        return None
    return event


def render_event(event: dict[str, Any]) -> str:
    """Return the JSON text of an event."""
    return orjson.dumps(event).decode()


def peek_type(text: str) -> str | None:
    """Return the type of the event in `text`; None if it is not an event."""
    if type_match := find_type(text):
        return type_match.group(1)
    event = parse_event(text)
    return None if event is None else event["type"]
