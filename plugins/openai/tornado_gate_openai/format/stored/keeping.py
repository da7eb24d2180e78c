"""The turns of the verbatim lane that the gateway keeps: turns of the gateway's conversations, and copies of stored responses.

Only requests with one of them have a `KeptTurn`; all others pass as without this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import orjson

from tornado_gate import patch_json, sse
from tornado_gate.types import Call, IssuedObjects
from tornado_gate_openai.format.stored import conversation_store, store
from tornado_gate_openai.format.verbatim import KeptTurn, OpenAIForwardState
from tornado_gate_openai.wire import responses

_RESPONSE_EVENTS = (b"created", b"queued", b"in_progress", b"completed", b"incomplete", b"failed")
_RESPONSE_MARKS = tuple(b'"response.' + word + b'"' for word in _RESPONSE_EVENTS)
"""Each event with a response has one of them; quotation marks inside JSON strings are escaped."""


class KeepingMeter(responses.ResponsesStreamMeter):
    """Also notes the complete response, which is kept before its last event is passed on."""

    def __init__(self, call: Call, issued: IssuedObjects, state: OpenAIForwardState, kept: KeptTurn) -> None:
        super().__init__(call.meter, issued, stored=state.stored)
        self._call = call
        self._issuing = issued
        self._state = state
        self._kept = kept

    def note(self, raw: bytes) -> bool:
        """Note one frame."""
        before = self.finished
        super().note(raw)
        if self.finished and not before:
            note_turn(self._call, self._issuing, self._state, self._kept, self.response)
        return False

    def render_frame(self, raw: bytes) -> bytes:
        """Return a frame with the conversation in its response, if the gateway keeps the turn's conversation."""
        if not self._kept.conversation or not any(mark in raw for mark in _RESPONSE_MARKS):
            return raw
        frame = sse.parse(raw)
        event = orjson.loads(frame.data) if frame is not None else None
        if not isinstance(event, dict) or not isinstance(event.get("response"), dict):
            return raw
        event["response"] = {**event["response"], **render_conversation(self._kept)}
        return sse.render_json(event, str(event.get("type")))


def render_conversation(kept: KeptTurn) -> dict[str, Any]:
    """Return the member ``conversation`` of a response; {} unless the gateway keeps the turn's conversation."""
    return {"conversation": {"id": kept.conversation}} if kept.conversation else {}


def keep_body(
    call: Call, issued: IssuedObjects, state: OpenAIForwardState, kept: KeptTurn, raw: bytes, body: Any
) -> bytes:
    """Note a whole response, and return it with its conversation."""
    note_turn(call, issued, state, kept, body)
    added = render_conversation(kept)
    return patch_json(raw, added, body) if added else raw


def note_turn(
    call: Call, issued: IssuedObjects, state: OpenAIForwardState, kept: KeptTurn, response: Mapping[str, Any]
) -> None:
    """Let the core keep the turn of a response, if it is complete, before the caller receives its end."""
    if response.get("status") in ("completed", "incomplete") and isinstance(response.get("output"), list):
        reported = response.get("store")
        stored = reported if isinstance(reported, bool) else state.stored
        issued.save = partial(_save, call, kept, response, stored)


async def _save(call: Call, kept: KeptTurn, response: Mapping[str, Any], stored: bool) -> None:
    provider = call.target.provider
    if kept.conversation:
        await conversation_store.add_turn(
            call, kept.conversation, kept.items, response["output"], provider=provider, stored=stored
        )
    if kept.copies and stored:
        conversation = {"conversation": {"id": kept.conversation}} if kept.conversation else {}
        body = {**response, **conversation}
        await store.save_turn(
            call, kept.previous, kept.items, body, earlier=kept.earlier, last=kept.last, kept_by=provider
        )
