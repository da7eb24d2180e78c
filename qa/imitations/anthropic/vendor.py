"""What an answer of the imitation must look like to each caller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from qa.imitations.calling.run import Vendor
from qa.imitations.calling.scenario import Caller

_FINISH: Final[Mapping[str, Mapping[Caller, str]]] = {
    "end_turn": {"chat": "stop", "responses": "completed", "generate": "STOP"},
    "stop_sequence": {"chat": "stop", "responses": "completed", "generate": "STOP"},
    "tool_use": {"chat": "tool_calls", "responses": "completed", "generate": "STOP"},
    "max_tokens": {"chat": "length", "responses": "max_output_tokens", "generate": "MAX_TOKENS"},
    "model_context_window_exceeded": {"chat": "length", "responses": "max_output_tokens", "generate": "MAX_TOKENS"},
    "pause_turn": {"chat": "length", "responses": "max_output_tokens", "generate": "MAX_TOKENS"},
    "refusal": {"chat": "content_filter", "responses": "content_filter", "generate": "SAFETY"},
}


def _list_items(said: Any) -> list[tuple[str, Any]]:
    items: list[tuple[str, Any]] = []
    for block in said["content"]:
        if block["type"] == "tool_use":
            items.append(("call", (block["name"], block["input"])))
        elif block["type"] in ("text", "thinking"):
            items.append((block["type"], block[block["type"]]))
    return items


def _count(said: Any) -> tuple[int, int, int, int]:
    usage = said["usage"]
    cached = usage["cache_read_input_tokens"]
    prompt = usage["input_tokens"] + cached + usage["cache_creation_input_tokens"]
    return prompt, cached, usage["output_tokens"], usage["output_tokens_details"]["thinking_tokens"]


def _find_finish(said: Any, caller: Caller) -> str:
    return str(said["stop_reason"] if caller == "messages" else _FINISH[said["stop_reason"]][caller])


def _list_signatures(said: Any) -> list[str]:
    blocks = [block for block in said["content"] if block["type"] in ("thinking", "redacted_thinking")]
    return [block.get("signature") or block["data"] for block in blocks]


ANTHROPIC: Final = Vendor(
    name="anthropic",
    own=("messages",),
    shows_in_chats=True,
    items=_list_items,
    usage=_count,
    finish=_find_finish,
    signatures=_list_signatures,
)
