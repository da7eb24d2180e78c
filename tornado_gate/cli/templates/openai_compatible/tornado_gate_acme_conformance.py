"""The contract of providers for acme: pytest and `tornado-gate plugins check acme` use it.

Add a class for each request that your vendor's API is for, with the response that you have recorded.
"""

from array import array
from typing import Any, ClassVar

import tornado_gate_acme
from tornado_gate.testing import ProviderContract, chat
from tornado_gate.types import (
    EmbeddingRequest,
    EmbeddingResult,
    Finish,
    PartDelta,
    PartEnd,
    PartStart,
    ResponseStart,
    Usage,
    UsageReport,
)


class TestChat(ProviderContract):
    plugin = tornado_gate_acme.Acme
    request = chat("Hello", max_tokens=9, stream=True)
    outgoing: ClassVar[Any] = {
        "model": "upstream-model",
        "messages": [{"role": "user", "content": "Hello"}],
        "max_tokens": 9,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    content_type = "text/event-stream"
    chunks = (
        b'data: {"id": "1", "model": "m", "created": 1, "choices": [{"index": 0, "delta": {"content": "Hi"}}]}\n\n',
        b'data: {"id": "1", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\n',
        b'data: {"id": "1", "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}\n\n',
        b"data: [DONE]\n\n",
    )
    events = (
        ResponseStart(model="m", id="1", created=1),
        PartStart(index=0, kind="text"),
        PartDelta(index=0, data="Hi"),
        PartEnd(index=0),
        Finish(reason="stop", raw="stop"),
        UsageReport(usage=Usage(input_tokens=1, output_tokens=1)),
    )


class TestEmbeddings(ProviderContract):
    plugin = tornado_gate_acme.Acme
    call_fields: ClassVar[Any] = {"operation": "embeddings"}
    request = EmbeddingRequest(model="test-model", inputs=("Hello",))
    outgoing: ClassVar[Any] = {"model": "upstream-model", "input": "Hello", "encoding_format": "base64"}
    content_type = "application/json"
    chunks = (b'{"model": "m", "data": [{"index": 0, "embedding": [0.5]}], "usage": {"prompt_tokens": 1}}',)
    events = (EmbeddingResult(model="m", vectors=(array("d", [0.5]),), usage=Usage(input_tokens=1)),)
