"""Bodies of a tape as values that can be compared: JSON, events of a stream, without ids and times that each run makes anew."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from tornado_gate.codec.form_parser import FormParser
from tornado_gate.codec.header_parameters import parse_header_parameters
from tornado_gate.errors import GateError

_MADE_ID: Final = re.compile(r"([A-Za-z]{2,24}[-_])[A-Za-z0-9_-]{8,200}")
"""An id such as ``chatcmpl-9f2c…`` or ``toolu_01A…``. The part before the mark stays."""
_TIMES: Final = frozenset({"created", "created_at", "completed_at", "expires_at", "expires_after"})
"""Members with a time."""


class _Parts:
    """The parts of a form, in order, as they are parsed."""

    def __init__(self) -> None:
        self.parts: list[dict[str, Any]] = []

    def on_part(self, headers: dict[bytes, bytes]) -> None:
        shown = {name.decode("latin-1"): value.decode("utf-8", "replace") for name, value in headers.items()}
        self.parts.append({"headers": shown, "body": b""})

    def on_data(self, data: memoryview) -> None:
        self.parts[-1]["body"] += bytes(data)

    def on_part_end(self) -> None:
        part = self.parts[-1]
        part["body"] = read_body(part["body"], "")


def is_form(content_type: str) -> bool:
    """Return whether a body is a form, with fields and files."""
    return content_type.startswith("multipart/form-data")


def read_body(body: bytes, content_type: str) -> Any:
    """Return a body as a JSON value, the events of a stream as a list of their lines, the parts of a form, or text or bytes."""
    if is_form(content_type):
        _, options = parse_header_parameters(content_type.encode())
        parts = _Parts()
        try:
            FormParser(options.get(b"boundary", b""), parts).write(body)
        except GateError:
            return body
        return parts.parts
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        return body
    if content_type.startswith("text/event-stream"):
        return [_read_line(line) for line in text.splitlines() if line and not line.startswith(":")]
    try:
        return json.loads(text)
    except ValueError:
        return text


def _read_line(line: str) -> Any:
    name, _, value = line.partition(": ")
    try:
        return {name: json.loads(value)}
    except ValueError:
        return line


def replace_made_values(value: Any) -> Any:
    """Return a value in which ids are numbered in their order, and times are 0: two runs of the same code are then equal."""
    return _replace(value, {})


def _replace(value: Any, numbers: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {
            name: 0 if name in _TIMES and isinstance(member, int | float) else _replace(member, numbers)
            for name, member in value.items()
        }
    if isinstance(value, list):
        return [_replace(member, numbers) for member in value]
    if isinstance(value, str) and (match := _MADE_ID.fullmatch(value)) is not None and any(map(str.isdigit, value)):
        return numbers.setdefault(value, f"{match[1]}#{len(numbers) + 1}")
    return value
