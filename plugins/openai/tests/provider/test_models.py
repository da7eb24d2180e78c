"""What is sent to each model of OpenAI, and what is reported as lost: translated requests, by the facts in models.yaml."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tornado_gate_openai.provider as plugin
from tornado_gate import ProviderEntry
from tornado_gate.errors import ConfigError, InvalidField
from tornado_gate.types import (
    Call,
    ChatRequest,
    Reasoning,
    Tool,
    ToolChoice,
)

MakeCall = Callable[..., Call]
MakeChat = Callable[..., ChatRequest]
Sent = tuple[str, dict[str, Any], list[str]]

TOOL = Tool(name="f", parameters={"type": "object"})
COMPLETED = {"type": "object", "properties": {}}
CHAT_TOOL = {"type": "function", "function": {"name": "f", "parameters": COMPLETED}}
RESPONSES_TOOL = {"type": "function", "name": "f", "parameters": COMPLETED, "strict": False}
CHAT_HI = [{"role": "user", "content": "Hi"}]


def translate_request(call: MakeCall, model: str, request: ChatRequest, **settings: Any) -> Sent:
    """(endpoint, body without the members that every request has, losses)."""
    used = call(upstream_model=model, **({"preset": "openai", "base_url": ""} | settings))
    outgoing = plugin.translate_request(used, request)
    body = dict(outgoing.json)
    assert body.pop("model") == model
    path = outgoing.url.rpartition("/v1/")[2]
    if path == "responses":
        assert body.pop("store") is False
        assert body.pop("input") == CHAT_HI
        body.pop("include", None)  # see below
    else:
        assert body.pop("messages") == CHAT_HI
    return path, body, used.losses


@pytest.mark.parametrize(
    ("model", "plain", "with_tools"),
    [
        ("gpt-4o", "chat/completions", "chat/completions"),
        ("gpt-4.1-mini", "chat/completions", "chat/completions"),
        ("ft:gpt-4o-mini-2024-07-18:mine::1", "chat/completions", "chat/completions"),
        ("o3", "chat/completions", "chat/completions"),
        ("o4-mini-2025-04-16", "chat/completions", "chat/completions"),
        ("o3-pro", "responses", "responses"),
        ("gpt-5", "chat/completions", "chat/completions"),
        ("gpt-5-codex", "responses", "responses"),
        ("gpt-5.1", "chat/completions", "chat/completions"),
        ("gpt-5.2", "chat/completions", "responses"),
        ("gpt-5.4", "responses", "responses"),
        ("gpt-5.4-mini-2026-03-17", "responses", "responses"),
        ("gpt-6-astra", "responses", "responses"),
        ("gpt-9-unknown", "responses", "responses"),
    ],
)
def test_a_model_is_asked_by_the_api_that_it_wants(
    call: MakeCall, chat: MakeChat, model: str, plain: str, with_tools: str
) -> None:
    assert translate_request(call, model, chat())[0] == plain
    path, body, losses = translate_request(call, model, chat(tools=(TOOL,)))
    assert (path, body["tools"]) == (with_tools, [CHAT_TOOL if with_tools != "responses" else RESPONSES_TOOL])
    assert losses == []


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        ({"api": "chat"}, "chat/completions"),
        ({"responses": False}, "chat/completions"),
        ({"preset": "azure-openai", "base_url": "https://r.openai.azure.com"}, "responses"),
        ({"base_url": "https://api.openai.com/v1"}, "responses"),
        ({"preset": "vllm"}, "chat/completions"),
        ({"model_rules": {"gpt-5.4": {"api": "chat"}}}, "chat/completions"),
        ({"preset": "vllm", "responses": True, "model_rules": {"*": {"api": "responses"}}}, "responses"),
    ],
)
def test_conf_decides_before_the_table(call: MakeCall, chat: MakeChat, settings: dict[str, Any], path: str) -> None:
    if settings.get("base_url") and "preset" not in settings:
        used = call(upstream_model="gpt-5.4", **settings)
        assert plugin.translate_request(used, chat()).url == "https://api.openai.com/v1/responses"
    else:
        assert translate_request(call, "gpt-5.4", chat(), **settings)[0] == path


@pytest.mark.parametrize(
    ("model", "given", "expected", "lost"),
    [
        # sampling at models that reason
        ("gpt-4o", {"temperature": 0.5, "stop": ("a",)}, {"temperature": 0.5, "stop": ["a"]}, []),
        ("gpt-5", {"temperature": 0.5, "top_p": 0.5}, {}, ["temperature", "top_p"]),
        ("gpt-5", {"temperature": 1.0, "top_p": 1}, {}, []),
        (
            "o3",
            {"temperature": 0, "stop": ("a",), "presence_penalty": 1},
            {},
            ["stop", "presence_penalty", "temperature"],
        ),
        ("o3", {"parallel_tool_calls": False}, {}, ["parallel_tool_calls"]),
        ("gpt-5.1", {"temperature": 0.5}, {"temperature": 0.5}, []),
        (
            "gpt-5.1",
            {"temperature": 0.5, "reasoning": Reasoning(effort="low")},
            {"reasoning_effort": "low"},
            ["temperature"],
        ),
        ("gpt-5.4", {"temperature": 0.5}, {"temperature": 0.5}, []),
        ("gpt-5.5", {"temperature": 0.5}, {}, ["temperature"]),
        ("gpt-4o", {"reasoning": Reasoning(budget_tokens=5000, visible=True)}, {}, ["reasoning"]),
        ("o3", {"reasoning": Reasoning(enabled=True, visible=True)}, {"reasoning": {"summary": "auto"}}, []),
        (
            "o3",
            {"reasoning": Reasoning(effort="low", summary="auto")},
            {"reasoning": {"effort": "low", "summary": "auto"}},
            [],
        ),
        (
            "gpt-5.4",
            {"temperature": 0.5, "reasoning": Reasoning(effort="none")},
            {"temperature": 0.5, "reasoning": {"effort": "none"}},
            [],
        ),
        ("gpt-6-astra", {"temperature": 0.5, "logprobs": True}, {}, ["temperature", "logprobs"]),
        # efforts
        ("gpt-5", {"reasoning": Reasoning(effort="none")}, {"reasoning_effort": "minimal"}, ["reasoning"]),
        ("gpt-5", {"reasoning": Reasoning(effort="xhigh")}, {"reasoning_effort": "high"}, ["reasoning"]),
        ("gpt-5", {"reasoning": Reasoning(enabled=False)}, {"reasoning_effort": "minimal"}, ["reasoning"]),
        ("gpt-5", {"reasoning": Reasoning(enabled=True)}, {}, []),
        ("gpt-5.1", {"reasoning": Reasoning(enabled=True)}, {"reasoning_effort": "medium"}, []),
        ("gpt-5.1", {"reasoning": Reasoning(effort="minimal")}, {"reasoning_effort": "low"}, ["reasoning"]),
        ("gpt-5.1", {"reasoning": Reasoning(budget_tokens=1024)}, {"reasoning_effort": "low"}, []),
        ("o3", {"reasoning": Reasoning(effort="none")}, {"reasoning_effort": "low"}, ["reasoning"]),
        ("gpt-5-pro", {"reasoning": Reasoning(effort="low")}, {"reasoning": {"effort": "high"}}, ["reasoning"]),
        ("gpt-6-astra", {"reasoning": Reasoning(effort="none")}, {"reasoning": {"effort": "low"}}, ["reasoning"]),
        ("gpt-6-astra", {"reasoning": Reasoning(effort="max")}, {"reasoning": {"effort": "max"}}, []),
        ("gpt-4o", {"reasoning": Reasoning(effort="high")}, {}, ["reasoning"]),
        ("gpt-4o", {"reasoning": Reasoning(effort="none")}, {}, []),
        # counts and lengths
        ("gpt-4o", {"stop": tuple("abcdef")}, {"stop": ["a", "b", "c", "d"]}, ["stop.4", "stop.5"]),
        ("gpt-4o", {"user": "u" * 64}, {"user": "u" * 64}, []),
        (
            "gpt-4o",
            {"user": "u" * 65},
            {"user": "f20e249d15fa4b9f44ba21d154f62e1efa76ddfdce5d25139a33a4787cee5a8b"},
            [],
        ),
        ("gpt-4o", {"max_tokens": 32_000}, {"max_completion_tokens": 16_384}, ["max_tokens"]),
        ("gpt-5.4", {"max_tokens": 1}, {"max_output_tokens": 16}, ["max_tokens"]),
        ("gpt-5.4", {"max_tokens": 16}, {"max_output_tokens": 16}, []),
        # members about tools without tools
        ("gpt-4o", {"tool_choice": ToolChoice(mode="auto"), "parallel_tool_calls": True}, {}, []),
        ("gpt-4o", {"tool_choice": ToolChoice(mode="required")}, {}, ["tool_choice"]),
    ],
)
def test_a_request_that_the_model_cannot_take_is_mapped_or_reported(
    call: MakeCall, chat: MakeChat, model: str, given: dict[str, Any], expected: dict[str, Any], lost: list[str]
) -> None:
    _, body, losses = translate_request(call, model, chat(**given))
    assert (body, losses) == (expected, lost)


@pytest.mark.parametrize(
    ("settings", "path", "reasoning", "lost"),
    [
        ({}, "responses", {"effort": "low", "summary": "auto"}, []),
        ({"api": "chat"}, "chat/completions", None, ["thinking.display"]),
        ({"model_rules": {"*": {"summaries": False}}}, "chat/completions", None, ["thinking.display"]),
        (
            {"api": "responses", "model_rules": {"*": {"summaries": False}}},
            "responses",
            {"effort": "low"},
            ["thinking.display"],
        ),
    ],
)
def test_thinking_that_the_caller_wants_to_see_is_summarized_where_that_is_possible(
    call: MakeCall, chat: MakeChat, settings: dict[str, Any], path: str, reasoning: Any, lost: list[str]
) -> None:
    asked = chat(reasoning=Reasoning(effort="low", visible=True), names={"reasoning.summary": "thinking.display"})
    used, body, losses = translate_request(call, "gpt-5", asked, **settings)
    assert (used, body.get("reasoning"), losses) == (path, reasoning, lost)


@pytest.mark.parametrize("wire_format", ["openai-chat", "openai-responses"])
def test_a_request_in_the_upstreams_own_format_is_not_changed(call: MakeCall, chat: MakeChat, wire_format: str) -> None:
    api = wire_format.removeprefix("openai-")
    given = {"temperature": 0.5, "user": "u" * 65, "reasoning": Reasoning(effort="none")}
    _, body, losses = translate_request(call, "gpt-5", chat(wire_format=wire_format, **given), api=api)
    assert (body["temperature"], body["user"], losses) == (0.5, "u" * 65, [])


def test_a_strict_caller_gets_a_400(call: MakeCall, chat: MakeChat) -> None:
    with pytest.raises(InvalidField) as caught:
        plugin.translate_request(call(preset="openai", upstream_model="o3", strict=True), chat(stop=("a",)))
    assert caught.value.param == "stop"


def test_tools_beyond_the_limit_are_cut_and_the_forced_one_stays(call: MakeCall, chat: MakeChat) -> None:
    tools = tuple(Tool(name=f"t{number}") for number in range(130))
    _, body, losses = translate_request(
        call, "gpt-4o", chat(tools=tools, tool_choice=ToolChoice(mode="tool", name="t129"))
    )
    names = [tool["function"]["name"] for tool in body["tools"]]
    assert names == [*(f"t{number}" for number in range(127)), "t129"]
    assert losses == ["tools.127", "tools.128"]


def test_an_upstream_with_other_models_gets_everything(call: MakeCall, chat: MakeChat) -> None:
    request = chat(stop=tuple("abcdef"), user="u" * 99, reasoning=Reasoning(effort="minimal"), temperature=0.5)
    _, body, losses = translate_request(call, "o3", request, preset="vllm")
    assert body == {
        "stop": list("abcdef"),
        "user": "u" * 99,
        "reasoning_effort": "minimal",
        "temperature": 0.5,
    }
    assert losses == []


def test_a_fault_in_model_rules_is_told_at_its_key(entry: Callable[..., ProviderEntry]) -> None:
    with pytest.raises(ConfigError) as caught:
        plugin.configure(entry(model_rules={"gpt-*": {"tools_api": "assistants"}}))
    assert caught.value.faults[0][0] == ("model_rules", "gpt-*", "tools_api")


SPOKEN = {"voice": "alloy", "format": "wav"}


@pytest.mark.parametrize(
    ("model", "modalities", "sent", "lost"),
    [
        ("gpt-4o", ("text", "audio"), {}, ["modalities", "audio"]),
        ("gpt-4o", ("audio",), {}, ["modalities", "audio"]),
        ("gpt-audio", ("text", "audio"), {"modalities": ["text", "audio"], "audio": SPOKEN}, []),
    ],
)
def test_sound_is_asked_of_models_that_speak(
    call: MakeCall, chat: MakeChat, model: str, modalities: tuple[str, ...], sent: dict[str, Any], lost: list[str]
) -> None:
    request = chat(wire_format="gemini-generate", modalities=modalities, audio=SPOKEN)
    assert translate_request(call, model, request) == ("chat/completions", sent, lost)
