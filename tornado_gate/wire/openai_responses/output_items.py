"""Items of ``output``, one builder for whole answers and for streams. Pure.

An item's id holds the response's, so that an item that a caller refers to by its id alone can be found again.

Source: openai-python 3.52, types/responses/response_output_item.py and what it names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tornado_gate.codec.ids import make_unique_id
from tornado_gate.types import (
    Audio,
    Data,
    Image,
    Link,
    Opaque,
    Part,
    Refusal,
    Text,
    Thinking,
    ToolCall,
    VendorPart,
)
from tornado_gate.wire.openai_chat.parts import add_extra
from tornado_gate.wire.openai_responses.parts import WIRE_FORMAT

ID_PREFIX: Final = "resp_"
CALL_EXTRA: Final = ("namespace", "caller", "async")
_HEX_DIGITS: Final = 32


def make_response_id() -> str:
    return ID_PREFIX + make_unique_id()


def get_response_id(item_id: str) -> str:
    """The id of the response that made the item `item_id`, if one of ours did."""
    return ID_PREFIX + item_id.partition("_")[2][:_HEX_DIGITS]


class ItemIdMaker:
    """Ids for the items of one response, in their order."""

    def __init__(self, response_id: str) -> None:
        self._stem = response_id.removeprefix(ID_PREFIX)
        self._next = 0

    def make(self, prefix: str) -> str:
        """An id such as ``msg_…``."""
        self._next += 1
        return f"{prefix}_{self._stem}{self._next:04x}"


def render_text_content(
    text: str, extra: Mapping[str, Any], logprobs: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """The content part of a text; of `extra` only ``annotations`` has a place."""
    annotations = extra.get("annotations")
    return {
        "type": "output_text",
        "text": text,
        "annotations": [_flatten_annotation(value) for value in annotations] if isinstance(annotations, list) else [],
        "logprobs": [render_logprob(entry) for entry in logprobs],
    }


def _flatten_annotation(annotation: Any) -> Any:
    """An annotation whose details are not inside an object of its type's name, as chat has them."""
    match annotation:
        case {"type": str(kind), **rest} if isinstance(inner := rest.pop(kind, None), dict):
            return {"type": kind, **rest, **inner}
        case _:
            return annotation


def render_logprob(entry: Mapping[str, Any]) -> dict[str, Any]:
    """An entry of `PartDelta.logprobs` whose ``bytes`` are never null, as this format wants it."""
    return {"bytes": [], "top_logprobs": [], **{name: member for name, member in entry.items() if member is not None}}


def render_refusal_content(text: str) -> dict[str, Any]:
    return {"type": "refusal", "refusal": text}


def render_message_item(item_id: str, status: str, content: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    return {"id": item_id, "type": "message", "status": status, "role": "assistant", "content": list(content)}


def render_reasoning_item(item_id: str, text: str | None, signature: Opaque | None = None) -> dict[str, Any]:
    """`text` is None for reasoning that is redacted. A signature that is no string cannot come back and is left out."""
    summary = [] if text is None else [{"type": "summary_text", "text": text}]
    item: dict[str, Any] = {"id": item_id, "type": "reasoning", "summary": summary}
    if signature is not None and isinstance(signature.value, str):
        item["encrypted_content"] = signature.value
    return item


def call_item(item_id: str, call: ToolCall, status: str) -> dict[str, Any]:
    """A call of a tool. Its ``call_id`` is what its result must name, and not its id."""
    item: dict[str, Any] = {"id": item_id, "call_id": call.id, "name": call.name}
    if call.kind == "custom":
        item |= {"type": "custom_tool_call", "input": call.arguments, "status": status}
    else:
        item |= {"type": "function_call", "arguments": call.arguments, "status": status}
    return add_extra(item, {name: call.extra[name] for name in CALL_EXTRA if name in call.extra})


def call_prefix(kind: str) -> str:
    return "ctc" if kind == "custom" else "fc"


def render_whole_item(ids: ItemIdMaker, part: Part | None) -> dict[str, Any] | None:
    """The item of a part that comes whole: a picture, or an item of the vendor's own. None for what has no place here."""
    match part:
        case Image(source=Data(base64=data)):
            return {"id": ids.make("ig"), "type": "image_generation_call", "status": "completed", "result": data}
        case Image(source=Link(url=url)):
            return render_message_item(ids.make("msg"), "completed", [render_text_content(f"![image]({url})", {})])
        case VendorPart(wire_format=wire_format, value=value) if wire_format == WIRE_FORMAT:
            return dict(value)
        case _:
            return None


def render_output(
    parts: Iterable[Part], ids: ItemIdMaker, status: str, logprobs: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """The items of a whole answer. `status` is that of a message at its end; every item that is not the last is complete.

    So it is in a stream, where a call is over before it is known how the answer ends.
    """
    entries = dict(logprobs or {})
    items: list[dict[str, Any]] = []
    for part in parts:
        content = _render_content(part, entries)
        last = items[-1] if items else None
        if content is None:
            item = _render_item(part, ids)
            items += [item] if item is not None else []
        elif last is not None and last["type"] == "message":
            last["content"].append(content)
        else:
            items.append(render_message_item(ids.make("msg"), "completed", [content]))
    if items and items[-1]["type"] == "message":
        items[-1]["status"] = status
    return items


def _render_content(part: Part, logprobs: dict[str, Any]) -> dict[str, Any] | None:
    match part:
        case Text(text=text, extra=extra):
            return render_text_content(text, extra, logprobs.pop("content", ()))
        case Refusal(text=text):
            return render_refusal_content(text)
        case Audio(transcript=str(transcript)):  # there is no place for the sound itself
            return render_text_content(transcript, {})
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
