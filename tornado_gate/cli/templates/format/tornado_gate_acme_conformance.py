"""The contract of formats for acme: pytest and `tornado-gate plugins check acme` use it.

Add a class for each body that your callers send, with the request and the reply that it becomes.
"""

from typing import Any, ClassVar

import tornado_gate_acme
from tornado_gate.testing import FormatContract
from tornado_gate.types import (
    ChatRequest,
    Finish,
    Message,
    PartDelta,
    PartEnd,
    PartStart,
    ResponseStart,
    Text,
    Usage,
    UsageReport,
    replace,
)

REQUEST = ChatRequest(
    model="m", messages=(Message(role="user", parts=(Text(text="Hello"),)),), names=tornado_gate_acme.NAMES
)
EVENTS = (
    ResponseStart(model="m"),
    PartStart(index=0, kind="text"),
    PartDelta(index=0, data="Hi"),
    PartEnd(index=0),
    UsageReport(usage=Usage(input_tokens=1, output_tokens=1)),
    Finish(reason="stop"),
)


class TestWholeAnswer(FormatContract):
    plugin: ClassVar[Any] = tornado_gate_acme
    body: ClassVar[Any] = {"model": "m", "ask": "Hello"}
    request = REQUEST
    events = EVENTS
    reply: ClassVar[Any] = {"answer": "Hi"}


class TestStream(FormatContract):
    plugin: ClassVar[Any] = tornado_gate_acme
    body: ClassVar[Any] = {"model": "m", "ask": "Hello", "stream": True}
    request = replace(REQUEST, stream=True)
    events = EVENTS
    reply = b'data: {"word":"Hi"}\n\ndata: {"why":"stop"}\n\n'
