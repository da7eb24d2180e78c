"""Thinking of other vendors in verbatim requests, which the vendor rejects for the rest of the conversation. Pure.

A caller of this format gets thinking from every model of the gateway: without a signature from most, with encrypted reasoning as
the signature from OpenAI's. The core removes signatures that it knows to be of another provider; this finds those that it has
forgotten, by their form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.codec.byte_search import contains_any
from tornado_gate.types import Call, VerbatimRequest

_ENCRYPTED_PREFIX: Final = "gAAAA"
"""The beginning of OpenAI's encrypted reasoning, a Fernet token: version 0x80 and a 64-bit time stamp."""

_MARKS: Final = (b'"signature":""', b'"signature": ""', _ENCRYPTED_PREFIX.encode())
"""Without any of these a body has no foreign thinking, unless it has other white space; the search is fast."""


def remove_foreign_thinking(call: Call, request: VerbatimRequest) -> dict[str, Any]:
    """``messages`` without thinking that this vendor did not sign; {} when there is none. Reports each removed block."""
    messages = request.body.get("messages")
    if not isinstance(messages, list) or not contains_any(request.raw, _MARKS):
        return {}
    kept: list[Any] = []
    for number, message in enumerate(messages):
        content = message.get("content") if isinstance(message, Mapping) else None
        if not isinstance(content, list):
            kept.append(message)
            continue
        foreign = [place for place, block in enumerate(content) if _is_foreign(block)]
        for place in foreign:
            call.drop_field(f"messages.{number}.content.{place}")
        blocks = [block for place, block in enumerate(content) if place not in foreign]
        if blocks or not foreign:
            kept.append({**message, "content": blocks} if foreign else message)
    return {} if kept == messages else {"messages": kept}


def _is_foreign(block: Any) -> bool:
    match block:
        case {"type": "thinking"}:
            signature = block.get("signature")
            return not signature or str(signature).startswith(_ENCRYPTED_PREFIX)
        case {"type": "redacted_thinking", "data": str(data)}:
            return data.startswith(_ENCRYPTED_PREFIX)
    return False
