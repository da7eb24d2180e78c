"""The Interactions API: ``POST /v1beta/interactions``, and reading, cancelling and deleting an interaction by its id.

Only upstreams that have this API serve it: requests and responses are forwarded unchanged except for the model's name. The
upstream keeps the interactions; the core lets an account use only interactions that it received from the gateway.

Source: google-genai 3.4, _gaos/interactions.py and _gaos/types/interactions/createmodelinteraction.py; read 2026-11-22.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import orjson

from tornado_gate import passthrough, patch_json, sse
from tornado_gate.codec.value_limits import check_for_upstream
from tornado_gate.errors import GateError, InvalidField, UnsupportedOperation
from tornado_gate.types import (
    Call,
    IssuedObjects,
    Meter,
    ObjectReference,
    Reply,
    StoredObjectRequest,
    UpstreamResponse,
    VerbatimRequest,
    WireRequest,
)
from tornado_gate.types.value import Value
from tornado_gate_gemini.fields import check_interaction
from tornado_gate_gemini.format.paths import CANCEL_ACTION, INTERACTION_PATH
from tornado_gate_gemini.wire import interactions as wire_format

_FORWARDED_PARAMETERS: Final = ("stream", "last_event_id", "include_input", "alt")


class InteractionState(Value, frozen=True):
    """State for `forward_response`: whether the upstream stores the interaction, and whether it goes on in the background."""

    stored: bool = False
    background: bool = False


def forward_interaction(call: Call, wire: WireRequest) -> VerbatimRequest:
    """Return the request of the verbatim lane. Raises InvalidField for a wrong type, an agent, and what conf does not allow."""
    body = wire.json
    check_for_upstream(check_interaction, body)
    if body.get("agent") is not None:
        raise InvalidField("agent", "'agent' is not supported: keys are permitted to use models. Send only 'model'.")
    changes = _apply_storing_rules(call, body)
    background = body.get("background") is True
    return VerbatimRequest(
        wire_format=wire.route.wire_format,
        operation=wire.route.operation,
        path=f"{wire.path}?alt=sse" if wire.query.get("alt") == "sse" else wire.path,
        raw=patch_json(wire.raw, changes, body) if changes else wire.raw,
        body={**body, **changes},
        stream=body.get("stream") is True,
        state=InteractionState(_is_stored(call, body), background),
        issued=IssuedObjects(),
    )


def _is_stored(call: Call, body: Mapping[str, Any]) -> bool:
    """Return whether conf's rules let the upstream store the interaction; the vendor stores by default."""
    if call.responses.store == "never":
        return False
    return body.get("store") is True if call.responses.store == "ask" else body.get("store") is not False


def _apply_storing_rules(call: Call, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members that ``responses: {store}`` of conf changes. A ``store: true`` that it overrules is reported."""
    if _is_stored(call, body) or body.get("store") is False:
        return {}
    if body.get("background") is True:
        message = (
            f"'background' needs a stored interaction, but conf has 'responses: {{store: {call.responses.store}}}'."
        )
        raise InvalidField("background", message, code="unsupported_parameter")
    if body.get("store") is True:
        call.drop_field("store")
    return {"store": False}


def refuse_translation(call: Call) -> UnsupportedOperation:
    """Return the error for a model whose provider does not have this API."""
    return UnsupportedOperation(
        f"The provider of the model '{call.model}' has no Interactions API. Use :generateContent, or a model of a provider that "
        "has it."
    )


def make_stored_request(wire: WireRequest) -> StoredObjectRequest:
    """Return the request about one interaction, for the upstream that keeps it."""
    reference = ObjectReference(kind="interaction", id=wire.path_arguments["interaction_id"], param="id")
    stream = wire.route.method == "GET" and wire.query.get("stream") == "true"
    return StoredObjectRequest(
        reference=reference,
        wire_format=wire_format.WIRE_FORMAT,
        method=wire.route.method,
        action="" if wire.route.path.endswith(INTERACTION_PATH) else CANCEL_ACTION,
        query=tuple((name, wire.query[name]) for name in _FORWARDED_PARAMETERS if name in wire.query),
        stream=stream,
        issued=IssuedObjects(),
    )


def forward_answer(call: Call, request: VerbatimRequest | StoredObjectRequest, incoming: UpstreamResponse) -> Reply:
    """Return the upstream's response unchanged."""
    adapter = _STORED_ADAPTER if isinstance(request, StoredObjectRequest) else _ADAPTER
    return passthrough.forward_answer(
        call, adapter, cast("VerbatimRequest", request), incoming
    )  # it reads `stream` only


class InteractionAdapter(passthrough.StreamAdapter):
    """The adapter of a new interaction, which it forwards."""

    def meter(self, call: Call, request: Any) -> passthrough.StreamMeter:
        state = cast(InteractionState, request.state)
        return wire_format.InteractionsStreamMeter(
            call.meter, request.issued, stored=state.stored, background=state.background
        )

    def is_quiet(self, frames: bytes) -> bool:
        return wire_format.is_quiet(frames)

    def parse_error(self, body: Any) -> GateError | None:
        return wire_format.parse_error(body)

    def render_ending(self, call: Call, meter: Any, error: GateError | None) -> bytes:
        if error is None:
            return b""
        return sse.render(orjson.dumps(wire_format.render_error_event(error)), "error")

    def read_body(self, call: Call, request: Any, raw: bytes, body: Any) -> bytes:
        wire_format.note_body(call.meter, body)
        state = cast(InteractionState, request.state)
        wire_format.note_issued(request.issued, body, stored=state.stored, background=state.background)
        return raw


class _StoredAdapter(InteractionAdapter):
    """The adapter of an interaction in every status, which it forwards.

    Usage is counted if it was not known when the interaction was created.
    """

    def meter(self, call: Call, request: Any) -> passthrough.StreamMeter:
        if request.unmetered:
            return wire_format.InteractionsStreamMeter(call.meter, request.issued, stored=True, background=True)
        return wire_format.InteractionsStreamMeter(Meter())

    def read_body(self, call: Call, request: Any, raw: bytes, body: Any) -> bytes:
        is_interaction = isinstance(body, Mapping) and body.get("id") == request.reference.id
        if request.unmetered and is_interaction and not wire_format.is_unfinished(body):
            wire_format.note_interaction(call.meter, body)
            wire_format.note_issued(request.issued, body, stored=True, background=True)
        return raw


_ADAPTER: Final = InteractionAdapter()
_STORED_ADAPTER: Final = _StoredAdapter()
