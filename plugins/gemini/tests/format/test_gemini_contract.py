"""The contract of formats, for generateContent, whole and streamed."""

from __future__ import annotations

from typing import Any, ClassVar

from format_gemini_calls import QUESTION

import tornado_gate_gemini.format as plugin
from tornado_gate.testing import ERROR, FormatContract
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

EVENTS = (
    ResponseStart(model="up", id="r1"),
    PartStart(index=0, kind="text"),
    PartDelta(index=0, data="Hi"),
    PartEnd(index=0),
    UsageReport(usage=Usage(input_tokens=1, output_tokens=2)),
    Finish(reason="stop"),
)
REQUEST = ChatRequest(
    model="m",
    messages=(Message(role="user", parts=(Text(text="Hi"),)),),
    wire_format="gemini-generate",
    names={"messages": "contents", "content": "parts"},
)


class TestGenerate(FormatContract):
    plugin = plugin
    body = QUESTION
    path = "/v1beta/models/{model}:generateContent"
    wire_fields: ClassVar[dict[str, Any]] = {"path_arguments": {"model": "m"}}
    call_fields: ClassVar[dict[str, Any]] = {"model": "m"}
    request = REQUEST
    events = EVENTS
    reply: ClassVar[Any] = {
        "candidates": [{"content": {"role": "model", "parts": [{"text": "Hi"}]}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 2, "totalTokenCount": 3},
        "modelVersion": "m",
        "responseId": "r1",
    }
    error: ClassVar[dict[str, Any]] = {"error": {**ERROR.body(), "status": "INVALID_ARGUMENT"}}


class TestStreamedGenerate(TestGenerate):
    path = "/v1beta/models/{model}:streamGenerateContent"
    wire_fields: ClassVar[dict[str, Any]] = {"path_arguments": {"model": "m"}, "query": {"alt": "sse"}}
    request = replace(REQUEST, stream=True)
    reply = (
        b'data: {"candidates":[{"content":{"role":"model","parts":[{"text":"Hi"}]},"index":0}],'
        b'"modelVersion":"m","responseId":"r1"}\n\n'
        b'data: {"candidates":[{"content":{"role":"model","parts":[{"text":""}]},"finishReason":"STOP","index":0}],'
        b'"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":2,"totalTokenCount":3},'
        b'"modelVersion":"m","responseId":"r1"}\n\n'
    )
