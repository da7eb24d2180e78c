"""Blocks of plain text that only this format has, as texts for models of other formats. Pure.

- A search result becomes its title, its source and its text, in this order.
- A document of content blocks becomes its title, its context and its text.
- A reference to a tool becomes a sentence. A client-side tool search returns such references, and the vendor then shows these
  tools, which have ``defer_loading``, to the model. Models of other vendors see all tools of a request from the start; without a
  text the result of their search would be empty. Claude Code searches this way.

Other members of a block are in `extra` of its text, those of inner blocks under dotted names: renderers report them.

Source: anthropic-python 2.11, types/search_result_block_param.py, content_block_source_param.py, tool_reference_block_param.py;
claude-code 2.1 (requests recorded on 2026-11-22).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.types import Text
from tornado_gate_anthropic.wire.messages.json_values import select_unknown

_RESULT_HEAD: Final = {"title": "Search result", "source": "Source"}
_DOCUMENT_HEAD: Final = {"title": "Document", "context": "Context"}


def describe_block(block: Mapping[str, Any]) -> Text | None:
    """The text of a block; None for a block of another type, or without text."""
    match block:
        case {"type": "tool_reference", "tool_name": str(name)}:
            extra = select_unknown(block, "type", "tool_name")
            return Text(text=f"Found the tool {name}; it can be called now.", extra=extra)
        case {"type": "search_result", "content": list(content)}:
            return _describe(block, _RESULT_HEAD, content, "content")
        case {"type": "document", "source": {"type": "content", "content": str() | list() as content} as source}:
            inner = {f"source.{name}": member for name, member in select_unknown(source, "type", "content").items()}
            text = _describe(block, _DOCUMENT_HEAD, content, "source.content")
            return text and Text(text=text.text, extra={**text.extra, **inner})
    return None


def _describe(block: Mapping[str, Any], head: Mapping[str, str], content: Any, place: str) -> Text | None:
    """The text of a block: a line for each member in `head`, then `content`, which is at the member `place`."""
    texts, lost = ([content], {}) if isinstance(content, str) else _read_texts(content, place)
    if not "".join(texts).strip():
        return None
    named = [name for name in head if isinstance(block.get(name), str)]
    lines = [f"{head[name]}: {block[name]}" for name in named]
    extra = select_unknown(block, "type", place.partition(".")[0], *named)
    if extra.get("citations") == {"enabled": False}:
        del extra["citations"]
    return Text(text="\n".join([*lines, "", *texts, ""]).lstrip("\n"), extra=extra | lost)


def _read_texts(content: list[Any], place: str) -> tuple[list[str], dict[str, Any]]:
    """The texts of inner blocks, and all other blocks and members by their path in the outer block."""
    texts: list[str] = []
    lost: dict[str, Any] = {}
    for index, block in enumerate(content):
        match block:
            case {"type": "text", "text": str(text)}:
                texts.append(text)
                unknown = select_unknown(block, "type", "text")
                lost |= {f"{place}.{index}.{name}": member for name, member in unknown.items()}
            case _:
                lost[f"{place}.{index}"] = block
    return texts, lost
