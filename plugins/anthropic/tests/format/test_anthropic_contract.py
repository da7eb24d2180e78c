"""The contract of formats, for messages, whole and streamed."""

from __future__ import annotations

from typing import Any, ClassVar

from format_anthropic_calls import QUESTION, VERSION

import tornado_gate_anthropic.format as plugin
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
    ResponseStart(model="up", id="msg_1"),
    PartStart(index=0, kind="text"),
    PartDelta(index=0, data="Hi"),
    PartEnd(index=0),
    UsageReport(usage=Usage(input_tokens=1, output_tokens=2)),
    Finish(reason="stop"),
)
REQUEST = ChatRequest(
    model="m",
    messages=(Message(role="user", parts=(Text(text="Hi"),)),),
    max_tokens=9,
    wire_format="anthropic-messages",
    names={
        "stop": "stop_sequences",
        "user": "metadata.user_id",
        "response_format": "output_config.format",
        "parallel_tool_calls": "tool_choice.disable_parallel_tool_use",
    },
)


class TestMessages(FormatContract):
    plugin = plugin
    body = QUESTION
    wire_fields: ClassVar[dict[str, Any]] = {"headers": VERSION}
    request = REQUEST
    events = EVENTS
    reply: ClassVar[Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "test-model",
        "content": [{"type": "text", "text": "Hi", "citations": None}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "stop_details": None,
        "container": None,
        "usage": {
            "cache_creation": None,
            "cache_creation_input_tokens": None,
            "cache_read_input_tokens": None,
            "inference_geo": None,
            "input_tokens": 1,
            "output_tokens": 2,
            "output_tokens_details": None,
            "server_tool_use": None,
            "service_tier": None,
            "speed": None,
        },
    }
    error: ClassVar[dict[str, Any]] = {"type": "error", "error": ERROR.body()}


class TestStreamedMessages(TestMessages):
    body: ClassVar[dict[str, Any]] = QUESTION | {"stream": True}
    request = replace(REQUEST, stream=True)
    reply = (
        b'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant",'
        b'"model":"test-model","content":[],"stop_reason":null,"stop_sequence":null,'
        b'"stop_details":null,"container":null,"usage":{"cache_creation":null,"inference_geo":null,'
        b'"output_tokens_details":null,"server_tool_use":null,"service_tier":null,"speed":null,"input_tokens":0,'
        b'"cache_creation_input_tokens":null,"cache_read_input_tokens":null,"output_tokens":0}}}\n\n'
        b'event: content_block_start\ndata: {"type":"content_block_start","index":0,'
        b'"content_block":{"type":"text","text":"","citations":null}}\n\n'
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
        b'"delta":{"type":"text_delta","text":"Hi"}}\n\n'
        b'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n'
        b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null,'
        b'"stop_details":null,"container":null},"usage":{"output_tokens_details":null,"server_tool_use":null,'
        b'"input_tokens":1,"cache_creation_input_tokens":null,"cache_read_input_tokens":null,"output_tokens":2}}\n\n'
        b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
    )
