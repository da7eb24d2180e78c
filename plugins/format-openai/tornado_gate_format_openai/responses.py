"""The responses route on the common lane: body to request, events to a response or to its stream, and what is kept of it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any, Final

import orjson

from tornado_gate import sse
from tornado_gate.errors import InvalidField
from tornado_gate.streams import stages
from tornado_gate.streams.events import close, collect
from tornado_gate.types import Call, ChatRequest, Reply, StreamEvent
from tornado_gate.types.value import Value, field, replace
from tornado_gate.wire.openai_responses import (
    ENCRYPTED,
    items_of,
    new_response_id,
    parse_request,
    render_events,
    render_response,
)
from tornado_gate_format_openai import contract, dialect, store
from tornado_gate_format_openai.replies import EVENTS, JSON, KEEP_ALIVE

_KEPT_ENDS: Final = ("response.completed", "response.incomplete")
_SAYS_NOTHING: Final[Mapping[str, tuple[Any, ...]]] = {
    "background": (False,),
    "service_tier": ("auto", "default"),
    "stream_options": ({"include_obfuscation": False}, {}),
    "truncation": ("disabled",),
}
"""Values that ask for what happens anyway."""


class ResponseState(Value, frozen=True, kw_only=True):
    """What the answer needs to know: `id` of the response, the body `asked`, and the `items` that are new."""

    id: str = ""
    asked: Mapping[str, Any] = field(default_factory=dict)
    items: tuple[Mapping[str, Any], ...] = ()
    dialect: dialect.Dialect = "vendor"


def dialect_of(call: Call, body: Mapping[str, Any]) -> dialect.Dialect:
    """The dialect of the answer to a body that was checked."""
    return dialect.choose(call.headers, within_contract=contract.is_within(body), override=call.dialect)


async def parse_response_request(call: Call, body: Mapping[str, Any]) -> ChatRequest:
    """The request in a body that was checked, with all that was said in the chain of responses before it.

    Raises NotFound for a response or an item that this account does not have.
    """
    if body.get("conversation") is not None:
        message = "'conversation' is not kept here; 'previous_response_id' continues a conversation."
        raise InvalidField("conversation", message, code="unsupported_parameter")
    previous = body.get("previous_response_id")
    earlier = await store.history(call, previous) if previous else []
    items = await store.dereferenced(call, items_of(body["input"]), earlier, strict=True)
    said = body["input"] if isinstance(body["input"], str) else items
    request = parse_request({**body, "input": said}, earlier)
    state = ResponseState(id=new_response_id(), asked=body, items=tuple(items), dialect=dialect_of(call, body))
    return replace(request, extra=_not_honoured(request.extra), reply_state=state)


def _not_honoured(extra: Mapping[str, Any]) -> dict[str, Any]:
    """What of `extra` is left for the upstream: the gateway itself keeps the turn and gives the encrypted reasoning."""
    left = {
        name: value
        for name, value in extra.items()
        if name not in ("store", "previous_response_id", "conversation")
        and value is not None
        and value not in _SAYS_NOTHING.get(name, ())
    }
    include = [name for name in left.pop("include", ()) if name != ENCRYPTED]
    return left | ({"include": include} if include else {})


def response_reply(call: Call, request: ChatRequest, state: ResponseState, events: AsyncIterator[StreamEvent]) -> Reply:
    """The reply, under the name of the model that the caller asked for."""
    envelope: dict[str, Any] = {
        "id": state.id,
        "model": call.model or request.model,
        "created": int(time.time()),
        "asked": state.asked,
    }
    if request.stream:
        chunks = stages.then(render_events(events, **envelope), _Frames(call, state))
        return Reply(content_type=EVENTS, chunks=chunks, keep_alive=KEEP_ALIVE)
    return Reply(content_type=JSON, chunks=_whole(call, state, events, envelope))


async def _whole(
    call: Call, state: ResponseState, events: AsyncIterator[StreamEvent], envelope: dict[str, Any]
) -> AsyncIterator[bytes]:
    try:
        result = await collect(events)
    finally:
        await close(events)
    body = render_response(result, **envelope)
    await _keep(call, state, body)
    shown = _shown(body, state.asked)
    yield orjson.dumps(contract.render(shown) if state.dialect == "contract" else shown)


class _Frames(stages.Step[dict[str, Any], bytes]):
    """Each event is a frame; the turn is kept before the last of them goes out, so that it can be continued at once."""

    __slots__ = ("_call", "_kept", "_state")

    def __init__(self, call: Call, state: ResponseState) -> None:
        self._call = call
        self._state = state
        self._kept = False

    def take(self, items: list[dict[str, Any]], out: list[bytes]) -> stages.Pause | None:
        frames: list[bytes] = []
        pause: stages.Pause | None = None
        for place, event in enumerate(items):
            if event["type"] in _KEPT_ENDS and not self._kept:
                self._kept = True
                pause = stages.Pause(items[place:], partial(_keep, self._call, self._state, event["response"]))
                break
            frames.append(event_frame(_shown(event, self._state.asked)))
        if frames:
            out.append(b"".join(frames))
        return pause


def event_frame(event: Mapping[str, Any]) -> bytes:
    """One event as the vendor sends it: its type stands in the name of the frame too."""
    return sse.render_json(event, str(event["type"]))


async def _keep(call: Call, state: ResponseState, body: Mapping[str, Any]) -> None:
    if state.asked.get("store") is not False and body["status"] != "failed":
        await store.save(call, state.asked.get("previous_response_id"), state.items, body)


def _shown(value: dict[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """A response, or an event, without the encrypted reasoning that nobody asked to see."""
    if ENCRYPTED in (asked.get("include") or ()):
        return value
    if isinstance(response := value.get("response"), dict):
        return {**value, "response": _shown(response, asked)}
    if "output" in value:
        return {**value, "output": [without_encrypted(item) for item in value["output"]]}
    return {**value, "item": without_encrypted(value["item"])} if "item" in value else value


def without_encrypted(item: Mapping[str, Any]) -> dict[str, Any]:
    """An item without its encrypted content."""
    return {name: member for name, member in item.items() if name != "encrypted_content"}
