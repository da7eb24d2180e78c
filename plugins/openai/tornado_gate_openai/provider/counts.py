"""Token counts of translated prompts, by ``POST /responses/input_tokens``.

Source: openai-python 3.52, types/responses/input_token_count_params.py and input_token_count_response.py.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Final

from tornado_gate.errors import UpstreamError
from tornado_gate.streams.events import convert_whole
from tornado_gate.types import Call, ChatRequest, StreamEvent, TokenCount, UpstreamResponse
from tornado_gate_openai.provider import cross_format
from tornado_gate_openai.provider.models import drop_tool_members, fit_chat
from tornado_gate_openai.provider.settings import OpenAISettings

_MEMBERS: Final = frozenset(
    ("model", "input", "instructions", "parallel_tool_calls", "reasoning", "text", "tool_choice", "tools", "truncation")
)
"""The members that this endpoint accepts. The others of a chat have no tokens."""


def render_body(call: Call, facts: OpenAISettings, chat: ChatRequest) -> dict[str, Any]:
    """The body that counts the prompt of `chat`."""
    features = facts.model_table.find_features(call.target.upstream_model)
    fitted = fit_chat(call, chat, features, "responses")
    body = cross_format.render_response_body(call, fitted, features)
    drop_tool_members(call, fitted, body, "responses")
    return {name: value for name, value in body.items() if name in _MEMBERS}


def parse_events(call: Call, incoming: UpstreamResponse) -> AsyncIterator[StreamEvent]:
    """Return the count. The iterator raises UpstreamError for a body without one."""
    return convert_whole(incoming, partial(_parse_count, call)) or _read_count(call, incoming)


async def _read_count(call: Call, incoming: UpstreamResponse) -> AsyncIterator[StreamEvent]:
    yield _parse_count(call, await incoming.read_object())


def _parse_count(call: Call, body: Any) -> TokenCount:
    tokens = body.get("input_tokens")
    if not isinstance(tokens, int):
        raise UpstreamError(
            f"The provider '{call.target.provider}' sent a token count without 'input_tokens'.",
            advice="Check its base_url.",
        )
    return TokenCount(input_tokens=tokens)
