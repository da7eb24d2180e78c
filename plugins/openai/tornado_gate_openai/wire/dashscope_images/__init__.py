"""Image wire format of Alibaba Model Studio (DashScope): ``input`` with messages, and ``parameters``. Pure.

The server half is `parse_request`, for a body that the format plugin has validated. The client half is for providers:
`render_request` for the APIs with messages, `render_task` for the older ones with a prompt, `parse_response` and `parse_task`
for their responses, `make_error` for errors.
"""

from tornado_gate_openai.wire.dashscope_images.errors import make_error
from tornado_gate_openai.wire.dashscope_images.request import WIRE_FORMAT, parse_request
from tornado_gate_openai.wire.dashscope_images.request_renderer import render_request, render_task
from tornado_gate_openai.wire.dashscope_images.response import (
    FailureReport,
    ImageLocation,
    ImageResponse,
    ImageTask,
    parse_response,
    parse_task,
)

__all__ = [
    "WIRE_FORMAT",
    "FailureReport",
    "ImageLocation",
    "ImageResponse",
    "ImageTask",
    "make_error",
    "parse_request",
    "parse_response",
    "parse_task",
    "render_request",
    "render_task",
]
