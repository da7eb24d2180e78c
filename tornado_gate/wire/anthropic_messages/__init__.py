"""Anthropic's messages: what is on the wire, both ways. Pure; checks nothing that a caller must be told.

The server half (`parse_request`, `render_response`, `render_stream` or its `StreamWriter`) is for the format plugin, the
client half (`render_request`, `parse_response`, `parse_stream`) for providers that speak this format. `FrameMeter` and
`note_body` read what passes verbatim.
"""

from tornado_gate.wire.anthropic_messages.errors import NO_THREADS, error_of, no_threads, parse_error, render_error
from tornado_gate.wire.anthropic_messages.ids import parse_id, render_id
from tornado_gate.wire.anthropic_messages.json_values import WIRE_FORMAT
from tornado_gate.wire.anthropic_messages.meter import FrameMeter, frame_json, note_body
from tornado_gate.wire.anthropic_messages.model_features import Abilities, abilities_of
from tornado_gate.wire.anthropic_messages.request import (
    DEFAULT_MAX_TOKENS,
    max_tokens_for,
    parse_request,
    render_request,
)
from tornado_gate.wire.anthropic_messages.response import parse_response, render_response
from tornado_gate.wire.anthropic_messages.stream_parser import parse_stream
from tornado_gate.wire.anthropic_messages.stream_renderer import StreamWriter, as_frame, render_stream
from tornado_gate.wire.anthropic_messages.usage import (
    parse_stop_reason,
    parse_usage,
    render_stop_reason,
    render_usage,
)

__all__ = [
    "DEFAULT_MAX_TOKENS",
    "NO_THREADS",
    "WIRE_FORMAT",
    "Abilities",
    "FrameMeter",
    "StreamWriter",
    "abilities_of",
    "as_frame",
    "error_of",
    "frame_json",
    "max_tokens_for",
    "no_threads",
    "note_body",
    "parse_error",
    "parse_id",
    "parse_request",
    "parse_response",
    "parse_stop_reason",
    "parse_stream",
    "parse_usage",
    "render_error",
    "render_id",
    "render_request",
    "render_response",
    "render_stop_reason",
    "render_stream",
    "render_usage",
]
