"""Query parameters of the administration API. Each is described by a JSON schema and parsed to the type in its schema."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from tornado_gate.codec.durations import parse_duration
from tornado_gate.codec.fields import format_choices
from tornado_gate.errors import InvalidField
from tornado_gate.types import RouteParameter

MAX_LENGTH = 500
TIME_FORMAT = "time"
LARGEST_PAGE = 200
LAST_MOMENT = 253_402_300_799.0
"""The end of the year 9999."""


def text_parameter(name: str, description: str, **keywords: Any) -> RouteParameter:
    return RouteParameter(name=name, description=description, schema={"type": "string", **keywords})


def time_parameter(name: str, description: str) -> RouteParameter:
    text = f"{description} Unix seconds, a date or time in ISO 8601 (UTC unless it has an offset), or a duration ago: `7d`."
    return RouteParameter(name=name, description=text, schema={"type": "string", "format": TIME_FORMAT})


def flag_parameter(name: str, description: str) -> RouteParameter:
    return RouteParameter(name=name, description=description, schema={"type": "boolean"})


def choice_parameter(name: str, description: str, *choices: str) -> RouteParameter:
    return text_parameter(name, description, enum=list(choices))


LIMIT = RouteParameter(
    name="limit",
    description="The most entries of a page.",
    schema={"type": "integer", "minimum": 1, "maximum": LARGEST_PAGE, "default": 50},
)
AFTER = text_parameter("after", "`next` of the previous page.")
PAGE = (LIMIT, AFTER)


def parse_query(parameters: Iterable[RouteParameter], query: Mapping[str, list[bytes]]) -> dict[str, Any]:
    """Return the values by name. Missing parameters have their defaults, "" for texts, None for numbers and times.

    Raises InvalidField for an unknown parameter, a repeated parameter, and a parameter of the wrong type.
    """
    known = {parameter.name: parameter for parameter in parameters}
    for name in query:
        if name not in known:
            listed = ", ".join(known) or "none"
            message = f"'{name[:50]}' is no query parameter of this route, which has: {listed}."
            raise InvalidField(name[:50], message, code="unsupported_parameter")
    return {name: _parse_values(declared, query.get(name, [])) for name, declared in known.items()}


def _parse_values(parameter: RouteParameter, values: list[bytes]) -> Any:
    schema, name = parameter.schema, parameter.name
    if len(values) > 1:
        raise InvalidField(name, f"'{name}' is sent {len(values)} times. Send it once.")
    text = _decode_value(name, values[0]) if values else ""
    if not text:
        return schema.get("default", "" if schema["type"] == "string" and schema.get("format") != TIME_FORMAT else None)
    if schema["type"] == "integer":
        return _parse_integer(parameter, text)
    if schema["type"] == "boolean":
        return _choose_value(name, text, {"true": True, "1": True, "false": False, "0": False})
    if schema.get("format") == TIME_FORMAT:
        return parse_time(name, text)
    return _choose_value(name, text, {word: word for word in schema["enum"]}) if "enum" in schema else text


def _decode_value(name: str, value: bytes) -> str:
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidField(name, f"'{name}' is not UTF-8.") from None
    if len(text) > MAX_LENGTH or "\0" in text:
        raise InvalidField(name, f"'{name}' must have at most {MAX_LENGTH} characters and no NUL.")
    return text.strip()


def _choose_value(name: str, text: str, values: Mapping[str, Any]) -> Any:
    if text not in values:
        raise InvalidField(name, f"'{name}' must be {format_choices(values)}, not '{text[:50]}'.")
    return values[text]


def _parse_integer(parameter: RouteParameter, text: str) -> int:
    least, most = parameter.schema["minimum"], parameter.schema["maximum"]
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else least - 1
    if not least <= number <= most:
        name = parameter.name
        raise InvalidField(name, f"'{name}' must be an integer from {least} to {most}, not '{text[:50]}'.")
    return number


def parse_time(name: str, text: str) -> float:
    """Return the Unix time of seconds, of a date or time in ISO 8601, or of a duration before now. Raises InvalidField."""
    moment = _read_time(text)
    if moment is None or not 0 <= moment <= LAST_MOMENT:
        message = f"'{name}' must be Unix seconds, a date such as 2026-11-22, or a duration ago such as 7d, not '{text[:50]}'."
        raise InvalidField(name, message)
    return moment


def _read_time(text: str) -> float | None:
    if text.isascii() and text.replace(".", "", 1).isdecimal() and len(text) < 20:
        return float(text)
    try:
        return time.time() - parse_duration(text)
    except ValueError:
        pass
    try:
        date = datetime.fromisoformat(text)
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def parse_offset(after: str) -> int:
    """Return the position of a page in a list that is read by positions. Raises InvalidField."""
    if not after:
        return 0
    if not (after.isascii() and after.isdecimal() and len(after) < 10):
        raise InvalidField("after", "'after' must be 'next' of the previous page.")
    return int(after)


def next_offset(offset: int, shown: int, total: int) -> str | None:
    """Return `next` of a page in such a list."""
    return str(offset + shown) if shown and offset + shown < total else None
