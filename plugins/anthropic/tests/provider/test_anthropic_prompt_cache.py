"""Cache markers of the plugin's own: only in translated requests, and only if conf asks for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest

import tornado_gate_anthropic.provider as plugin
from tornado_gate.errors import ConfigError
from tornado_gate.types import Call, ChatRequest, CountTokensRequest, VerbatimRequest

MakeCall = Callable[..., Call]
MakeChat = Callable[..., ChatRequest]

MARK = {"type": "ephemeral"}


def ask(used: Call, request: Any) -> Any:
    outgoing = plugin.translate_request(used, request)
    return outgoing.json if outgoing.json is not None else orjson.loads(outgoing.body)  # type: ignore[arg-type]


def test_a_translated_request_gets_markers_if_conf_asks_for_them(call: MakeCall, chat: MakeChat) -> None:
    request = chat(wire_format="openai-chat")
    assert ask(call(), request)["messages"] == [{"role": "user", "content": "Hi"}]
    marked = {"type": "text", "text": "Hi", "cache_control": MARK}
    assert ask(call(prompt_cache="auto"), request)["messages"] == [{"role": "user", "content": [marked]}]


def test_a_token_count_and_a_verbatim_body_get_none(call: MakeCall, chat: MakeChat) -> None:
    used = call(prompt_cache="auto")
    request = chat(wire_format="openai-chat")
    assert "cache_control" not in str(ask(used, CountTokensRequest(model="sonnet", chat=request)))
    body = {"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
    verbatim = VerbatimRequest(
        wire_format="anthropic-messages",
        operation="chat",
        path="/v1/messages",
        raw=orjson.dumps(body),
        body=body,
    )
    assert ask(used, verbatim) == body


@pytest.mark.parametrize("value", ["always", True, 1])
def test_another_value_is_a_fault_of_conf(call: MakeCall, value: Any) -> None:
    with pytest.raises(ConfigError):
        call(prompt_cache=value)
