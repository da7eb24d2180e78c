"""The responses route on the common lane: body to request, stream events to a response or its stream, and the stored turn."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any, Final

from tornado_gate import sse
from tornado_gate.codec.checks import raise_invalid
from tornado_gate.codec.fields import format_choices
from tornado_gate.codec.large_json import encode_json, exceeds
from tornado_gate.errors import InvalidField
from tornado_gate.streams import stages
from tornado_gate.streams.events import close, collect, dump_result, join_frames, render_result
from tornado_gate.types import Call, ChatRequest, Reply, StreamEvent
from tornado_gate.types.value import Value, field, replace
from tornado_gate_openai.format import compaction, contract, dialect
from tornado_gate_openai.format.paths import KEEP_ALIVE
from tornado_gate_openai.format.replies import EVENT_STREAM_TYPE, JSON_TYPE
from tornado_gate_openai.format.response_fields import select_unsupported
from tornado_gate_openai.format.stored import conversation_store, history, store, storing
from tornado_gate_openai.wire.responses import (
    INCLUDE_ENCRYPTED,
    has_trigger,
    make_response_id,
    parse_request,
    render_response,
    render_stream,
    restore_items,
)

_STORED_END_EVENTS: Final = ("response.completed", "response.incomplete")


class ResponseState(Value, frozen=True, kw_only=True):
    """Response state: the response's `id`, the request body `asked`, the turn's new input `items`, and the `dialect`.

    `compacts`: the response is a compaction of the conversation, which the model summarises. `last` is the name of the last
    member of the conversation to which the turn is added. `earlier` are the ids of turns before it, newest first.
    """

    id: str = ""
    asked: Mapping[str, Any] = field(default_factory=dict)
    items: tuple[Mapping[str, Any], ...] = ()
    dialect: dialect.Dialect = "vendor"
    compacts: bool = False
    last: str = ""
    earlier: tuple[str, ...] = ()


def choose_response_dialect(call: Call, body: Mapping[str, Any]) -> dialect.Dialect:
    """Return the dialect of the response to a checked body."""
    return dialect.choose_dialect(call.headers, within_contract=contract.is_within(body), override=call.dialect)


def check_contract_values(call: Call, body: Mapping[str, Any]) -> None:
    """Raise InvalidField for an effort that the contract lacks, in a checked body of a caller of the contract.

    In the vendor's dialect efforts are not checked, because the vendor adds new ones.
    """
    effort = (body.get("reasoning") or {}).get("effort")
    if effort is None or effort in contract.EFFORTS or choose_response_dialect(call, body) == "vendor":
        return
    raise_invalid("reasoning.effort", f"must be one of {format_choices(contract.EFFORTS)}, not '{effort[:50]}'")


async def parse_response_request(call: Call, body: Mapping[str, Any]) -> ChatRequest:
    """Parse a checked body into the common request, preceded by the items of all earlier responses of its chain.

    Raises InvalidField for an unknown previous response, and NotFound for an unknown item. Both are looked up in the caller's
    account.
    """
    if body.get("background") is True:
        message = (
            "'background' is not supported by this model. Omit it, and set 'stream' to true to receive output early."
        )
        raise InvalidField("background", message, code="unsupported_parameter")
    body = {**body, **storing.apply_rules(call, body)}
    loaded = await history.load(call, body)
    compacts = has_trigger(loaded.items)
    if compacts:
        request = compaction.make_summary_request(body, loaded)
    else:
        turn_input = body["input"] if isinstance(body["input"], str) else restore_items(loaded.items)
        request = parse_request({**body, "input": turn_input}, restore_items(loaded.earlier, loaded.path))
    state = ResponseState(
        id=make_response_id(),
        asked=body,
        items=tuple(loaded.items),
        dialect=choose_response_dialect(call, body),
        compacts=compacts,
        last=loaded.last,
        earlier=loaded.chain,
    )
    return replace(request, extra=select_unsupported(request.extra), reply_state=state)


def make_response_reply(
    call: Call, request: ChatRequest, state: ResponseState, events: AsyncIterator[StreamEvent]
) -> Reply:
    """Return the response. Its `model` is the name that the caller sent."""
    envelope: dict[str, Any] = {
        "id": state.id,
        "model": call.model or request.model,
        "created": int(time.time()),
        "asked": state.asked,
    }
    if state.compacts:
        events = compaction.summarize(events, state.id)
    if request.stream:
        chunks = stages.add_step(render_stream(events, **envelope), _RenderFramesStep(call, state))
        return Reply(content_type=EVENT_STREAM_TYPE, chunks=chunks, keep_alive=KEEP_ALIVE)
    return Reply(content_type=JSON_TYPE, chunks=_render_whole(call, state, events, envelope))


async def _render_whole(
    call: Call, state: ResponseState, events: AsyncIterator[StreamEvent], envelope: dict[str, Any]
) -> AsyncIterator[bytes]:
    try:
        result = await collect(events)
    finally:
        await close(events)
    body = render_response(result, **envelope)
    await _store_turn(call, state, body)
    shown = _hide_encrypted(body, state.asked)
    if state.dialect == "contract":
        shown = contract.render_response(shown)
    yield await render_result(result, lambda result: dump_result(result, shown))


class _RenderFramesStep(stages.Step[dict[str, Any], bytes]):
    """The renderer of events as frames.

    The turn is stored before its last event is sent, so that it can be continued immediately.

    The last events repeat the whole output, so their size is checked from LARGE_BYTES on.
    """

    __slots__ = ("_call", "_kept", "_size", "_state")

    takes_large = True

    def __init__(self, call: Call, state: ResponseState) -> None:
        self._call = call
        self._state = state
        self._kept = False
        self._size = 0

    def take(self, items: list[dict[str, Any]], out: list[bytes]) -> stages.Pause | stages.Large | None:
        frames: list[bytes] = []
        pause: stages.Pause | stages.Large | None = None
        for index, event in enumerate(items):
            if event["type"] in _STORED_END_EVENTS and not self._kept:
                self._kept = True
                pause = stages.Pause(items[index:], partial(_store_turn, self._call, self._state, event["response"]))
                break
            is_long = self._size > stages.LARGE_BYTES or len(event.get("delta", "")) > stages.LARGE_BYTES
            if is_long and exceeds(event, stages.LARGE_BYTES):
                pause = stages.Large(items[index + 1 :], partial(self._render_large, event))
                break
            frames.append(render_event_frame(_hide_encrypted(event, self._state.asked)))
        if frames:
            self._size += sum(map(len, frames))
            out += join_frames(frames)
        return pause

    def _render_large(self, event: dict[str, Any], out: list[bytes]) -> None:
        """Render a large response; runs in a thread."""
        shown = _hide_encrypted(event, self._state.asked)
        out.append(sse.render(encode_json(shown), str(event["type"])))
        self._size += len(out[-1])


def render_event_frame(event: Mapping[str, Any]) -> bytes:
    """Return one event as a frame. As at the vendor, the frame's ``event:`` is the event's type."""
    return sse.render_json(event, str(event["type"]))


async def _store_turn(call: Call, state: ResponseState, body: Mapping[str, Any]) -> None:
    if body["status"] == "failed":
        return
    if state.last:
        conversation_id = conversation_store.get_id(state.asked)
        await conversation_store.add_turn(call, conversation_id, state.items, body["output"], provider="", stored=False)
    if state.asked.get("store") is not False:
        previous = state.asked.get("previous_response_id")
        await store.save_turn(call, previous, state.items, body, earlier=state.earlier, last=state.last)


def _hide_encrypted(value: dict[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a response or an event without encrypted reasoning, unless the request's ``include`` has it."""
    if INCLUDE_ENCRYPTED in (body.get("include") or ()):
        return value
    if isinstance(response := value.get("response"), dict):
        return {**value, "response": _hide_encrypted(response, body)}
    if "output" in value:
        return {**value, "output": [drop_encrypted(item) for item in value["output"]]}
    return {**value, "item": drop_encrypted(value["item"])} if "item" in value else value


def drop_encrypted(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return an item without encrypted reasoning. The encrypted content of other items, such as compactions, is all they have."""
    if item.get("type") != "reasoning":
        return dict(item)
    return {name: member for name, member in item.items() if name != "encrypted_content"}
