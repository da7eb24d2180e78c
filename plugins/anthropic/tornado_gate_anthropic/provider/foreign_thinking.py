"""Thinking of other vendors in verbatim requests, which the vendor rejects for the whole conversation. Pure.

A caller of this format gets thinking from every model of the gateway: without a signature from most, with encrypted reasoning
as the signature from OpenAI's. The core removes signatures with a record of another provider. This module finds signatures
without a record, by their form. A signature of any other form may be the vendor's own, from another platform or region: the
vendor documents it as opaque, and checks it.

The vendor lets clients leave out thinking of earlier turns. It requires thinking before the tool calls of the last turn only
beside ``thinking.type: enabled``. So thinking is switched off where another model made these calls, as its error message
advises. Source: platform.claude.com/docs/en/build-with-claude/thinking and .../thinking-troubleshooting (read 2026-11-22).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.codec.byte_search import contains_any
from tornado_gate.types import Call, VerbatimRequest
from tornado_gate.wire.empty_conversations import empty_conversation_error
from tornado_gate_anthropic.wire.messages import lacks_thinking

_ENCRYPTED_PREFIX: Final = "gAAAA"
"""The beginning of OpenAI's encrypted reasoning, a Fernet token: version 0x80 and a 64-bit time stamp."""

_MARKS: Final = (b'"thinking"', _ENCRYPTED_PREFIX.encode())
"""Without any of these a body has no foreign thinking; the search is fast."""
_SIGNING_MODELS: Final = "claude"
"""A part of the names of models that sign all thinking. Other vendors have this API too, and some require unsigned thinking back
(agentscope-ai/agentscope-java#2400, 2026-07)."""
_OFF: Final[Mapping[str, Any]] = {"type": "disabled"}


def remove_foreign_thinking(call: Call, request: VerbatimRequest) -> dict[str, Any]:
    """The members to replace: ``messages`` without thinking that this vendor did not sign, and ``thinking`` if it must be off.

    {} when there is no such thinking. Reports each removed block. Raises InvalidField if nothing else is left.
    """
    messages = request.body.get("messages")
    if not isinstance(messages, list) or not contains_any(request.raw, _MARKS):
        return {}
    kept = _remove_blocks(call, messages)
    if messages and not kept:
        raise empty_conversation_error("messages")
    changed: dict[str, Any] = {} if kept == messages else {"messages": kept}
    thinking = request.body.get("thinking")
    if isinstance(thinking, Mapping) and thinking.get("type") == "enabled" and lacks_thinking(kept):
        call.drop_field("thinking")
        changed["thinking"] = dict(_OFF)
    return changed


def _remove_blocks(call: Call, messages: list[Any]) -> list[Any]:
    """`messages` without foreign thinking, and without messages that have no other content."""
    signed = _SIGNING_MODELS in call.target.upstream_model.lower()
    kept: list[Any] = []
    for number, message in enumerate(messages):
        content = message.get("content") if isinstance(message, Mapping) else None
        if not isinstance(content, list):
            kept.append(message)
            continue
        foreign = [index for index, block in enumerate(content) if _is_foreign(block, signed=signed)]
        for index in foreign:
            call.drop_field(f"messages.{number}.content.{index}")
        blocks = [block for index, block in enumerate(content) if index not in foreign]
        if blocks or not foreign:
            kept.append({**message, "content": blocks} if foreign else message)
    return kept


def _is_foreign(block: Any, *, signed: bool) -> bool:
    match block:
        case {"type": "thinking"}:
            signature = block.get("signature")
            if signature is None:
                return signed
            return not signature or str(signature).startswith(_ENCRYPTED_PREFIX)
        case {"type": "redacted_thinking", "data": str(data)}:
            return data.startswith(_ENCRYPTED_PREFIX)
    return False
