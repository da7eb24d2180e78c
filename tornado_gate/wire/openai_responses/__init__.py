"""OpenAI's responses: what is on the wire, both ways. Pure; checks nothing that a caller must be told.

The server half (`parse_request`, `render_response`, `render_events`) is for the format plugin, the client half
(`render_request`, `parse_response`, `parse_events`) for providers that speak this format. `EventMeter` and `note_body`
read what passes verbatim.
"""

from tornado_gate.wire.openai_responses.errors import failure_of
from tornado_gate.wire.openai_responses.message_parser import items_of, kind_of
from tornado_gate.wire.openai_responses.meter import EventMeter, note_body
from tornado_gate.wire.openai_responses.output_items import new_response_id, response_of_item
from tornado_gate.wire.openai_responses.parts import WIRE_FORMAT
from tornado_gate.wire.openai_responses.request import ENCRYPTED, LOGPROBS, parse_request, render_request
from tornado_gate.wire.openai_responses.response import parse_response, render_response
from tornado_gate.wire.openai_responses.stream_parser import parse_events
from tornado_gate.wire.openai_responses.stream_renderer import render_events
from tornado_gate.wire.openai_responses.usage import parse_usage, render_usage

__all__ = [
    "ENCRYPTED",
    "LOGPROBS",
    "WIRE_FORMAT",
    "EventMeter",
    "failure_of",
    "items_of",
    "kind_of",
    "new_response_id",
    "note_body",
    "parse_events",
    "parse_request",
    "parse_response",
    "parse_usage",
    "render_events",
    "render_request",
    "render_response",
    "render_usage",
    "response_of_item",
]
