"""OpenAI's text completions API: parsing and rendering, server half only. No I/O; validation is the format plugin's task.

The prompt becomes one user message, so that any chat model can complete it; `read_prompt` raises for prompts that cannot.
Usage and finish reasons have the same members as in chat, so `openai_chat.ChatStreamMeter` and `openai_chat.note_body` read
responses that are forwarded verbatim.
"""

from tornado_gate_openai.wire.completions.request import WIRE_FORMAT, parse_request, read_prompt
from tornado_gate_openai.wire.completions.response import render_response
from tornado_gate_openai.wire.completions.stream_renderer import render_stream

__all__ = ["WIRE_FORMAT", "parse_request", "read_prompt", "render_response", "render_stream"]
