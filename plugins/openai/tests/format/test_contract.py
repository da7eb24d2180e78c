"""The contract of formats, for the routes of chat and of responses."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from format_openai_calls import QUESTION

import tornado_gate_openai.format as plugin
from tornado_gate.testing import FormatContract
from tornado_gate.types import (
    ChatRequest,
    Finish,
    Message,
    PartDelta,
    PartEnd,
    PartStart,
    Request,
    ResponseStart,
    Text,
    Usage,
    UsageReport,
    replace,
)

EVENTS = (
    ResponseStart(model="up", id="chatcmpl-1", created=5),
    PartStart(index=0, kind="text"),
    PartDelta(index=0, data="Hi"),
    PartEnd(index=0),
    UsageReport(usage=Usage(input_tokens=1, output_tokens=2)),
    Finish(reason="stop"),
)
HELLO = Message(role="user", parts=(Text(text="Hi"),))


class TestChat(FormatContract):
    plugin = plugin
    path = "/v1/chat/completions"
    body = QUESTION
    request = ChatRequest(model="m", messages=(HELLO,), wire_format="openai-chat")
    events = EVENTS
    reply: ClassVar[Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 5,
        "model": "test-model",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hi", "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
    }


class TestStreamedChat(FormatContract):
    plugin = plugin
    path = "/v1/chat/completions"
    body: ClassVar[dict[str, Any]] = QUESTION | {"stream": True}
    request = ChatRequest(model="m", messages=(HELLO,), wire_format="openai-chat", stream=True)
    events = EVENTS
    reply = (
        b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":5,"model":"test-model","choices":[{"index":0,'
        b'"delta":{"role":"assistant","content":"Hi"},"logprobs":null,"finish_reason":null}]}\n\n'
        b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":5,"model":"test-model","choices":[{"index":0,'
        b'"delta":{},"logprobs":null,"finish_reason":"stop"}]}\n\n'
        b"data: [DONE]\n\n"
    )


@pytest.mark.usefixtures("fixed_completion_time")
class TestResponses(FormatContract):
    plugin = plugin
    path = "/v1/responses"
    body: ClassVar[dict[str, Any]] = {"model": "m", "input": "Hi", "store": False}
    request = ChatRequest(model="m", messages=(HELLO,), wire_format="openai-responses")
    events = EVENTS
    reply: ClassVar[Any] = {
        "id": "resp_made",
        "object": "response",
        "created_at": 5,
        "completed_at": 6,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "model": "test-model",
        "output": [
            {
                "id": "msg_made0001",
                "type": "message",
                "status": "completed",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "Hi", "annotations": [], "logprobs": []}],
            }
        ],
        "usage": {
            "input_tokens": 1,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": 2,
            "output_tokens_details": {"reasoning_tokens": 0},
            "prompt_tokens": 1,
            "completion_tokens": 2,
            "total_tokens": 3,
        },
        "background": False,
        "frequency_penalty": 0.0,
        "instructions": None,
        "max_output_tokens": None,
        "max_tool_calls": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "presence_penalty": 0.0,
        "previous_response_id": None,
        "prompt": None,
        "prompt_cache_key": None,
        "prompt_cache_retention": None,
        "reasoning": {"effort": None, "summary": None},
        "safety_identifier": None,
        "service_tier": "default",
        "store": False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_logprobs": 0,
        "top_p": 1.0,
        "truncation": "disabled",
        "user": None,
    }

    def normalize_request(self, request: Request) -> Request:
        request = super().normalize_request(request)
        return replace(request, names={}) if isinstance(request, ChatRequest) else request

    def normalize_reply(self, reply: bytes) -> bytes:
        made = reply.partition(b'"id":"resp_')[2][:32]
        return reply.replace(made, b"made")
