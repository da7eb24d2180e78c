"""The passthrough adapters of chat, text completions and responses."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import orjson

from tornado_gate import REMOVE, passthrough, patch_json
from tornado_gate.codec.byte_search import contains_any
from tornado_gate.errors import GateError, InvalidField
from tornado_gate.streams.events import iterate_events, replay
from tornado_gate.types import Call, IssuedObjects, VerbatimRequest, WireRequest
from tornado_gate.types.upstream_objects import make_record_name
from tornado_gate.types.value import Value, replace
from tornado_gate.wire.empty_conversations import empty_conversation_error
from tornado_gate_openai.fields.object_ids import list_object_references
from tornado_gate_openai.format import contract
from tornado_gate_openai.format.replies import DONE_FRAME, stream_frames
from tornado_gate_openai.format.responses import choose_response_dialect, render_event_frame
from tornado_gate_openai.format.stored import conversation_store, made_items, store, storing
from tornado_gate_openai.format.stored.keeping import KeepingMeter, keep_body, render_conversation
from tornado_gate_openai.format.verbatim import KeptTurn, OpenAIAdapter, OpenAIForwardState, get_state, make_verbatim
from tornado_gate_openai.wire import chat, completions, formats, responses

_REASON_PATTERN: Final = re.compile(rb'"finish_reason"(?!: ?null)')
_USAGE_PATTERN: Final = re.compile(rb'"usage"(?!: ?null)')


class ChatAdapter(OpenAIAdapter):
    """Chat: streams end with ``[DONE]``."""

    produced_member = "choices"

    def meter(self, call: Call, request: VerbatimRequest) -> passthrough.StreamMeter:
        return chat.ChatStreamMeter(call.meter)

    def is_quiet(self, frames: bytes) -> bool:
        return (  # rfind takes half the time of find when nothing matches
            frames.rfind(b"[DONE]") < 0
            and frames.rfind(b'"error"') < 0
            and _REASON_PATTERN.search(frames) is None
            and (frames.rfind(b'"usage"') < 0 or _USAGE_PATTERN.search(frames) is None)
        )

    def parse_error(self, body: Any) -> GateError | None:
        return chat.find_error(body)

    def render_ending(self, call: Call, meter: Any, error: GateError | None) -> bytes:
        return DONE_FRAME if error is None else super().render_ending(call, meter, error)

    def read_body(self, call: Call, request: VerbatimRequest, raw: bytes, body: Any) -> bytes:
        chat.note_body(call.meter, body)
        return raw

    def render_stream(self, call: Call, request: VerbatimRequest, body: Any) -> AsyncIterator[bytes]:
        result = chat.parse_response(body)
        chunks = chat.render_stream(
            iterate_events(replay(result)),
            id=str(body.get("id") or call.id),
            model=result.model,
            created=result.created or int(time.time()),
            include_usage=not get_state(request).hide_usage,
        )
        return stream_frames(chunks)


class AudioAdapter(ChatAdapter):
    """Chat with audio output. Later requests refer to the audio by its id, so the id is noted; no frame is quiet."""

    def meter(self, call: Call, request: VerbatimRequest) -> passthrough.StreamMeter:
        return chat.AudioStreamMeter(call.meter, request.issued or IssuedObjects())

    def is_quiet(self, frames: bytes) -> bool:
        return False

    def read_body(self, call: Call, request: VerbatimRequest, raw: bytes, body: Any) -> bytes:
        chat.note_body(call.meter, body)
        chat.note_audio(request.issued or IssuedObjects(), raw, set())
        return raw


AUDIO_ADAPTER: Final = AudioAdapter()


class ImageAdapter(ChatAdapter):
    """Chat whose caller requests other modalities than text: its pictures are counted; no frame is quiet."""

    def meter(self, call: Call, request: VerbatimRequest) -> passthrough.StreamMeter:
        return chat.ImageStreamMeter(call.meter)

    def is_quiet(self, frames: bytes) -> bool:
        return False


IMAGE_ADAPTER: Final = ImageAdapter()


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

    produced_member = "output"  # a body also repeats the instructions and tools of its request

    def meter(self, call: Call, request: VerbatimRequest) -> passthrough.StreamMeter:
        state = get_state(request)
        if state.kept is not None and request.issued is not None:
            return KeepingMeter(call, request.issued, state, state.kept)
        return responses.ResponsesStreamMeter(call.meter, request.issued, stored=state.stored)

    def render_frames(self, meter: Any, frames: list[bytes]) -> list[bytes]:
        if isinstance(meter, KeepingMeter):
            frames = [meter.render_frame(raw) for raw in frames]
        return super().render_frames(meter, frames)

    def parse_error(self, body: Any) -> GateError | None:
        return responses.find_error(body)

    def render_ending(self, call: Call, meter: Any, error: GateError | None) -> bytes:
        return b"" if error is None else b"".join(render_event_frame(event) for event in meter.render_ending(error))

    def read_body(self, call: Call, request: VerbatimRequest, raw: bytes, body: Any) -> bytes:
        state = get_state(request)
        if not responses.is_unfinished(body):
            responses.note_body(call.meter, body)
        if request.issued is not None:
            responses.note_issued(request.issued, body, stored=state.stored)
        if state.kept is not None and request.issued is not None:
            raw = keep_body(call, request.issued, state, state.kept, raw, body)
        if state.contract:
            return orjson.dumps(contract.render_response(body))
        if isinstance(body, dict) and isinstance(body.get("usage"), dict):
            return patch_json(raw, {"usage": contract.render_usage(body["usage"])}, body)
        return raw

    def render_stream(self, call: Call, request: VerbatimRequest, body: Any) -> AsyncIterator[bytes]:
        result, kept = responses.parse_response(body), get_state(request).kept
        events = responses.render_stream(
            iterate_events(replay(result)),
            id=result.id or responses.make_response_id(),
            model=result.model,
            created=result.created or int(time.time()),
            asked={**body, **render_conversation(kept)} if kept is not None else body,
        )
        return _stream_frames(events)


async def _stream_frames(events: AsyncIterator[dict[str, Any]]) -> AsyncIterator[bytes]:
    async for event in events:
        yield render_event_frame(event)


class CompactionAdapter(ResponsesAdapter):
    """Compactions: whole bodies, passed unchanged."""

    streams_bodies = False

    def read_body(self, call: Call, request: VerbatimRequest, raw: bytes, body: Any) -> bytes:
        responses.note_body(call.meter, body)
        if request.issued is not None:
            responses.note_issued(request.issued, body, stored=get_state(request).stored)
        return raw


ADAPTERS: Mapping[str, OpenAIAdapter] = {
    chat.WIRE_FORMAT: ChatAdapter(),
    completions.WIRE_FORMAT: CompletionsAdapter(),
    responses.WIRE_FORMAT: ResponsesAdapter(),
    formats.OPENAI_COMPACTIONS: CompactionAdapter(),
}


async def forward_response_request(call: Call, wire: WireRequest) -> VerbatimRequest:
    """Return the request of the verbatim lane for a checked body.

    The upstream stores its own responses and resolves ``previous_response_id``. It does not have a turn that the gateway stored
    because another model served it; then ``previous_response_id`` is replaced by the items of the conversation. Reasoning items
    are left out, because only their issuer can decrypt them. A conversation that the gateway keeps is replaced in the same way.
    Ids that the gateway made are removed.
    """
    body = wire.json
    changes = storing.apply_rules(call, body)
    resolved = await resolve_state(call, wire, body, changes)
    state = OpenAIForwardState(
        contract=choose_response_dialect(call, body) == "contract",
        stored=storing.is_stored(call, body),
        kept=resolved.make_kept_turn(call, body) if resolved.conversation or call.responses.copies else None,
    )
    return make_verbatim(wire, resolved.raw, resolved.body, state, IssuedObjects())


async def forward_compaction(call: Call, wire: WireRequest, body: Mapping[str, Any]) -> VerbatimRequest:
    """Return the request of the verbatim lane for a checked body of ``POST /v1/responses/compact``."""
    storing.check_previous_response(call, body)
    resolved = await resolve_state(call, wire, body, {})
    state = OpenAIForwardState(stored=storing.is_stored(call, body))
    request = make_verbatim(wire, resolved.raw, resolved.body, state, IssuedObjects())
    return replace(request, slow_start=True)


class ResolvedBody(Value, frozen=True):
    """A body in which everything is replaced that only the gateway can resolve: its JSON text and its value.

    `items` are the items of ``input``. `conversation` is the id of a conversation that the gateway keeps, and `last` the name of
    its last member. `turn` is the record of the previous response, if there is one.
    """

    raw: bytes
    body: Mapping[str, Any]
    items: store.ItemList
    conversation: str = ""
    last: str = ""
    turn: store.TurnRecord | None = None

    def make_kept_turn(self, call: Call, body: Mapping[str, Any]) -> KeptTurn | None:
        """Return what the gateway keeps of the turn; None for nothing. `body` is the caller's. Raises InvalidField."""
        if self.conversation and body.get("background") is True:
            message = "'background' is not supported in a conversation that the gateway keeps. Omit it."
            raise InvalidField("background", message, code="unsupported_parameter")
        copies = call.responses.copies and storing.is_stored(call, body) and self._can_be_copied(body)
        if not copies and not self.conversation:
            return None
        previous = body.get(store.PREVIOUS_RESPONSE_ID)
        return KeptTurn(
            items=tuple(self.items),
            conversation=self.conversation,
            last=self.last,
            copies=copies,
            previous=previous,
            earlier=store.list_earlier(previous, self.turn) if previous and self.turn else (),
        )

    def _can_be_copied(self, body: Mapping[str, Any]) -> bool:
        """Return whether another target could continue a copy: the whole conversation is known here, and the response is
        awaited.
        """
        if body.get("background") is True or (body.get("conversation") is not None and not self.conversation):
            return False
        if any(responses.get_item_type(item) == "item_reference" for item in self.items):
            return False
        return not body.get(store.PREVIOUS_RESPONSE_ID) or self.turn is not None


async def resolve_state(
    call: Call, wire: WireRequest, body: Mapping[str, Any], changes: dict[str, Any]
) -> ResolvedBody:
    """Resolve a checked body for the target of `call`. `changes` are further members to replace."""
    previous = body.get(store.PREVIOUS_RESPONSE_ID)
    earlier: store.ItemList = []
    conversation, last, turn = "", "", None
    if previous:
        turn = await store.find_turn(call, previous)
        if turn is not None and turn.get("kept_by") != call.target.provider:
            chain = await store.load_history(call, previous, turn)
            earlier = [item for item in chain.items if item.get("type") != "reasoning"]
            changes[store.PREVIOUS_RESPONSE_ID] = REMOVE
    elif body.get("conversation") is not None:
        stored_conversation = await conversation_store.find(call, conversation_store.get_id(body))
        if stored_conversation is not None:
            conversation_store.check_rules(call, "conversation")
            stored_conversation.check_space("conversation")
            conversation, last = stored_conversation.id, stored_conversation.last_name
            earlier = conversation_store.select_items(call, stored_conversation)
            changes["conversation"] = REMOVE
    items = responses.read_items(body.get("input") or ())
    known = await store.resolve_references(call, items, earlier, strict=False)
    sent = known
    if earlier:
        path = "conversation" if conversation else store.PREVIOUS_RESPONSE_ID
        earlier = await made_items.remove_made_ids(call, responses.restore_items(earlier, path), path=path)
        await _check_objects(call, earlier, path)
    if contains_any(wire.raw, (responses.MARK,)):
        sent = responses.restore_items(known)
    sent = await made_items.remove_made_ids(call, sent)
    if earlier or sent != items:
        changes["input"] = [*earlier, *sent]
        if not changes["input"]:
            raise empty_conversation_error("input")
    if not changes:
        return ResolvedBody(wire.raw, body, known, conversation, last, turn)
    merged = {name: value for name, value in {**body, **changes}.items() if value is not REMOVE}
    return ResolvedBody(patch_json(wire.raw, changes, body), merged, known, conversation, last, turn)


async def _check_objects(call: Call, earlier: store.ItemList, path: str) -> None:
    """Raise an error for the id of a file or another object in earlier items that the account may not use at this target.

    The core checks only ids in the request itself; the items may have been sent to another provider then. An id that the
    upstream of another provider entry has issued is an InvalidField, any other unknown id a NotFound. Files belong to the
    operator, and the gateway has no record of their upstreams. If the target shares files, the upstream itself looks up their
    ids.
    """
    references = list_object_references({path: earlier})
    if not references:
        return
    recorded = await call.memory.get_many({make_record_name(used.kind, used.id) for used in references})
    for reference in references:
        record = recorded.get(make_record_name(reference.kind, reference.id))
        if record is not None and record["provider"] != call.target.provider:
            raise InvalidField(
                path,
                f"The conversation of '{path}' contains the {reference.kind} '{reference.id[:100]}', which is kept by the "
                f"upstream of the model '{record['model']}'. Use that model, or send the content in 'input'.",
                code="object_kept_elsewhere",
            )
        if record is None and not call.target.shares(reference.kind):
            raise replace(reference, param=path).not_found()
