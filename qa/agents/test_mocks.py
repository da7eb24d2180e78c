"""The mock upstreams of the coding agents refuse what the vendors refuse, and accept what they answered. No agent is run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from qa.agents.agents import AGENTS
from qa.agents.conversation import RefusedError, ToolCall, Turn
from qa.agents.report import PAGE
from qa.agents.vendors import anthropic, chat, gemini, responses

VERSION = {"anthropic-version": "2023-06-01"}
CALL = ToolCall("call_s0p0", "look", {"path": "a"})
TURN = Turn("I look.", (CALL,), (("Hm.", "mark0"),))
ASKED = {"role": "user", "content": "Look."}
A_RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_s0p0", "content": "blue"}]}


def answered(vendor: Any) -> Any:
    """The JSON of a whole answer with thinking and a call."""
    _, (body,) = vendor.render("m", TURN, False)
    return json.loads(body)


def ask_anthropic(*messages: Any, headers: Mapping[str, str] = VERSION, **rest: Any) -> Any:
    return anthropic.read("/v1/messages", headers, {"model": "m", "max_tokens": 9, "messages": list(messages), **rest})


def ask_chat(*messages: Any, **rest: Any) -> Any:
    return chat.read("/chat/completions", {}, {"model": "m", "messages": list(messages), **rest})


def ask_responses(*items: Any, **rest: Any) -> Any:
    return responses.read("/responses", {}, {"model": "m", "input": list(items), **rest})


def ask_gemini(*contents: Any, **rest: Any) -> Any:
    return gemini.read("/v1beta/models/m:generateContent", {}, {"contents": list(contents), **rest})


A_TURN = {"role": "assistant", "content": answered(anthropic)["content"]}
O_TURN = answered(chat)["choices"][0]["message"]
O_RESULT = {"role": "tool", "tool_call_id": "call_s0p0", "content": "blue"}
R_ITEMS = answered(responses)["output"]
R_RESULT = {"type": "function_call_output", "call_id": "call_s0p0", "output": "blue"}
G_TURN = answered(gemini)["candidates"][0]["content"]
G_ASKED = {"role": "user", "parts": [{"text": "Look."}]}
G_RESULT = {"role": "user", "parts": [{"functionResponse": {"name": "look", "id": "call_s0p0", "response": {"a": 1}}}]}


@pytest.mark.representative
def test_their_own_answers_come_back_with_the_result_and_the_thinking() -> None:
    asked = [
        ask_anthropic(ASKED, A_TURN, A_RESULT),
        ask_chat(
            ASKED, {name: O_TURN[name] for name in ("role", "content", "tool_calls", "reasoning_content")}, O_RESULT
        ),
        ask_responses(ASKED, *R_ITEMS, R_RESULT),
        ask_gemini(G_ASKED, G_TURN, G_RESULT),
    ]
    thinking = []
    for one in asked:
        (made,) = one.conversation.rounds
        assert [result.call_id for result in made.results] == ["call_s0p0"]
        assert made.calls == [CALL]
        thinking.append(made.thinking)
    assert thinking == [["anthropic mark0 Hm."], ["Hm."], ["openai mark0 Hm."], ["google mark0"]]


A_TOOL = {"name": "f", "input_schema": {"type": "object"}}
FORGED = {**A_TURN, "content": [{**A_TURN["content"][0], "signature": "AAAA"}, *A_TURN["content"][1:]]}
STRICT = {"type": "object", "properties": {"a": {"type": "string"}}}


@pytest.mark.parametrize(
    ("ask", "messages", "rest", "reason"),
    [
        (ask_anthropic, [ASKED], {"unknown": 1}, "unknown: Extra inputs"),
        (ask_anthropic, [ASKED], {"context_management": {"edits": []}}, "context_management: Extra inputs"),
        (ask_anthropic, [ASKED], {"temperature": 0.5}, "temperature"),
        (ask_anthropic, [ASKED], {"tools": [{**A_TOOL, "strange": 1}]}, "Extra inputs|Field required"),
        (ask_anthropic, [ASKED], {"tools": [{**A_TOOL, "name": "a.b"}]}, "should match pattern"),
        (ask_anthropic, [ASKED, A_TURN, ASKED], {}, "without `tool_result` blocks"),
        (ask_anthropic, [ASKED, A_RESULT], {}, "unexpected `tool_use_id`"),
        (ask_anthropic, [ASKED, FORGED, A_RESULT], {}, "Invalid `signature`"),
        (ask_anthropic, [{"role": "user", "content": " "}], {}, "non-whitespace"),
        (ask_chat, [ASKED], {"unknown": 1}, "unknown: Extra inputs"),
        (ask_chat, [ASKED, O_RESULT], {}, "must be a response to a preceding message"),
        (ask_chat, [ASKED], {"tools": []}, "empty array"),
        (ask_responses, [ASKED, R_RESULT], {}, "No tool call found"),
        (ask_responses, [ASKED, *R_ITEMS], {}, "No tool output found"),
        (ask_responses, [ASKED, R_ITEMS[0], ASKED], {}, "without its required following item"),
        (
            ask_responses,
            [ASKED],
            {"tools": [{"type": "function", "name": "f", "parameters": STRICT, "strict": True}]},
            "additional",
        ),
        (ask_gemini, [G_ASKED], {"unknown": 1}, "Unknown name"),
        (
            ask_gemini,
            [G_ASKED, {**G_TURN, "parts": [{"functionCall": {"name": "look"}}]}, G_RESULT],
            {},
            "thought_signature",
        ),
        (ask_gemini, [G_ASKED, G_TURN, G_ASKED], {}, "number of function response parts"),
    ],
)
def test_they_refuse_what_the_vendor_refuses(ask: Any, messages: list[Any], rest: dict[str, Any], reason: str) -> None:
    with pytest.raises(RefusedError, match=reason):
        ask(*messages, **rest)


@pytest.mark.representative
def test_the_page_has_the_versions_that_are_installed_and_no_failed_run() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for agent in AGENTS:
        assert f"| {agent.title} | {agent.version} | openai |" in page
    assert "| ✗ |" not in page
