"""Items of ``output``, shared by whole responses and streams. No I/O.

An item's id contains the response's id, so that an item reference can be resolved to its response.

Source: openai-python 3.52, types/responses/response_output_item.py and the types it imports.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from tornado_gate.codec.ids import make_unique_id
from tornado_gate.types import (
    Audio,
    Citation,
    Data,
    Image,
    Link,
    Opaque,
    Part,
    Refusal,
    ServerToolUse,
    Text,
    Thinking,
    ToolCall,
    VendorPart,
)
from tornado_gate_openai.wire.chat.parts import add_extra
from tornado_gate_openai.wire.responses.citations import render_annotations
from tornado_gate_openai.wire.responses.parts import WIRE_FORMAT
from tornado_gate_openai.wire.responses.server_tools import CALL_TYPES, ServerToolCalls, make_item_id, render_item

ID_PREFIX: Final = "resp_"
CALL_EXTRA: Final = ("namespace", "caller", "async")
_HEX_DIGITS: Final = 32


def make_response_id() -> str:
    return ID_PREFIX + make_unique_id()


def get_response_id(item_id: str) -> str:
    """Return the id of the response that contains the item `item_id`, provided the gateway created it."""
    return ID_PREFIX + item_id.partition("_")[2][:_HEX_DIGITS]


class ItemIdMaker:
    """The maker of ids for the items of one response, in order."""

    def __init__(self, response_id: str) -> None:
        self._stem = response_id.removeprefix(ID_PREFIX)
        self._next = 0

    def make(self, prefix: str) -> str:
        """Return an id with `prefix`, such as ``msg_…``."""
        self._next += 1
        return f"{prefix}_{self._stem}{self._next:04x}"


def render_text_content(
    text: str, citations: Sequence[Citation] = (), logprobs: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """Return the content part of a text."""
    return {
        "type": "output_text",
        "text": text,
        "annotations": render_annotations(citations, len(text)),
        "logprobs": [render_logprob(entry) for entry in logprobs],
    }


def render_logprob(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry of `PartDelta.logprobs` with ``bytes`` and ``top_logprobs`` always present, as this format requires."""
    return {"bytes": [], "top_logprobs": [], **{name: member for name, member in entry.items() if member is not None}}


def render_refusal_content(text: str) -> dict[str, Any]:
    return {"type": "refusal", "refusal": text}


def render_message_item(item_id: str, status: str, content: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    return {"id": item_id, "type": "message", "status": status, "role": "assistant", "content": list(content)}


def render_reasoning_item(item_id: str, text: str | None, signature: Opaque | None = None) -> dict[str, Any]:
    """Return a reasoning item. `text` is None for redacted reasoning. A signature that is not a string is left out."""
    summary = [] if text is None else [{"type": "summary_text", "text": text}]
    item: dict[str, Any] = {"id": item_id, "type": "reasoning", "summary": summary}
    if signature is not None and isinstance(signature.value, str):
        item["encrypted_content"] = signature.value
    return item


def call_item(item_id: str, call: ToolCall, status: str) -> dict[str, Any]:
    """Return the item of a tool call. Its result refers to ``call_id``, not to ``id``."""
    item: dict[str, Any] = {"id": item_id, "call_id": call.id, "name": call.name}
    if call.kind == "custom":
        item |= {"type": "custom_tool_call", "input": call.arguments, "status": status}
    else:
        item |= {"type": "function_call", "arguments": call.arguments, "status": status}
    return add_extra(item, {name: call.extra[name] for name in CALL_EXTRA if name in call.extra})


def call_prefix(kind: str) -> str:
    return "ctc" if kind == "custom" else "fc"


def render_whole_item(ids: ItemIdMaker, part: Part | None) -> dict[str, Any] | None:
    """Return the item of a part without deltas: an image or a vendor item. None for parts that this format lacks."""
    match part:
        case Image(source=Data(base64=data)):
            return {"id": ids.make("ig"), "type": "image_generation_call", "status": "completed", "result": data}
        case Image(source=Link(url=url)):
            return render_message_item(ids.make("msg"), "completed", [render_text_content(f"![image]({url})")])
        case VendorPart(wire_format=wire_format, value=value) if wire_format == WIRE_FORMAT:
            return dict(value)
        case _:
            return None


def render_output(
    parts: Iterable[Part],
    ids: ItemIdMaker,
    status: str,
    logprobs: Mapping[str, Any] | None = None,
    include: Collection[str] = (),
) -> list[dict[str, Any]]:
    """Return the items of a whole response. `status` applies to a message at the end; all other items are "completed".

    This matches streams, where a tool call ends before the finish reason is known.
    """
    entries = dict(logprobs or {})
    items: list[dict[str, Any]] = []
    calls = ServerToolCalls()
    for part in parts:
        content = _render_content(part, entries)
        last = items[-1] if items else None
        if isinstance(part, VendorPart) and part.server is not None and part.wire_format != WIRE_FORMAT:
            _take_server_tool(part.server, calls, items, ids, include)
        elif content is None:
            item = _render_item(part, ids)
            items += [item] if item is not None else []
        elif last is not None and last["type"] == "message":
            last["content"].append(content)
        else:
            items.append(render_message_item(ids.make("msg"), "completed", [content]))
    if items and items[-1]["type"] == "message":
        items[-1]["status"] = status
    return items


def _take_server_tool(
    use: ServerToolUse,
    calls: ServerToolCalls,
    items: list[dict[str, Any]],
    ids: ItemIdMaker,
    include: Collection[str],
) -> None:
    """Add the item of a use, or the result to the item of its call."""
    if use.step != "result":
        items.append(render_item(make_item_id(ids.make(CALL_TYPES[use.kind][1]), use), use, include))
        calls.start(use, items[-1])
    elif (finished := calls.finish(use)) is not None:
        item, whole = finished
        item |= render_item(item["id"], whole, include)


def _render_content(part: Part, logprobs: dict[str, Any]) -> dict[str, Any] | None:
    match part:
        case Text(text=text, citations=citations):
            return render_text_content(text, citations, logprobs.pop("content", ()))
        case Refusal(text=text):
            return render_refusal_content(text)
        case Audio(transcript=str(transcript)):  # this format has no output audio
            return render_text_content(transcript)
        case _:
            return None


def _render_item(part: Part, ids: ItemIdMaker) -> dict[str, Any] | None:
    match part:
        case Thinking(text=text, signature=signature, redacted=redacted):
            return render_reasoning_item(ids.make("rs"), None if redacted else text, signature)
        case ToolCall(kind=kind):
            return call_item(ids.make(call_prefix(kind)), part, "completed")
        case _:
            return render_whole_item(ids, part)
