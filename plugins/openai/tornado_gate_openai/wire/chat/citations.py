"""``annotations`` of a message and citations, in both directions. No I/O.

Chat only has citations of web pages. Their indexes count the characters (Unicode code points) of the message's whole content.

Source: openai-python 3.52, types/chat/chat_completion_message.py (2026-11-22). The vendor does not document the unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tornado_gate.types import Citation


def parse_annotations(values: Any, wire_format: str) -> tuple[Citation, ...]:
    """The citations in an array of annotations, whose details are at the top level or in an object named like the type."""
    return (
        tuple(_parse(value, wire_format) for value in values if isinstance(value, dict))
        if isinstance(values, list)
        else ()
    )


def _parse(value: Mapping[str, Any], wire_format: str) -> Citation:
    inner = value.get(str(value.get("type")))
    details: Mapping[str, Any] = inner if isinstance(inner, dict) else value
    start, end = details.get("start_index"), details.get("end_index")
    located = type(start) is int and type(end) is int and 0 <= start < end
    return Citation(
        start=start if located else None,
        end=end if located else None,
        url=_read_string(details.get("url")),
        title=_read_string(details.get("title")) or _read_string(details.get("filename")),
        quote=_read_string(details.get("content")),  # OpenRouter's extension
        file_id=_read_string(details.get("file_id")),
        wire_format=wire_format,
        value=value,
    )


def _read_string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def render_annotations(citations: Iterable[Citation], wire_format: str, base: int, length: int) -> list[dict[str, Any]]:
    """The annotations of a text of `length` characters after `base` others. Sources without a URL are left out."""
    values: list[dict[str, Any]] = []
    for citation in citations:
        if citation.wire_format == wire_format and citation.value is not None:
            values.append(dict(citation.value))
        elif citation.url:
            start, end = find_span(citation, length)
            details = {"start_index": base + start, "end_index": base + end, "title": citation.title or citation.url}
            value = {"type": "url_citation", "url_citation": {**details, "url": citation.url}}
            values += [value] if value not in values else []
    return values


def find_span(citation: Citation, length: int) -> tuple[int, int]:
    """Start and end of the cited passage in a text of `length` characters."""
    if citation.start is None or citation.end is None:
        return 0, length
    return min(citation.start, length), min(citation.end, length)
