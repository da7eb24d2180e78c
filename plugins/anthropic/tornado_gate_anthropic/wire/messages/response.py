"""Whole responses: body to `ChatResult` (client half, lenient), and `ChatResult` to body (server half). Pure.

Source: anthropic-python 2.11, types/message.py and types/content_block.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.errors import UpstreamError
from tornado_gate.types import (
    Audio,
    ChatResult,
    Choice,
    Data,
    File,
    Image,
    Link,
    Part,
    Refusal,
    Text,
    Thinking,
    ToolCall,
    VendorPart,
)
from tornado_gate.types.value import replace
from tornado_gate_anthropic.wire.messages.citations import parse_citations, render_citations
from tornado_gate_anthropic.wire.messages.errors import find_error
from tornado_gate_anthropic.wire.messages.ids import make_id
from tornado_gate_anthropic.wire.messages.json_values import WIRE_FORMAT, drop_null, read_string, select_unknown
from tornado_gate_anthropic.wire.messages.parts import DIRECT_CALLER, parse_block, render_block
from tornado_gate_anthropic.wire.messages.server_tools import count_uses, parse_vendor_block, render_vendor_blocks
from tornado_gate_anthropic.wire.messages.usage import (
    add_server_tool_uses,
    parse_stop_reason,
    parse_usage,
    render_stop,
    render_usage,
)

ID_PREFIX: Final = "msg_"
TOP_EXTRA: Final = ("container", "diagnostics")
"""The members of `ChatResult.extra` that this format supports."""

FINISH_EXTRA: Final = ("stop_details",)
"""The members of `extra` of a `Choice` or a `Finish` event that this format supports."""

_BLOCK_EXTRA: Final = ("caller", "toolset_name")
_REQUIRED_BLOCK_MEMBERS: Final[Mapping[str, dict[str, Any]]] = {
    "text": {"citations": None},
    "tool_use": {"caller": DIRECT_CALLER},
}
"""By block type."""


def make_response_id(upstream_id: str | None, otherwise: str) -> str:
    """`upstream_id` when it has this format's prefix, else `otherwise`."""
    return upstream_id if upstream_id and upstream_id.startswith(ID_PREFIX) else otherwise


def select_known_extra(extra: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """The members of `extra` named in `names` that are not None; other members may belong to another format."""
    if not extra:
        return {}
    return {name: extra[name] for name in names if extra.get(name) is not None}


def parse_response(body: Any) -> ChatResult:
    """The result in a response body. Raises the upstream's error, or UpstreamError for a body that is not a message."""
    if (error := find_error(body)) is not None:
        raise error
    content = body.get("content") if isinstance(body, dict) else None
    if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
        raise UpstreamError(
            "The upstream's response is not an Anthropic message: `content` is not an array of objects.",
            advice="Check the provider's base_url.",
        )
    parts = tuple(parse_answer_block(block) for block in content)
    raw = read_string(body.get("stop_reason"))
    choice = Choice(
        parts=parts,
        reason=parse_stop_reason(raw, any(isinstance(part, ToolCall) for part in parts)),
        raw_reason=raw,
        stop_sequence=read_string(body.get("stop_sequence")) or None,
        explanation=read_explanation(body),
        extra=select_known_extra(body, *FINISH_EXTRA),
    )
    known = ("id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage", *FINISH_EXTRA)
    return ChatResult(
        model=read_string(body.get("model")),
        id=read_string(body.get("id")) or None,
        choices=(choice,),
        usage=parse_usage(body.get("usage")),
        extra=drop_null(select_unknown(body, *known)),
    )


def read_explanation(stop: Mapping[str, Any]) -> str:
    """The vendor's reason for a refusal; "" without a reason. `stop` has the member ``stop_details``."""
    match stop.get("stop_details"):
        case {"type": "refusal", "explanation": str(explanation)}:
            return explanation
        case _:
            return ""


def parse_answer_block(block: Mapping[str, Any]) -> Part:
    """The part of one response block. Null members are ignored."""
    if block.get("type") == "tool_use":
        arguments = block.get("input")
        block = {**block, "input": arguments if isinstance(arguments, dict) else {}}
        block["id"] = read_string(block.get("id")) or make_id()
        block["name"] = read_string(block.get("name"))
    part = parse_block(drop_null(block))
    match part:
        case VendorPart(value=value):
            return parse_vendor_block(value)
        case Text(extra={"citations": citations}):
            return replace(part, citations=parse_citations(citations), extra=select_unknown(part.extra, "citations"))
    return part


def render_response(result: ChatResult, *, id: str, model: str) -> dict[str, Any]:
    """The response body for the first choice. The upstream's id is kept when it has this format's prefix.

    Raises UpstreamError for a finish reason of "error".
    """
    choice = result.choices[0]
    refusal = "".join(part.text for part in choice.parts if isinstance(part, Refusal))
    return {
        "id": make_response_id(result.id, id),
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [block for part in choice.parts for block in render_answer_blocks(part)],
        **render_stop(
            choice.reason, choice.raw_reason, choice.stop_sequence, refusal or choice.explanation, bool(refusal)
        ),
        **select_known_extra(choice.extra, *FINISH_EXTRA),
        "usage": add_server_tool_uses(render_usage(result.usage), map(count_uses, choice.parts)),
        "container": None,
        **select_known_extra(result.extra, *TOP_EXTRA),
    }


def render_answer_blocks(part: Part) -> list[dict[str, Any]]:
    """The blocks of a part: one, or none; two for the use of a server tool of another vendor."""
    if type(part) is Text and part.text and not part.citations and not part.extra:  # most parts
        return [{"type": "text", "text": part.text, "citations": None}]
    if isinstance(part, VendorPart) and part.wire_format != WIRE_FORMAT:
        return render_vendor_blocks(part)
    block = render_answer_block(part)
    return [] if block is None else [block]


def render_answer_block(part: Part) -> dict[str, Any] | None:
    """The block of a part; None for an empty part, and for a part without a block in this format.

    Audio becomes its transcript. Images use the request's block type, because the vendor's models do not return images.
    """
    match part:
        case VendorPart():
            return render_block(part, own=part.wire_format == WIRE_FORMAT)
        case Audio(transcript=transcript):
            return complete_block({"type": "text", "text": transcript}) if transcript else None
        case Text(text="", citations=()):
            return None
        case Thinking(text="", signature=None):
            return None
        case Image(source=Data() | Link()) | File(source=Data() | Link()):
            return render_block(part, own=False)
    block = render_block(part, own=False)
    if isinstance(part, Text) and part.citations and block is not None:
        block["citations"] = render_citations(part.citations)
    return block and complete_block(block) | select_known_extra(part.extra, *_BLOCK_EXTRA)


def complete_block(block: dict[str, Any]) -> dict[str, Any]:
    """The block with the members that the vendor's types require in responses, and not in requests."""
    required = _REQUIRED_BLOCK_MEMBERS.get(block["type"], {})
    return block | {name: value for name, value in required.items() if name not in block}
