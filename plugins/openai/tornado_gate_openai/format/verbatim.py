"""Requests of the verbatim lane, and the base class of this format's passthrough adapters.

The only change to a request adds ``stream_options.include_usage`` to a stream; the usage chunk is removed from the response
when the caller did not request it. `tornado_gate.passthrough` forwards the response with the `OpenAIAdapter` of the route.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate import passthrough, patch_json
from tornado_gate.codec.json_edit import append_member
from tornado_gate.errors import GateError
from tornado_gate.types import Call, IssuedObjects, VerbatimRequest, WireRequest
from tornado_gate.types.value import Value
from tornado_gate_openai.format.replies import render_error_frame


class KeptTurn(Value, frozen=True, kw_only=True):
    """A turn of the verbatim lane. The gateway keeps its input `items` and its output.

    They are added to the conversation with the id `conversation`, if there is one. `copies`: the response is copied, with the id
    of the turn before it in `previous` and those of more turns in `earlier`; `last` is the name of the last member of the
    conversation before the turn.
    """

    items: tuple[Mapping[str, Any], ...]
    conversation: str = ""
    last: str = ""
    copies: bool = False
    previous: str | None = None
    earlier: tuple[str, ...] = ()


class OpenAIForwardState(Value, frozen=True):
    """State for `forward_response`. `hide_usage`: only the gateway requested the usage chunk.

    `contract`: the response is in the contract's dialect. `stored`: the upstream stores the response, unless the response has
    another ``store``. `kept`: the part of the turn that the gateway keeps too.
    """

    hide_usage: bool = False
    contract: bool = False
    stored: bool = False
    kept: KeptTurn | None = None


DEFAULT_STATE: Final = OpenAIForwardState()
_NO_OPTIONS: Final[Mapping[str, Any]] = {}
_STREAM_OPTIONS: Final = b'"stream_options"'
_INCLUDE_USAGE: Final = b'{"include_usage":true}'
_HIDE_USAGE_STATE: Final = OpenAIForwardState(hide_usage=True)


class OpenAIAdapter(passthrough.StreamAdapter):
    """A failed stream ends with an error frame. A JSON body in response to a stream request is converted to a stream."""

    streams_bodies = True

    def hides_usage(self, request: VerbatimRequest) -> bool:
        return get_state(request).hide_usage

    def render_ending(self, call: Call, meter: Any, error: GateError | None) -> bytes:
        return b"" if error is None else render_error_frame(error)


def get_state(request: VerbatimRequest) -> OpenAIForwardState:
    """Return the state of a request; the default state when another plugin made the request."""
    return request.state if isinstance(request.state, OpenAIForwardState) else DEFAULT_STATE


def forward_metered(
    wire: WireRequest, changes: Mapping[str, Any], issued: IssuedObjects | None = None
) -> VerbatimRequest:
    """Return the request for a checked body of a route whose streams report usage only when requested; a stream requests it.

    `changes` are top-level members to replace; `issued` is for a response with ids of objects that the upstream keeps.
    """
    raw, body, state = wire.raw, wire.json, DEFAULT_STATE
    if changes:
        raw, body = patch_json(raw, changes, body), {**body, **changes}
    streams = body.get("stream") is True
    if streams and (options := body.get("stream_options") or _NO_OPTIONS).get("include_usage") is not True:
        options = {**options, "include_usage": True}
        sent = None if "stream_options" in body else append_member(raw, _STREAM_OPTIONS, _INCLUDE_USAGE)
        raw = patch_json(raw, {"stream_options": options}, body) if sent is None else sent
        body = {**body, "stream_options": options}
        state = _HIDE_USAGE_STATE
    route = wire.route
    return VerbatimRequest(  # the same as `make_verbatim`, without the cost of a call for each chat
        wire_format=route.wire_format,
        operation=route.operation,
        path=wire.path,
        raw=raw,
        body=body,
        stream=streams,
        state=state,
        issued=issued,
    )


def make_verbatim(
    wire: WireRequest, raw: bytes, body: Any, state: OpenAIForwardState, issued: IssuedObjects | None = None
) -> VerbatimRequest:
    """Return the request of the verbatim lane, which is sent as `raw`."""
    route = wire.route
    return VerbatimRequest(
        wire_format=route.wire_format,
        operation=route.operation,
        path=wire.path,
        raw=raw,
        body=body,
        stream=body.get("stream") is True,
        state=state,
        issued=issued,
    )
