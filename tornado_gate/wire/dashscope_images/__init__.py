"""Pictures in the shape of Alibaba's Model Studio (DashScope): ``input`` with messages, and ``parameters``. Pure.

The server half is `parse_request`, for a body that a format has checked. The client half is for a provider: `render_request`
for the APIs that take messages, `render_task` for the older ones that take a prompt, `parse_response` and `parse_task` for
what they answer, `failure` for what went wrong.
"""

from tornado_gate.wire.dashscope_images.errors import make_error
from tornado_gate.wire.dashscope_images.request import WIRE_FORMAT, parse_request
from tornado_gate.wire.dashscope_images.request_renderer import render_request, render_task
from tornado_gate.wire.dashscope_images.response import (
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
