"""What an answer of the imitation must look like to each caller."""

from __future__ import annotations

from typing import Any, Final

from qa.imitations.calling.run import Vendor
from qa.imitations.calling.scenario import Caller

_FINISH: Final = {
    "STOP": {"chat": "stop", "responses": "completed", "messages": "end_turn"},
    "MAX_TOKENS": {"chat": "length", "responses": "max_output_tokens", "messages": "max_tokens"},
    "SAFETY": {"chat": "content_filter", "responses": "content_filter", "messages": "refusal"},
}


def _get_parts(said: Any) -> list[Any]:
    return list(said["candidates"][0]["content"]["parts"])


def _list_items(said: Any) -> list[tuple[str, Any]]:
    items: list[tuple[str, Any]] = []
    for part in _get_parts(said):
        if "functionCall" in part:
            items.append(("call", (part["functionCall"]["name"], part["functionCall"]["args"])))
        else:
            items.append(("thinking" if part.get("thought") else "text", part["text"]))
    return items


def _count(said: Any) -> tuple[int, int, int, int]:
    usage = said["usageMetadata"]
    thought = usage.get("thoughtsTokenCount", 0)
    return usage["promptTokenCount"], usage["cachedContentTokenCount"], usage["candidatesTokenCount"] + thought, thought


def _find_finish(said: Any, caller: Caller) -> str:
    reason = said["candidates"][0]["finishReason"]
    if caller == "generate":
        return str(reason)
    calls = any("functionCall" in part for part in _get_parts(said))
    if reason == "STOP" and calls and caller in ("chat", "messages"):
        return {"chat": "tool_calls", "messages": "tool_use"}[caller]
    return _FINISH[reason][caller]


def _list_signatures(said: Any) -> list[str]:
    return [
        part["thoughtSignature"] for part in _get_parts(said) if "thoughtSignature" in part and "functionCall" in part
    ]


GEMINI: Final = Vendor(
    name="gemini",
    own=("generate",),
    shows_in_chats=False,
    items=_list_items,
    usage=_count,
    finish=_find_finish,
    signatures=_list_signatures,
)
