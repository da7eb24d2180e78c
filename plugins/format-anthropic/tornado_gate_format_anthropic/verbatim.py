"""What the frames and bodies of this format mean on the verbatim lane, which is `tornado_gate.passthrough`."""

from __future__ import annotations

from typing import Any, Final

from tornado_gate import passthrough, sse
from tornado_gate.errors import GateError
from tornado_gate.types import Call, Verbatim
from tornado_gate.wire.anthropic_messages import FrameMeter, error_of, note_body
from tornado_gate_format_anthropic.replies import KEEP_ALIVE, error_frame

STOP: Final = sse.render_json({"type": "message_stop"}, "message_stop")


class MessagesAdapter(passthrough.StreamAdapter):
    """Streams end with ``message_stop``. Events of types that are unknown here pass."""

    keep_alive = KEEP_ALIVE

    def meter(self, call: Call, request: Verbatim) -> passthrough.StreamMeter:
        return FrameMeter(call.meter)

    def is_quiet(self, frames: bytes) -> bool:
        return frames.rfind(b'"message_') < 0 and frames.rfind(b'"error"') < 0  # twice as quick as from the left

    def parse_error(self, body: Any) -> GateError | None:
        return error_of(body)

    def render_ending(self, call: Call, meter: Any, error: GateError | None) -> bytes:
        return STOP if error is None else error_frame(error, call.id)

    def read_body(self, call: Call, request: Verbatim, raw: bytes, body: Any) -> bytes:
        note_body(call.meter, body)
        return raw


ADAPTER: Final = MessagesAdapter()
