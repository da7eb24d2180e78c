"""What goes up on the verbatim lane, and what every adapter of it here shares.

The one change on the way up asks for usage in a stream; the chunk that reports it is taken out again when the caller did
not ask. The way down is `tornado_gate.passthrough`; what differs from route to route is an `OpenAIAdapter`.
"""

from __future__ import annotations

from typing import Any, Final

from tornado_gate import passthrough, patch_json
from tornado_gate.errors import GateError
from tornado_gate.types import Call, VerbatimRequest, WireRequest
from tornado_gate.types.value import Value
from tornado_gate_format_openai.replies import render_error_frame


class OpenAIForwardState(Value, frozen=True):
    """What `forward_response` must know of the request. `hide_usage`: the usage chunk was our wish alone.

    `contract`: the answer is wanted in the contract's dialect.
    """

    hide_usage: bool = False
    contract: bool = False


DEFAULT_STATE: Final = OpenAIForwardState()
_HIDE_USAGE_STATE: Final = OpenAIForwardState(hide_usage=True)


class OpenAIAdapter(passthrough.StreamAdapter):
    """A stream that breaks off ends with an error frame; a whole answer to a stream becomes one."""

    streams_bodies = True

    def hides_usage(self, request: VerbatimRequest) -> bool:
        return get_state(request).hide_usage

    def render_ending(self, call: Call, meter: Any, error: GateError | None) -> bytes:
        return b"" if error is None else render_error_frame(error)


def get_state(request: VerbatimRequest) -> OpenAIForwardState:
    """The state of a request."""
    return request.state if isinstance(request.state, OpenAIForwardState) else DEFAULT_STATE


def forward_metered(wire: WireRequest) -> VerbatimRequest:
    """The request for a body that was checked, of a route whose streams tell usage only when asked."""
    raw, body = wire.raw, wire.json
    if body.get("stream") is not True:
        return make_verbatim(wire, raw, body, DEFAULT_STATE)
    options = body.get("stream_options") or {}
    if options.get("include_usage") is True:
        return make_verbatim(wire, raw, body, DEFAULT_STATE)
    options = {**options, "include_usage": True}
    raw = patch_json(raw, {"stream_options": options}, body)
    return make_verbatim(wire, raw, {**body, "stream_options": options}, _HIDE_USAGE_STATE)


def make_verbatim(wire: WireRequest, raw: bytes, body: Any, state: OpenAIForwardState) -> VerbatimRequest:
    """The request that goes up as `raw`."""
    route = wire.route
    return VerbatimRequest(
        wire_format=route.wire_format,
        operation=route.operation,
        path=wire.path,
        raw=raw,
        body=body,
        stream=body.get("stream") is True,
        state=state,
    )
