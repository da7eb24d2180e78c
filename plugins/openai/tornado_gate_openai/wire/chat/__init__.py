"""OpenAI's chat completions API: parsing and rendering. No I/O; validation is the format plugin's task.

The server half (`parse_request`, `render_response`, `render_stream`) is for the format plugin; the client half
(`render_request`, `parse_response`, `parse_stream`) is for providers with this format. `ChatStreamMeter` and `note_body`
read usage and finish reason of responses that are forwarded verbatim.
"""

from tornado_gate_openai.wire.chat.errors import find_error, parse_error
from tornado_gate_openai.wire.chat.legacy_functions import is_legacy, mark_legacy_call
from tornado_gate_openai.wire.chat.meter import (
    AudioStreamMeter,
    ChatStreamMeter,
    ImageStreamMeter,
    note_audio,
    note_body,
)
from tornado_gate_openai.wire.chat.parts import WIRE_FORMAT
from tornado_gate_openai.wire.chat.request import FIELD_OF_MEMBER, parse_request, render_request
from tornado_gate_openai.wire.chat.response import parse_response, render_response
from tornado_gate_openai.wire.chat.stream_parser import parse_stream
from tornado_gate_openai.wire.chat.stream_renderer import ChatStreamRenderer, render_stream
from tornado_gate_openai.wire.chat.usage import parse_finish_reason, parse_usage, render_finish_reason, render_usage

__all__ = [
    "FIELD_OF_MEMBER",
    "WIRE_FORMAT",
    "AudioStreamMeter",
    "ChatStreamMeter",
    "ChatStreamRenderer",
    "ImageStreamMeter",
    "find_error",
    "is_legacy",
    "mark_legacy_call",
    "note_audio",
    "note_body",
    "parse_error",
    "parse_finish_reason",
    "parse_request",
    "parse_response",
    "parse_stream",
    "parse_usage",
    "render_finish_reason",
    "render_request",
    "render_response",
    "render_stream",
    "render_usage",
]
