"""``annotations`` of output texts and citations, in both directions. No I/O.

Indexes count the characters (Unicode code points) of the text. A source without a URL and a file id, such as a document in a
request, has no annotation.

Source: openai-python 3.52, types/responses/response_output_text.py (2026-11-22). The vendor does not document the unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tornado_gate.types import Citation
from tornado_gate_openai.wire import formats
from tornado_gate_openai.wire.chat.citations import find_span


def render_annotations(citations: Iterable[Citation], length: int) -> list[dict[str, Any]]:
    """The annotations of a text of `length` characters."""
    values: list[dict[str, Any]] = []
    for citation in citations:
        value = _render(citation, length)
        if value is not None and (citation.value is not None or value not in values):
            values.append(value)
    return values


def _render(citation: Citation, length: int) -> dict[str, Any] | None:
    start, end = find_span(citation, length)
    match citation:
        case Citation(wire_format=formats.OPENAI_RESPONSES, value=dict(value)):
            return dict(value)
        case Citation(wire_format=formats.OPENAI_CHAT, value=dict(value)):
            return _flatten(value)
        case Citation(url=url) if url:
            where = {"start_index": start, "end_index": end}
            return {"type": "url_citation", **where, "title": citation.title or url, "url": url}
        case Citation(file_id=file_id) if file_id:
            return {"type": "file_citation", "file_id": file_id, "filename": citation.title or file_id, "index": end}
        case _:
            return None


def _flatten(annotation: Mapping[str, Any]) -> dict[str, Any]:
    """An annotation of chat with its details at the top level; chat has them in an object named like the type."""
    match annotation:
        case {"type": str(kind), **rest} if isinstance(inner := rest.pop(kind, None), dict):
            return {"type": kind, **rest, **inner}
        case _:
            return dict(annotation)
