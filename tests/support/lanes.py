"""The lanes of one wire format's tests, and answers for the scripted upstream.

Each lane is a model of the gateway in `conftest`: the embedded provider, an independent upstream that speaks the caller's
own wire format (verbatim), and one that speaks format O (translated). Shapes as in anthropic-python ``types/message.py``
and google-genai ``types.py``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import httpx

from tests.support.gateway import Gateway
from tests.support.scripts import chunk
from tests.support.upstream import sse

LOCAL = "local-chat"
TRANSLATED = "mock-gpt"
REPORT = json.dumps({"city": "Oslo", "degrees": 7})


def lane_of(gateway: Gateway, route: str, headers: Mapping[str, str], body: Mapping[str, Any]) -> str:
    """Which lane the gateway itself says that a request takes. `headers` and `body` are those of `route`."""
    url = f"{gateway.url}/v1/_explain"
    explained = httpx.post(url, params={"route": route}, headers=dict(headers), json=dict(body))
    return str(explained.raise_for_status().json()["lane"])


def message(text: str) -> str:
    """A whole answer in format A."""
    usage = {"input_tokens": 9, "output_tokens": 4}
    content = [{"type": "text", "text": text}]
    return json.dumps(_message(content=content, stop_reason="end_turn", stop_sequence=None, usage=usage))


def message_start(text: str) -> str:
    """The first events of a stream in format A, up to one delta with `text`."""
    usage = {"input_tokens": 9, "output_tokens": 1}
    opened = _message(content=[], stop_reason=None, stop_sequence=None, usage=usage)
    return "".join(
        f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"
        for event in (
            {"type": "message_start", "message": opened},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
        )
    )


def generated(text: str, reason: str | None = "STOP") -> dict[str, Any]:
    """A whole answer in format G, or one chunk of a stream when `reason` is None."""
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": [{"text": text}]}, "index": 0}
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 4, "totalTokenCount": 13}
    ended = {} if reason is None else {"finishReason": reason}
    return {"candidates": [candidate | ended], "usageMetadata": usage, "modelVersion": "scripted-model"}


def generation_start(text: str) -> str:
    """The first chunk of a stream in format G."""
    return sse(generated(text, None))


def chat_start(text: str) -> str:
    """The first chunk of a stream in format O."""
    return sse(chunk(role="assistant", content=text))


def _message(**rest: Any) -> dict[str, Any]:
    return {"id": "msg_scripted", "type": "message", "role": "assistant", "model": "scripted-model", **rest}
