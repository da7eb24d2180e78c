"""The text completions route: checks of its body, and its responses on the common lane.

Source of the limits: openai-python 3.52, types/completion_create_params.py.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from marshmallow import validate

from tornado_gate.codec.checks import need_array, raise_invalid, refuse_value
from tornado_gate.codec.fields import (
    MAX_TOKENS,
    Array,
    BodySchema,
    Boolean,
    FunctionField,
    Integer,
    Number,
    Object,
    OneOf,
    String,
    check,
    describe_type,
)
from tornado_gate.codec.ids import make_unique_id
from tornado_gate.errors import InvalidField
from tornado_gate.streams.events import close, collect, dump_result, render_result
from tornado_gate.types import Call, ChatRequest, Reply, StreamEvent
from tornado_gate.types.value import Value, replace
from tornado_gate_openai.fields.chat import StreamOptionsSchema, check_logit_bias
from tornado_gate_openai.format.paths import KEEP_ALIVE
from tornado_gate_openai.format.replies import EVENT_STREAM_TYPE, JSON_TYPE, stream_frames
from tornado_gate_openai.wire.completions import parse_request, read_prompt, render_response, render_stream

MAX_PROMPTS: Final = 2048
"""The vendor's limit for an array of prompts. The length of a token array is limited by the body size only."""


class CompletionState(Value, frozen=True, kw_only=True):
    """Response state: each choice of the response begins with `echo`."""

    echo: str = ""


def _check_prompt(prompt: Any) -> None:
    """Raise InvalidField unless `prompt` is a text, an array of texts, an array of tokens, or an array of token arrays."""
    if isinstance(prompt, str):
        return
    need_array(prompt, "prompt")
    if not prompt:
        raise_invalid("prompt", "must not be empty")
    kind = type(prompt[0])
    if kind not in (str, int, list):
        raise_invalid("prompt.0", f"must be a string, an integer or an array, not {describe_type(prompt[0])}")
    if kind is not int and len(prompt) > MAX_PROMPTS:
        refuse_value("prompt", f"has {len(prompt)} items; at most {MAX_PROMPTS} are allowed")
    for index, piece in enumerate(prompt):
        if type(piece) is not kind:
            raise_invalid(
                f"prompt.{index}", f"must be {describe_type(prompt[0])} like the first item, not {describe_type(piece)}"
            )
        if kind is list:
            _check_tokens(piece, f"prompt.{index}")


def _check_tokens(tokens: list[Any], path: str) -> None:
    if not tokens:
        raise_invalid(path, "must not be empty")
    for index, token in enumerate(tokens):
        if type(token) is not int:
            raise_invalid(f"{path}.{index}", f"must be an integer, not {describe_type(token)}")


class CompletionBodySchema(BodySchema):
    """The body of ``POST /v1/completions``."""

    model = String(required=True, validate=validate.Length(min=1, error="must not be empty"))
    prompt = FunctionField(_check_prompt, required=True)
    best_of = Integer(least=1, most=128, allow_none=True)
    echo = Boolean(allow_none=True)
    frequency_penalty = Number(least=-2, most=2, allow_none=True)
    logit_bias = FunctionField(check_logit_bias, allow_none=True)
    logprobs = Integer(least=0, allow_none=True)
    max_tokens = Integer(least=1, most=MAX_TOKENS, allow_none=True)
    n = Integer(least=1, most=128, allow_none=True)
    presence_penalty = Number(least=-2, most=2, allow_none=True)
    seed = Integer(allow_none=True)
    stop = OneOf(by_type={str: String(), list: Array(String(), most=4)}, allow_none=True)
    stream = Boolean(allow_none=True)
    stream_options = Object(StreamOptionsSchema, allow_none=True)
    suffix = String(allow_none=True)
    temperature = Number(least=0, most=2, allow_none=True)
    top_p = Number(least=0, most=1, allow_none=True)
    user = String(allow_none=True)


_COMPLETION_SCHEMA: Final = CompletionBodySchema()


def check_completion(body: Mapping[str, Any]) -> None:
    """Raise InvalidField for the first field that is invalid or conflicts with another."""
    check(_COMPLETION_SCHEMA, body)
    if body.get("stream_options") is not None and body.get("stream") is not True:
        raise InvalidField("stream_options", "'stream_options' requires 'stream' to be true.")
    best_of, n = body.get("best_of"), body.get("n") or 1
    if best_of is not None and best_of < n:
        raise InvalidField("best_of", f"'best_of' must be at least 'n' ({n}), not {best_of}.")


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
    return Reply(content_type=JSON_TYPE, chunks=_render_whole(events, envelope))


async def _render_whole(events: AsyncIterator[StreamEvent], envelope: dict[str, Any]) -> AsyncIterator[bytes]:
    try:
        result = await collect(events)
    finally:
        await close(events)
    yield await render_result(result, lambda result: dump_result(result, render_response(result, **envelope)))
