"""Cache markers by model, and the cache keys that the plugin makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tornado_gate_openai.provider as plugin
from tornado_gate.errors import ConfigError
from tornado_gate.types import Call, ChatRequest, Message, Text, UpstreamRequest
from tornado_gate.types.value import replace
from tornado_gate_openai.provider.cache_key import make_cache_key
from tornado_gate_openai.provider.features import OpenAIModelFeatures

MakeCall = Callable[..., Call]
MakeChat = Callable[..., ChatRequest]

CHAT, RESPONSES, MESSAGES = "openai-chat", "openai-responses", "anthropic-messages"


@pytest.mark.parametrize(
    ("model", "markers"),
    [
        ("gpt-4o", "none"),
        ("gpt-5.5", "none"),
        ("o3", "none"),
        ("gpt-5.6", "breakpoints"),
        ("gpt-5.6-luna", "breakpoints"),
        ("gpt-5.6-terra", "none"),
        ("gpt-6-astra", "breakpoints"),
        ("a-model-of-tomorrow", "none"),
    ],
)
def test_breakpoints_are_sent_to_models_that_accept_them(call: MakeCall, model: str, markers: str) -> None:
    assert find_features(call(preset="openai"), model).cache_markers == markers


def test_openrouter_gets_claudes_markers(call: MakeCall) -> None:
    assert find_features(call(preset="openrouter"), "anthropic/claude-sonnet-4.5").cache_markers == "cache_control"


def find_features(used: Call, model: str) -> OpenAIModelFeatures:
    found: OpenAIModelFeatures = used.target.settings.model_table.find_features(model)
    return found


def ask(used: Call, request: ChatRequest) -> dict[str, Any]:
    outgoing = plugin.translate_request(used, request)
    assert isinstance(outgoing, UpstreamRequest)
    assert isinstance(outgoing.json, dict)
    return outgoing.json


def test_no_key_is_sent_unless_conf_asks_for_it(call: MakeCall, chat: MakeChat) -> None:
    assert "prompt_cache_key" not in ask(call(), chat(wire_format=MESSAGES))
    body = ask(call(prompt_cache="auto"), chat(wire_format=MESSAGES))
    assert len(body["prompt_cache_key"]) == 32


@pytest.mark.parametrize(("api", "ours", "other"), [("chat", CHAT, RESPONSES), ("responses", RESPONSES, CHAT)])
def test_a_callers_own_key_is_kept_and_its_own_format_is_not_changed(
    call: MakeCall, chat: MakeChat, api: str, ours: str, other: str
) -> None:
    used = call(prompt_cache="auto", api=api)
    assert ask(used, chat(wire_format=other, extra={"prompt_cache_key": "k"}))["prompt_cache_key"] == "k"
    assert "prompt_cache_key" not in ask(used, chat(wire_format=ours))


def test_a_key_stays_the_same_while_the_instructions_do(call: MakeCall) -> None:
    used = call()

    def key(*texts: str, account: str = "a", user: str | None = None) -> str:
        roles: Any = ("system", "user", "assistant", "user")
        messages = tuple(
            Message(role=role, parts=(Text(text=text),)) for role, text in zip(roles, texts, strict=False) if text
        )
        caller = replace(used.caller, account=account)
        return make_cache_key(replace(used, caller=caller), ChatRequest(model="m", messages=messages, user=user))

    first = key("Rules", "Hi")
    assert first == key("Rules", "Hi", "Hello", "More") == key("Rules", "Another question")
    without = key("", "Hi")
    assert without == key("", "Hi", "Hello", "More")
    others = {first, without, key("Other rules", "Hi"), key("Rules", "Hi", account="b"), key("Rules", "Hi", user="u")}
    assert len(others) == 5


def test_another_value_is_a_fault_of_conf(call: MakeCall) -> None:
    with pytest.raises(ConfigError):
        call(prompt_cache="always")
