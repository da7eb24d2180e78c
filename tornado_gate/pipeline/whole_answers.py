"""Replies to complete responses of the common lane, made without events and without waiting.

The core processes such a response like its events: it checks the fields, measures them, and stores the data for later turns. If
the response has a fault or a step must wait, the core uses the events, which report each fault as in a stream.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from tornado_gate.pipeline import metering, server_tool_parts
from tornado_gate.pipeline.gate import Gate
from tornado_gate.plugins.lanes import FormatLane
from tornado_gate.streams import stages
from tornado_gate.streams.event_order import may_answer
from tornado_gate.streams.events import WholeEvents
from tornado_gate.targets import outcomes
from tornado_gate.targets.configured_provider import ConfiguredProvider
from tornado_gate.types import (
    BufferedBody,
    Call,
    ChatRequest,
    ChatResult,
    Reply,
    Request,
    StreamEvent,
    Text,
    Thinking,
    ToolCall,
)
from tornado_gate.types.field_checks import find_wrong_field
from tornado_gate.types.result_checks import find_wrong_result_field


def make_reply(
    gate: Gate,
    call: Call,
    wire_format: FormatLane,
    used: ConfiguredProvider,
    request: Request,
    events: AsyncIterator[StreamEvent],
) -> Reply | None:
    """Return the reply to the events that a provider returned. Return None, without reading them, if they must be read.

    If the chunks of the reply are a `BufferedBody`, its outcome is noted and the request is complete. Otherwise the caller must
    read its first chunk. Raises the errors of `FormatLane.translate_response`.
    """
    if type(events) is not WholeEvents or not events.is_direct:
        return None
    result = events.result
    if isinstance(result, ChatResult):
        if type(request) is not ChatRequest or request.stream or _must_store(call, used, request, result):
            return None
        if find_wrong_result_field(result):
            return None
        metering.record_result(call.meter, result)
    else:
        if not may_answer(type(request), type(result)) or find_wrong_field(result):
            return None
        assert not isinstance(result, ChatResult)
        metering.record_event(call.meter, result)
    reply = wire_format.translate_response(call, request, events)
    chunks = reply.chunks
    if not isinstance(chunks, BufferedBody):
        return reply
    if type(chunks.data) is not bytes or not reply.content_type.startswith("application/json"):
        return reply.replace(chunks=stages.Flow(chunks))
    outcomes.note_success(gate.health, call)
    return reply


def _must_store(call: Call, used: ConfiguredProvider, request: ChatRequest, result: ChatResult) -> bool:
    """Return whether the response may have data for a later turn: signatures, or parts about server tools."""
    if request.tools and server_tool_parts.has_server_tools(request):
        return True
    if not used.capabilities.signatures:
        return False
    unsigned = used.capabilities.needs_unsigned_thinking(call.target.upstream_model)
    for choice in result.choices:
        for part in choice.parts:
            kind = type(part)
            if kind is Thinking and unsigned:
                return True
            if (kind is Text or kind is Thinking or kind is ToolCall) and part.signature is not None:  # type: ignore[union-attr]
                return True
    return False
