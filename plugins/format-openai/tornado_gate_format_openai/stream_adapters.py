"""The passthrough adapters of chat, text completions and responses."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import orjson

from tornado_gate import REMOVE, passthrough, patch_json
from tornado_gate.errors import GateError
from tornado_gate.streams.events import iterate_events, replay
from tornado_gate.types import Call, IssuedObjects, VerbatimRequest, WireRequest
from tornado_gate.wire import formats, openai_chat, openai_completions, openai_responses
from tornado_gate_format_openai import contract, store, storing
from tornado_gate_format_openai.replies import DONE_FRAME, stream_frames
from tornado_gate_format_openai.responses import choose_response_dialect, render_event_frame
from tornado_gate_format_openai.verbatim import OpenAIAdapter, OpenAIForwardState, get_state, make_verbatim

_REASON_PATTERN: Final = re.compile(rb'"finish_reason"(?!: ?null)')
_USAGE_PATTERN: Final = re.compile(rb'"usage"(?!: ?null)')


class ChatAdapter(OpenAIAdapter):
    """Chat: streams end with ``[DONE]``."""

    def meter(self, call: Call, request: VerbatimRequest) -> passthrough.StreamMeter:
        return openai_chat.ChatStreamMeter(call.meter)

    def is_quiet(self, frames: bytes) -> bool:
        return (  # rfind takes half the time of find when nothing matches
            frames.rfind(b"[DONE]") < 0
            and frames.rfind(b'"error"') < 0
            and _REASON_PATTERN.search(frames) is None
            and _USAGE_PATTERN.search(frames) is None
        )

    def parse_error(self, body: Any) -> GateError | None:
        return openai_chat.find_error(body)

    def render_ending(self, call: Call, meter: Any, error: GateError | None) -> bytes:
        return DONE_FRAME if error is None else super().render_ending(call, meter, error)

    def read_body(self, call: Call, request: VerbatimRequest, raw: bytes, body: Any) -> bytes:
        openai_chat.note_body(call.meter, body)
        return raw

    def render_stream(self, call: Call, request: VerbatimRequest, body: Any) -> AsyncIterator[bytes]:
        result = openai_chat.parse_response(body)
        chunks = openai_chat.render_stream(
            iterate_events(replay(result)),
            id=str(body.get("id") or call.id),
            model=result.model,
            created=result.created or int(time.time()),
            include_usage=not get_state(request).hide_usage,
        )
        return stream_frames(chunks)


class AudioAdapter(ChatAdapter):
    """Chat with audio output. The id of the audio stands for it in later requests, so it is noted; no frame is quiet."""

    def meter(self, call: Call, request: VerbatimRequest) -> passthrough.StreamMeter:
        return openai_chat.AudioStreamMeter(call.meter, request.issued or IssuedObjects())

    def is_quiet(self, frames: bytes) -> bool:
        return False

    def read_body(self, call: Call, request: VerbatimRequest, raw: bytes, body: Any) -> bytes:
        openai_chat.note_body(call.meter, body)
        openai_chat.note_audio(request.issued or IssuedObjects(), raw, set())
        return raw


AUDIO_ADAPTER: Final = AudioAdapter()


class CompletionsAdapter(ChatAdapter):
    """Text completions: metered like chat. A JSON body becomes one chunk of a stream."""

    def render_stream(self, call: Call, request: VerbatimRequest, body: Any) -> AsyncIterator[bytes]:
        return stream_frames(_iterate_chunks(body, not get_state(request).hide_usage))


async def _iterate_chunks(body: Mapping[str, Any], include_usage: bool) -> AsyncIterator[dict[str, Any]]:
    usage = body.get("usage")
    chunk = {name: value for name, value in body.items() if name != "usage"}
    yield chunk | {"usage": None} if include_usage else chunk
    if include_usage and usage is not None:
        yield {**chunk, "choices": [], "usage": usage}


class ResponsesAdapter(OpenAIAdapter):
    """Responses: a stream ends with its last event. A failed stream ends with ``response.failed`` for the started response.

    No frame is quiet, because the meter reads each frame's ``sequence_number``.
    """

    def meter(self, call: Call, request: VerbatimRequest) -> passthrough.StreamMeter:
        return openai_responses.ResponsesStreamMeter(call.meter, request.issued, stored=get_state(request).stored)

    def parse_error(self, body: Any) -> GateError | None:
        return openai_responses.find_error(body)

    def render_ending(self, call: Call, meter: Any, error: GateError | None) -> bytes:
        return b"" if error is None else b"".join(render_event_frame(event) for event in meter.render_ending(error))

    def read_body(self, call: Call, request: VerbatimRequest, raw: bytes, body: Any) -> bytes:
        if not openai_responses.is_unfinished(body):
            openai_responses.note_body(call.meter, body)
        if request.issued is not None:
            openai_responses.note_issued(request.issued, body, stored=get_state(request).stored)
        if get_state(request).contract:
            return orjson.dumps(contract.render_response(body))
        if isinstance(body, dict) and isinstance(body.get("usage"), dict):
            return patch_json(raw, {"usage": contract.render_usage(body["usage"])}, body)
        return raw

    def render_stream(self, call: Call, request: VerbatimRequest, body: Any) -> AsyncIterator[bytes]:
        result = openai_responses.parse_response(body)
        events = openai_responses.render_stream(
            iterate_events(replay(result)),
            id=result.id or openai_responses.make_response_id(),
            model=result.model,
            created=result.created or int(time.time()),
            asked=body,
        )
        return _stream_frames(events)


async def _stream_frames(events: AsyncIterator[dict[str, Any]]) -> AsyncIterator[bytes]:
    async for event in events:
        yield render_event_frame(event)


class CompactionAdapter(ResponsesAdapter):
    """Compactions: whole bodies, passed unchanged."""

    streams_bodies = False

    def read_body(self, call: Call, request: VerbatimRequest, raw: bytes, body: Any) -> bytes:
        openai_responses.note_body(call.meter, body)
        if request.issued is not None:
            openai_responses.note_issued(request.issued, body, stored=get_state(request).stored)
        return raw


ADAPTERS: Mapping[str, OpenAIAdapter] = {
    openai_chat.WIRE_FORMAT: ChatAdapter(),
    openai_completions.WIRE_FORMAT: CompletionsAdapter(),
    openai_responses.WIRE_FORMAT: ResponsesAdapter(),
    formats.OPENAI_COMPACTIONS: CompactionAdapter(),
}


async def forward_response_request(call: Call, wire: WireRequest) -> VerbatimRequest:
    """Return the request of the verbatim lane for a checked body.

    The upstream stores its own responses and resolves ``previous_response_id``. It does not know a turn that the gateway
    stored because another model answered it; then ``previous_response_id`` is replaced by the items of the conversation.
    Reasoning items are left out, because only their issuer can decrypt them.
    """
    body = wire.json
    changes = storing.apply_rules(call, body)
    state = OpenAIForwardState(
        contract=choose_response_dialect(call, body) == "contract", stored=storing.is_stored(call, body)
    )
    raw, body = await resolve_state(call, wire, body, changes)
    return make_verbatim(wire, raw, body, state, IssuedObjects())


async def forward_compaction(call: Call, wire: WireRequest, body: Mapping[str, Any]) -> VerbatimRequest:
    """Return the request of the verbatim lane for a checked body of ``POST /v1/responses/compact``."""
    storing.check_previous_response(call, body)
    raw, body = await resolve_state(call, wire, body, {})
    state = OpenAIForwardState(stored=storing.is_stored(call, body))
    return make_verbatim(wire, raw, body, state, IssuedObjects())


async def resolve_state(
    call: Call, wire: WireRequest, body: Mapping[str, Any], changes: dict[str, Any]
) -> tuple[bytes, Mapping[str, Any]]:
    """Return the JSON text and the value of a checked body, with everything replaced that only the gateway can resolve.

    `changes` are further members to replace.
    """
    previous = body.get("previous_response_id")
    earlier: store.ItemList = []
    if previous and await store.find_turn(call, previous) is not None:
        earlier = [item for item in await store.load_history(call, previous) if item.get("type") != "reasoning"]
        changes["previous_response_id"] = REMOVE
    items = openai_responses.read_items(body.get("input") or ())
    known = await store.resolve_references(call, items, earlier, strict=False)
    if earlier:
        earlier = openai_responses.restore_items(earlier, "previous_response_id")
    if openai_responses.MARK in wire.raw:
        known = openai_responses.restore_items(known)
    if earlier or known != items:
        changes["input"] = [*earlier, *known]
    if not changes:
        return wire.raw, body
    merged = {name: value for name, value in {**body, **changes}.items() if value is not REMOVE}
    return patch_json(wire.raw, changes, body), merged
