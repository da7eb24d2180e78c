"""Content blocks, in both directions. Pure.

Unknown members of a block are kept in `extra` of its part, unknown members of its ``source`` under that name. A block of an
unknown type (server tools and their results, search results, …) becomes a `VendorPart`, with its text if it has one.

Source: anthropic-python 2.11, types/content_block_param.py and types/content_block.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

from tornado_gate.types import (
    File,
    Image,
    Opaque,
    Part,
    Refusal,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    VendorPart,
)
from tornado_gate_anthropic.wire.messages.block_texts import describe_block
from tornado_gate_anthropic.wire.messages.citations import is_foreign_citation
from tornado_gate_anthropic.wire.messages.ids import parse_id, render_id
from tornado_gate_anthropic.wire.messages.json_values import (
    WIRE_FORMAT,
    add_extra,
    drop_none,
    dump_compact,
    parse_arguments,
    read_string,
    select_unknown,
)
from tornado_gate_anthropic.wire.messages.server_tools import is_foreign_block, parse_foreign_block
from tornado_gate_anthropic.wire.messages.sources import parse_source, render_document, render_image

DIRECT_CALLER: Final[Mapping[str, Any]] = {"type": "direct"}
"""The ``caller`` of a tool call by the model itself; required in responses, optional in requests, where it is the default.

Source: anthropic-python 2.11, types/tool_use_block.py and types/tool_use_block_param.py.
"""

_MAX_JSON_LENGTH: Final = 64 * 1024
"""A longer signature is not parsed: callers choose it, and a short text can become many objects."""
_JSON_MARK: Final = "json:"
"""Prefix of a signature whose original value is not a string, so that parsing restores the original type."""


def parse_content(content: Any) -> tuple[Part, ...]:
    """The parts of a content: a string, an array of blocks, or None."""
    if content is None:
        return ()
    if isinstance(content, str):
        return (Text(text=content),)
    return tuple(parse_block(value) for value in content)


def parse_block(value: Mapping[str, Any]) -> Part:
    """The part of one block of a validated request or of a response."""
    parse = _PARSERS.get(read_string(value.get("type")))
    part = parse(value) if parse is not None else None
    if part is not None:
        return part
    return VendorPart(
        wire_format=WIRE_FORMAT, value=value, server=parse_foreign_block(value), text=describe_block(value)
    )


def _parse_text(value: Mapping[str, Any]) -> Part | None:
    text = value.get("text")
    if not isinstance(text, str):
        return None
    extra = select_unknown(value, "type", "text")
    if extra.get("citations", ...) is None:
        del extra["citations"]  # null in messages that an SDK serialized from a response
    return Text(text=text, extra=extra)


def _parse_medium(value: Mapping[str, Any]) -> Part | None:
    source = value.get("source")
    parsed = parse_source(source) if isinstance(source, dict) else None
    if parsed is None:
        return None
    known, unknown = parsed
    inner = {"source": unknown} if unknown else {}
    if value["type"] == "image":
        return Image(source=known, extra=select_unknown(value, "type", "source") | inner)
    return File(source=known, name=value.get("title"), extra=select_unknown(value, "type", "source", "title") | inner)


def _parse_thinking(value: Mapping[str, Any]) -> Part | None:
    match value:
        case {"type": "thinking", "thinking": str(text)}:
            signature = parse_signature(value.get("signature"))
            return Thinking(
                text=text, signature=signature, extra=select_unknown(value, "type", "thinking", "signature")
            )
        case {"type": "redacted_thinking", "data": str(data)}:
            return Thinking(redacted=True, signature=parse_signature(data), extra=select_unknown(value, "type", "data"))
    return None


def _parse_call(value: Mapping[str, Any]) -> Part | None:
    match value:
        case {"id": str(call_id), "name": str(name), "input": dict(arguments)}:
            return ToolCall(
                id=parse_id(call_id), name=name, arguments=dump_compact(arguments), extra=select_call_extra(value)
            )
    return None


def select_call_extra(value: Mapping[str, Any]) -> dict[str, Any]:
    """The members of a ``tool_use`` block that `ToolCall` has no field for, without the default caller."""
    extra = select_unknown(value, "type", "id", "name", "input")
    if extra.get("caller") == DIRECT_CALLER:
        del extra["caller"]
    return extra


def _parse_result(value: Mapping[str, Any]) -> Part | None:
    call_id, content = value.get("tool_use_id"), value.get("content")
    if not isinstance(call_id, str):
        return None
    return ToolResult(
        call_id=parse_id(call_id),
        parts=() if content == "" else parse_content(content),
        is_error=value.get("is_error") is True,
        extra=select_unknown(value, "type", "tool_use_id", "content", "is_error"),
    )


_PARSERS: Final[Mapping[str, Callable[[Mapping[str, Any]], Part | None]]] = {
    "text": _parse_text,
    "image": _parse_medium,
    "document": _parse_medium,
    "thinking": _parse_thinking,
    "redacted_thinking": _parse_thinking,
    "tool_use": _parse_call,
    "tool_result": _parse_result,
}
"""By block type. A parser returns None for a block whose members do not have the expected shape."""


def parse_signature(value: Any) -> Opaque | None:
    """The issuer's signature; None for "", which thinking blocks use because the member is required."""
    if not isinstance(value, str) or not value:
        return None
    if value.startswith(_JSON_MARK) and len(value) <= _MAX_JSON_LENGTH:
        try:
            return Opaque(issuer="", value=orjson.loads(value[len(_JSON_MARK) :]))
        except orjson.JSONDecodeError:
            pass
    return Opaque(issuer="", value=value)


def render_signature(signature: Opaque | None) -> str:
    """The signature as a string; "" for None."""
    if signature is None:
        return ""
    value = signature.value
    if isinstance(value, str) and not value.startswith(_JSON_MARK):
        return value
    return _JSON_MARK + dump_compact(value)


def render_block(part: Part, own: bool) -> dict[str, Any] | None:
    """The block of a part; None when this format has no block for it. Tool results are rendered by `message_renderer`.

    `own` is True when the part came in this format. Only then are its `extra`, file references and blocks of unknown type
    rendered.
    """
    value = _render_part(part, own)
    if value is None or not own or isinstance(part, VendorPart):
        return value
    value = add_extra(value, part.extra, inside="source")
    if value.get("citations") and isinstance(part, Text):
        value["citations"] = [citation for citation in value["citations"] if not is_foreign_citation(citation)]
    return value


def _render_part(part: Part, own: bool) -> dict[str, Any] | None:
    match part:
        case Text(text=text) | Refusal(text=text):
            return {"type": "text", "text": text}
        case Image(source=source):
            block = render_image(source, own)
            return block and {"type": "image", "source": block}
        case File(source=source, name=name):
            block = render_document(source, own)
            return block and {"type": "document", "source": block} | drop_none(title=name)
        case Thinking(redacted=True):
            return {"type": "redacted_thinking", "data": render_signature(part.signature)}
        case Thinking(text=text):
            return {"type": "thinking", "thinking": text, "signature": render_signature(part.signature)}
        case ToolCall(kind="function" | "custom"):
            return render_call(part)
        case VendorPart(wire_format=wire_format, value=value) if own and wire_format == WIRE_FORMAT:
            return None if is_foreign_block(value) else dict(value)
        case _:
            return None


def render_call(call: ToolCall) -> dict[str, Any]:
    """A ``tool_use`` block without `extra`. Its input is always an object: free text is put under ``input``."""
    arguments = {"input": call.arguments} if call.kind == "custom" else parse_arguments(call.arguments)
    return {"type": "tool_use", "id": render_id(call.id), "name": call.name, "input": arguments}
