"""OpenAI's responses API: parsing and rendering. No I/O; validation is the format plugin's task.

The server half (`parse_request`, `render_response`, `render_stream`) is for the format plugin; the client half
(`render_request`, `parse_response`, `parse_stream`) is for providers with this format. `ResponsesStreamMeter` and `note_body`
read usage and finish reason of responses that are forwarded verbatim.
"""

from tornado_gate_openai.wire.responses.compaction import (
    MARK,
    CompactionStep,
    has_trigger,
    is_own_compaction,
    make_text_message,
    render_transcript,
    restore_items,
    select_user_messages,
)
from tornado_gate_openai.wire.responses.errors import find_error
from tornado_gate_openai.wire.responses.message_parser import get_item_type, read_items
from tornado_gate_openai.wire.responses.meter import ResponsesStreamMeter, is_unfinished, note_body, note_issued
from tornado_gate_openai.wire.responses.output_items import get_response_id, make_response_id
from tornado_gate_openai.wire.responses.parts import WIRE_FORMAT
from tornado_gate_openai.wire.responses.request import (
    INCLUDE_ENCRYPTED,
    INCLUDE_LOGPROBS,
    parse_request,
    render_request,
)
from tornado_gate_openai.wire.responses.response import parse_response, render_response
from tornado_gate_openai.wire.responses.stored_items import has_made_id, is_made_here, is_self_contained
from tornado_gate_openai.wire.responses.stream_parser import parse_stream
from tornado_gate_openai.wire.responses.stream_renderer import render_stream
from tornado_gate_openai.wire.responses.usage import parse_usage, render_usage

__all__ = [
    "INCLUDE_ENCRYPTED",
    "INCLUDE_LOGPROBS",
    "MARK",
    "WIRE_FORMAT",
    "CompactionStep",
    "ResponsesStreamMeter",
    "find_error",
    "get_item_type",
    "get_response_id",
    "has_made_id",
    "has_trigger",
    "is_made_here",
    "is_own_compaction",
    "is_self_contained",
    "is_unfinished",
    "make_response_id",
    "make_text_message",
    "note_body",
    "note_issued",
    "parse_request",
    "parse_response",
    "parse_stream",
    "parse_usage",
    "read_items",
    "render_request",
    "render_response",
    "render_stream",
    "render_transcript",
    "render_usage",
    "restore_items",
    "select_user_messages",
]
