"""The type of an event without parsing its JSON, and renaming it there: frames of audio are never taken apart. Pure.

The type is found only where it is sure. From the start of the text on, a pattern walks over top-level members whose values
are strings, numbers or words (an object or an array is unusual) up to the member ``type``, within the first 300 characters.
Then the rest of the text is searched, at the speed of memory, for two things that would make the answer unsure:

- a backslash anywhere: a name could be spelled with escapes (``"\\u0074ype"``), and a quote need not end a string. Base64
  holds none, so this costs a frame of audio nothing;
- another ``"type"``: of two members of one name most parsers believe the last.

When any of this is not as usual, the JSON is parsed. That a text with a sure type is JSON to its end is not checked here:
whoever parses it next will say so.
"""

from __future__ import annotations

import re
from typing import Any, Final

import orjson

MAX_TYPE_POSITION: Final = 300
"""Characters in which the type must stand."""

_SPACE_PATTERN = r"[ \t\r\n]*"
_STRING_PATTERN = r'"[^"\\\x00-\x1f]*"'
_SCALAR_PATTERN = rf"(?:{_STRING_PATTERN}|-?[0-9][0-9.eE+-]*|true|false|null)"
_TYPE_PATTERN = re.compile(
    rf"{_SPACE_PATTERN}\{{{_SPACE_PATTERN}(?:(?!\"type\"){_STRING_PATTERN}{_SPACE_PATTERN}:{_SPACE_PATTERN}{_SCALAR_PATTERN}{_SPACE_PATTERN},{_SPACE_PATTERN})*"
    rf'"type"{_SPACE_PATTERN}:{_SPACE_PATTERN}"([a-z0-9_.]+)"{_SPACE_PATTERN}[,}}]'
)


def find_type(text: str) -> re.Match[str] | None:
    """The place of the type, group 1 of the match, where it is sure without parsing; None otherwise."""
    found = _TYPE_PATTERN.match(text, 0, MAX_TYPE_POSITION)
    if found is None or "\\" in text or text.find('"type"', found.end(1)) >= 0:
        return None
    return found


def replace_type(text: str, found: re.Match[str], name: str) -> str:
    """`text` with another type and no other character changed."""
    return text[: found.start(1)] + name + text[found.end(1) :]


def parse_event(text: str) -> dict[str, Any] | None:
    """The event in `text`; None for what is no JSON object with a type that is a string."""
    try:
        event = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(event, dict) or not isinstance(event.get("type"), str):
        return None
    return event


def render_event(event: dict[str, Any]) -> str:
    """The text of an event."""
    return orjson.dumps(event).decode()


def peek_type(text: str) -> str | None:
    """The type of the event in `text`; None for what is no event."""
    if found := find_type(text):
        return found.group(1)
    event = parse_event(text)
    return None if event is None else event["type"]
