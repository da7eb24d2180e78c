"""Citations of text blocks, in both directions. Pure.

A citation applies to its whole block. Those of other formats have no values that the vendor could read again: the
``encrypted_index`` of a web page is `FOREIGN_INDEX`, and the range of blocks in a file is empty. `is_foreign_citation` recognises
them in a later request.

Source: anthropic-python 2.11, types/text_citation.py (2026-11-22).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from tornado_gate.types import Citation
from tornado_gate_anthropic.wire.messages.json_values import WIRE_FORMAT, read_string

FOREIGN_MARK: Final = "_gate_"
"""Part of ids and of opaque values that the gateway made for responses of other vendors."""

FOREIGN_INDEX: Final = f"srvtoolu{FOREIGN_MARK}index"


def parse_citations(values: Any) -> tuple[Citation, ...]:
    """The citations of a response block; values that are not objects are ignored."""
    return tuple(_parse(value) for value in values if isinstance(value, dict)) if isinstance(values, list) else ()


def _parse(value: Mapping[str, Any]) -> Citation:
    source = read_string(value.get("url")) or read_string(value.get("source"))
    return Citation(
        url=source if source.startswith(("http://", "https://")) else "",
        title=read_string(value.get("title")) or read_string(value.get("document_title")) or source,
        quote=read_string(value.get("cited_text")),
        file_id=read_string(value.get("file_id")),
        wire_format=WIRE_FORMAT,
        value=value,
    )


def render_citations(citations: Iterable[Citation]) -> list[dict[str, Any]]:
    """The citations of a block. Several passages with one source become one citation."""
    rendered: list[dict[str, Any]] = []
    for citation in citations:
        if citation.wire_format == WIRE_FORMAT and citation.value is not None:
            rendered.append(dict(citation.value))
        elif (value := _render(citation)) not in rendered:
            rendered.append(value)
    return rendered


def _render(citation: Citation) -> dict[str, Any]:
    if citation.url:
        return {
            "type": "web_search_result_location",
            "url": citation.url,
            "title": citation.title or None,
            "encrypted_index": FOREIGN_INDEX,
            "cited_text": citation.quote,
        }
    return {
        "type": "search_result_location",
        "source": citation.file_id or citation.title,
        "title": citation.title or None,
        "search_result_index": 0,
        "start_block_index": 0,
        "end_block_index": 0,
        "cited_text": citation.quote,
    }


def is_foreign_citation(value: Any) -> bool:
    """Return whether a citation was made by the gateway; the vendor would reject it."""
    match value:
        case {"type": "web_search_result_location", "encrypted_index": index}:
            return bool(index == FOREIGN_INDEX)
        case {"type": "search_result_location", "end_block_index": end}:
            return bool(end == 0)
    return False
