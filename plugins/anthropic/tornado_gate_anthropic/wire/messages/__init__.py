"""Anthropic Messages wire format: requests, responses, streams and errors, in both directions. Pure; no validation.

The server half (`parse_request`, `render_response`, `render_stream`, `MessagesStreamRenderer`) is for the format plugin.
The client half (`render_request`, `parse_response`, `parse_stream`) is for providers whose upstream uses this format.
`MessagesStreamMeter` and `note_body` read usage and finish reason from verbatim responses.
"""

from tornado_gate_anthropic.wire.messages.citations import FOREIGN_MARK, is_foreign_citation
from tornado_gate_anthropic.wire.messages.errors import (
    NO_THREADS,
    find_error,
    parse_error,
    render_error,
    threads_unsupported_error,
)
from tornado_gate_anthropic.wire.messages.ids import parse_id, render_id
from tornado_gate_anthropic.wire.messages.json_values import BETA_HEADER, WIRE_FORMAT
from tornado_gate_anthropic.wire.messages.meter import MessagesStreamMeter, note_body, note_container
from tornado_gate_anthropic.wire.messages.model_features import ModelFeatures
from tornado_gate_anthropic.wire.messages.request import choose_max_tokens, parse_request, render_request
from tornado_gate_anthropic.wire.messages.response import parse_response, render_response
from tornado_gate_anthropic.wire.messages.server_tools import is_foreign_block
from tornado_gate_anthropic.wire.messages.stream_parser import parse_stream
from tornado_gate_anthropic.wire.messages.stream_renderer import MessagesStreamRenderer, render_frame, render_stream
from tornado_gate_anthropic.wire.messages.thinking import BINDING_BETA, lacks_thinking
from tornado_gate_anthropic.wire.messages.usage import parse_stop_reason, parse_usage, render_stop_reason, render_usage

__all__ = [
    "BETA_HEADER",
    "BINDING_BETA",
    "FOREIGN_MARK",
    "NO_THREADS",
    "WIRE_FORMAT",
    "MessagesStreamMeter",
    "MessagesStreamRenderer",
    "ModelFeatures",
    "choose_max_tokens",
    "find_error",
    "is_foreign_block",
    "is_foreign_citation",
    "lacks_thinking",
    "note_body",
    "note_container",
    "parse_error",
    "parse_id",
    "parse_request",
    "parse_response",
    "parse_stop_reason",
    "parse_stream",
    "parse_usage",
    "render_error",
    "render_frame",
    "render_id",
    "render_request",
    "render_response",
    "render_stop_reason",
    "render_stream",
    "render_usage",
    "threads_unsupported_error",
]
