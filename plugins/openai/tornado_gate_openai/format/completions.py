"""The text completions route: its request and its responses on the common lane."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any

from tornado_gate.codec.ids import make_unique_id
from tornado_gate.streams.events import render_json
from tornado_gate.types import Call, ChatRequest, Reply, StreamEvent
from tornado_gate.types.value import Value, replace
from tornado_gate_openai.format.paths import KEEP_ALIVE
from tornado_gate_openai.format.replies import EVENT_STREAM_TYPE, JSON_TYPE, stream_frames
from tornado_gate_openai.wire.completions import parse_request, read_prompt, render_response, render_stream


class CompletionState(Value, frozen=True, kw_only=True):
    """Response state: each choice of the response begins with `echo`."""

    echo: str = ""


def parse_completion_request(body: Mapping[str, Any]) -> ChatRequest:
    """Parse a checked body into the common request. Raises InvalidField when `prompt` is not one text."""
    request = parse_request(body)
    extra = {name: value for name, value in request.extra.items() if name != "echo"}
    state = CompletionState(echo=read_prompt(body) if body.get("echo") else "")
    return replace(request, extra=extra, reply_state=state)


def make_completion_reply(
    call: Call, request: ChatRequest, state: CompletionState, events: AsyncIterator[StreamEvent]
) -> Reply:
    """Return the response. Its `model` is the name that the caller sent."""
    envelope: dict[str, Any] = {
        "id": f"cmpl-{make_unique_id()}",
        "model": call.model or request.model,
        "created": int(time.time()),
        "echo": state.echo,
    }
    if request.stream:
        chunks = render_stream(events, include_usage=request.include_usage is True, **envelope)
        return Reply(content_type=EVENT_STREAM_TYPE, chunks=stream_frames(chunks), keep_alive=KEEP_ALIVE)
    return Reply(content_type=JSON_TYPE, chunks=render_json(events, partial(render_response, **envelope)))
