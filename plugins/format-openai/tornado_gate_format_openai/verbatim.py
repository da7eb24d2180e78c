"""What goes up on the verbatim lane, and what every adapter of it here shares.

The one change on the way up asks for usage in a stream; the chunk that reports it is taken out again when the caller did
not ask. The way down is `tornado_gate.passthrough`; what differs from route to route is an `OpenAIAdapter`.
"""

from __future__ import annotations

from typing import Any, Final

from tornado_gate import passthrough, patch_json
from tornado_gate.errors import GateError
from tornado_gate.types import Call, Verbatim, WireRequest
from tornado_gate.types.value import Value
from tornado_gate_format_openai.replies import error_frame


class ForwardState(Value, frozen=True):
    """What `forward_response` must know of the request. `hide_usage`: the usage chunk was our wish alone.

    `contract`: the answer is wanted in the contract's dialect.
    """

    hide_usage: bool = False
    contract: bool = False


AS_ASKED: Final = ForwardState()
_HIDING: Final = ForwardState(hide_usage=True)


class OpenAIAdapter(passthrough.StreamAdapter):
    """A stream that breaks off ends with an error frame; a whole answer to a stream becomes one."""

    streams_bodies = True

    def hides_usage(self, request: Verbatim) -> bool:
        return state_of(request).hide_usage

    def render_ending(self, call: Call, meter: Any, error: GateError | None) -> bytes:
        return b"" if error is None else error_frame(error)


def state_of(request: Verbatim) -> ForwardState:
    """The state of a request."""
    return request.state if isinstance(request.state, ForwardState) else AS_ASKED


def forward_metered(wire: WireRequest) -> Verbatim:
    """The request for a body that was checked, of a route whose streams tell usage only when asked."""
    raw, body = wire.raw, wire.json
    if body.get("stream") is not True:
        return forwarded(wire, raw, body, AS_ASKED)
    options = body.get("stream_options") or {}
    if options.get("include_usage") is True:
        return forwarded(wire, raw, body, AS_ASKED)
    options = {**options, "include_usage": True}
    raw = patch_json(raw, {"stream_options": options}, body)
    return forwarded(wire, raw, {**body, "stream_options": options}, _HIDING)


def forwarded(wire: WireRequest, raw: bytes, body: Any, state: ForwardState) -> Verbatim:
    """The request that goes up as `raw`."""
    route = wire.route
    return Verbatim(
        wire_format=route.wire_format,
        operation=route.operation,
        path=wire.path,
        raw=raw,
        body=body,
        stream=body.get("stream") is True,
        state=state,
    )
