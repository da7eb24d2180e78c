"""Compactions by the gateway itself, for models whose upstream cannot compact: the model writes a summary of the conversation.

No I/O.

The vendor's compaction item holds the state of its model, encrypted. An item of the gateway holds the summary, which is the
caller's own content and not encrypted: base64 of JSON after a prefix. So a compacted conversation needs no storage and works on
every gateway and at every model. A client handles both kinds of items in the same way. When an item comes back in ``input``, it
is replaced by a user message with the summary. Codex gives this role to its own summaries.

Source: openai-python 3.52, types/responses/compacted_response.py, response_compaction_item.py and response_compact_params.py;
openai/codex, codex-rs/core/src/compact_remote_v2.rs (read 2026-11-22): a ``compaction_trigger`` at the end of ``input`` requests
a response with exactly one compaction item.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import orjson

from tornado_gate.codec.text_files import UnreadableFile, decode_base64
from tornado_gate.errors import GateError, InvalidField, UpstreamError
from tornado_gate.streams import stages
from tornado_gate.types import (
    Finish,
    PartDelta,
    PartEnd,
    PartStart,
    StreamError,
    StreamEvent,
    VendorPart,
)
from tornado_gate_openai.wire.responses.message_parser import get_item_type
from tornado_gate_openai.wire.responses.parts import SUMMARY_PREFIX, WIRE_FORMAT

Item = Mapping[str, Any]

MARK: Final = SUMMARY_PREFIX.encode()
"""Occurs in the text of every request with an item of the gateway."""

SUMMARY_PROMPT: Final = (
    "The conversation so far will be replaced by a summary that you write now, and a model that has only this summary will "
    "continue it. Write down everything that it needs: what the user wants, all of the user's instructions and preferences, "
    "what was done and found out, decisions and their reasons, exact names, paths, values and error messages that still matter, "
    "and the next steps. Answer with the summary only, as plain text. Do not continue the conversation and do not call tools."
)
_SUMMARY_HEADING: Final = (
    "The conversation before this message was replaced by the following summary, which the assistant wrote:"
)

RETAINED_CHARACTERS: Final = 64_000 * 4
"""User messages that a compaction returns beside the summary, newest first: 64,000 tokens, as at the vendor (Codex, the file
above, `RETAINED_MESSAGE_TOKEN_BUDGET`). The summary replaces older messages.
"""


def is_own_compaction(item: Item) -> bool:
    """Return whether an item is a compaction that a gateway made."""
    content = item.get("encrypted_content")
    return item.get("type") == "compaction" and isinstance(content, str) and content.startswith(SUMMARY_PREFIX)


def make_compaction_item(item_id: str, summary: str) -> dict[str, Any]:
    """Return the compaction item with a summary."""
    content = base64.urlsafe_b64encode(orjson.dumps({"summary": summary})).decode("ascii")
    return {"id": item_id, "type": "compaction", "encrypted_content": SUMMARY_PREFIX + content}


def restore_items(items: Sequence[Item], path: str = "input") -> list[dict[str, Any]]:
    """Return `items` with each compaction of a gateway replaced by a user message with its summary.

    Raises InvalidField for a compaction that was changed. `path` is the path of `items`.
    """
    return [
        _restore(item, f"{path}.{number}") if is_own_compaction(item) else dict(item)
        for number, item in enumerate(items)
    ]


def _restore(item: Item, path: str) -> dict[str, Any]:
    try:
        body = orjson.loads(decode_base64(item["encrypted_content"].removeprefix(SUMMARY_PREFIX)))
        summary = body["summary"]
        assert isinstance(summary, str)
    except (AssertionError, KeyError, TypeError, UnreadableFile, ValueError):
        message = f"'{path}.encrypted_content' is damaged. Send the compaction item exactly as the gateway returned it."
        raise InvalidField(f"{path}.encrypted_content", message) from None
    return make_text_message("user", f"{_SUMMARY_HEADING}\n\n{summary}")


def make_text_message(role: str, text: str) -> dict[str, Any]:
    """Return a message item with one text of the caller."""
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}


def has_trigger(items: Any) -> bool:
    """Return whether ``input`` requests a compaction of what precedes, instead of a response."""
    return isinstance(items, list) and any(item.get("type") == "compaction_trigger" for item in items)


def render_transcript(items: Iterable[Item], path: str = "input") -> list[dict[str, Any]]:
    """Return the items of a conversation as a model can summarise them: one item for each, in order.

    Tool calls and their results become texts, because some vendors refuse them in a request without the tools. Reasoning becomes
    its summary. `path` is the path of `items`.
    """
    return [_render_for_summary(item) for item in restore_items(list(items), path)]


def _render_for_summary(item: dict[str, Any]) -> dict[str, Any]:
    match get_item_type(item):
        case "function_call" | "custom_tool_call":
            arguments = item.get("input" if item.get("type") == "custom_tool_call" else "arguments")
            return _say("assistant", f"[Call of the tool '{item.get('name')}' with: {arguments}]")
        case "function_call_output" | "custom_tool_call_output":
            return _render_output(item.get("output"))
        case "reasoning":
            pieces = [*(item.get("summary") or ()), *(item.get("content") or ())]
            return _say("assistant", "\n\n".join(str(piece.get("text")) for piece in pieces))
        case "compaction_trigger":
            return make_text_message("user", SUMMARY_PROMPT)
    return item


def _render_output(output: Any) -> dict[str, Any]:
    """Return the result of a tool as a user message; its images and files are kept."""
    if not isinstance(output, list):
        return make_text_message("user", f"[Result of the tool: {output}]")
    return {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": "[Result of the tool:]"}, *output],
    }


def _say(role: str, text: str) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": [{"type": "output_text", "text": text}] if text else []}


def select_user_messages(items: Iterable[Item]) -> list[dict[str, Any]]:
    """Return the user messages that remain beside a summary, oldest first: the newest that fit in RETAINED_CHARACTERS."""
    kept: list[dict[str, Any]] = []
    left = RETAINED_CHARACTERS
    for item in reversed([item for item in items if get_item_type(item) == "message" and item.get("role") == "user"]):
        left -= len(orjson.dumps(item["content"]))
        if left < 0:
            break
        content = item["content"]
        content = [{"type": "input_text", "text": content}] if isinstance(content, str) else content
        kept.append({**item, "type": "message", "status": "completed", "content": content})
    return kept[::-1]


class CompactionStep(stages.Step[StreamEvent, StreamEvent]):
    """The step that replaces the parts of a chat by one part: the compaction item with their text.

    A response without a summary is an error.
    """

    __slots__ = ("_item_id", "_pieces", "_texts")

    def __init__(self, item_id: str) -> None:
        self._item_id = item_id
        self._texts: set[int] = set()
        self._pieces: list[str] = []

    def take(self, items: list[StreamEvent], out: list[StreamEvent]) -> bool | None:
        for event in items:
            match event:
                case PartStart():
                    if event.kind == "text":
                        self._texts.add(event.index)
                case PartDelta():
                    if event.index in self._texts and isinstance(event.data, str):
                        self._pieces.append(event.data)
                case PartEnd():
                    pass
                case Finish():
                    out += self._finish(event)
                case _:
                    out.append(event)
        return None

    def _finish(self, event: Finish) -> list[StreamEvent]:
        summary = "".join(self._pieces).strip()
        if event.reason != "stop" or not summary:
            return [StreamError(error=_no_summary_error(event))]
        item = make_compaction_item(self._item_id, summary)
        part = VendorPart(wire_format=WIRE_FORMAT, value=item)
        return [PartStart(index=0, kind="vendor", part=part), PartEnd(index=0), event]


def _no_summary_error(event: Finish) -> GateError:
    """Return the error of a response without a summary. A limit of tokens, which callers set, is not the target's fault."""
    if event.reason == "length":
        message = (
            "The model reached its limit of output tokens before the summary was complete. Raise 'max_output_tokens', or "
            "compact a shorter conversation."
        )
        return InvalidField("max_output_tokens", message)
    return UpstreamError(
        f"The model wrote no complete summary of the conversation (finish reason '{event.raw or event.reason}'). Retry, or "
        "compact a shorter conversation.",
        code="upstream_response_failed",
    )
