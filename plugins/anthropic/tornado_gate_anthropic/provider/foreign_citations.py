"""Searches and citations of other vendors' responses in verbatim requests, which the vendor rejects. Pure.

A caller of this format gets them from every model of the gateway. Only the vendor can make the opaque values that they require,
so the gateway marks the values that it makes; see `tornado_gate_anthropic.wire.messages.citations`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.codec.byte_search import contains_any
from tornado_gate.types import Call, VerbatimRequest
from tornado_gate_anthropic.wire.messages import FOREIGN_MARK, is_foreign_block, is_foreign_citation

_MARKS: Final = (FOREIGN_MARK.encode(), b'"end_block_index":0', b'"end_block_index": 0')
"""A body without these strings has no block of the gateway, unless its white space differs. The search is fast."""


def remove_foreign_citations(call: Call, request: VerbatimRequest, changed: dict[str, Any]) -> None:
    """Set ``changed["messages"]`` to the messages without blocks and citations of the gateway, if any. Reports each loss.

    The messages come from `changed` if it has them, else from the body.
    """
    if not contains_any(request.raw, _MARKS):
        return
    messages = changed.get("messages", request.body.get("messages"))
    if not isinstance(messages, list):
        return
    kept = [
        cleaned
        for number, message in enumerate(messages)
        if (cleaned := _clean_message(call, number, message)) is not None
    ]
    if kept != messages:
        changed["messages"] = kept


def _clean_message(call: Call, number: int, message: Any) -> Any:
    """The message without foreign blocks and citations; None if no other content is left."""
    content = message.get("content") if isinstance(message, Mapping) else None
    if not isinstance(content, list) or message.get("role") != "assistant":
        return message
    blocks: list[Any] = []
    for index, block in enumerate(content):
        path = f"messages.{number}.content.{index}"
        if is_foreign_block(block):
            call.drop_field(path)
        else:
            blocks.append(_clean_block(call, path, block))
    if blocks == content:
        return message
    return {**message, "content": blocks} if blocks else None


def _clean_block(call: Call, path: str, block: Any) -> Any:
    citations = block.get("citations") if isinstance(block, Mapping) else None
    if not isinstance(citations, list) or not any(map(is_foreign_citation, citations)):
        return block
    call.drop_field(f"{path}.citations")
    return {**block, "citations": [citation for citation in citations if not is_foreign_citation(citation)] or None}
