"""OpenAI's text completions: what is on the wire of the server half. Pure; checks nothing that a caller must be told.

The prompt is one message of the user's, so that any model that chats can complete. `prompt_of` says which bodies that is
possible for. The chunks and whole answers of an upstream have the shape of chat's where the meter looks, so that
`openai_chat.FrameMeter` and `openai_chat.note_body` read what passes verbatim.
"""

from tornado_gate.wire.openai_completions.request import WIRE_FORMAT, parse_request, read_prompt
from tornado_gate.wire.openai_completions.response import render_response
from tornado_gate.wire.openai_completions.stream_renderer import render_stream

__all__ = ["WIRE_FORMAT", "parse_request", "read_prompt", "render_response", "render_stream"]
