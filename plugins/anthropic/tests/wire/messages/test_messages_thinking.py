"""How long a model is to think, and what it takes while it does. Every trap has its test."""

from __future__ import annotations

from typing import Any

import pytest

from plugins.anthropic.tests.wire.messages.foreign_requests import NEW, F, calls, rendered, result
from plugins.anthropic.tests.wire.messages.support import call_for, foreign, message
from tornado_gate.types import (
    Opaque,
    Reasoning,
    Thinking,
    ToolChoice,
)
from tornado_gate_anthropic.wire.messages import ModelFeatures, render_request

# thinking


@pytest.mark.parametrize(
    ("effort", "budget"),
    [
        ("minimal", 1024),
        ("low", 2048),
        ("medium", 8192),
        ("high", 16384),
        ("xhigh", 32768),
        ("max", 65536),
        ("?", 8192),
    ],
)
def test_an_effort_becomes_a_budget_below_the_limit(effort: str, budget: int) -> None:
    body, losses = rendered(reasoning=Reasoning(effort=effort))
    assert body["thinking"] == {"type": "enabled", "budget_tokens": budget}
    assert body["max_tokens"] == 4096 + budget
    assert losses == []


@pytest.mark.parametrize(("limit", "budget"), [(16385, 16384), (16384, 8192), (4000, 2000), (2048, 1024)])
def test_a_budget_that_leaves_no_room_is_cut(limit: int, budget: int) -> None:
    body, losses = rendered(reasoning=Reasoning(effort="high"), max_tokens=limit)
    assert (body["max_tokens"], body["thinking"]["budget_tokens"]) == (limit, budget)
    assert losses == []


def test_a_budget_stays_below_the_models_own_limit() -> None:
    body = render_request(call_for(output_token_limit=8000), foreign(reasoning=Reasoning(effort="max")))
    assert (body["max_tokens"], body["thinking"]["budget_tokens"]) == (8000, 4000)


def test_too_small_a_limit_leaves_no_thinking() -> None:
    body, losses = rendered(reasoning=Reasoning(effort="high"), max_tokens=500, names={"reasoning": "reasoning_effort"})
    assert "thinking" not in body
    assert losses == ["reasoning_effort"]


@pytest.mark.parametrize(("asked", "budget"), [(5000, 5000), (1, 1024), (-1, 8192)])
def test_a_budget_of_the_callers_is_kept(asked: int, budget: int) -> None:
    body, _ = rendered(reasoning=Reasoning(budget_tokens=asked))
    assert body["thinking"]["budget_tokens"] == budget


@pytest.mark.parametrize("reasoning", [Reasoning(effort="none"), Reasoning(enabled=False), Reasoning(budget_tokens=0)])
def test_no_thinking_is_said_so(reasoning: Reasoning) -> None:
    assert rendered(reasoning=reasoning)[0]["thinking"] == {"type": "disabled"}


@pytest.mark.parametrize("choice", [ToolChoice(mode="required"), ToolChoice(mode="tool", name="f")])
@pytest.mark.parametrize("abilities", [ModelFeatures(), NEW])
def test_a_forced_tool_leaves_no_thinking(choice: ToolChoice, abilities: ModelFeatures) -> None:
    body, losses = rendered(tools=(F,), tool_choice=choice, reasoning=Reasoning(effort="low"), abilities=abilities)
    assert "thinking" not in body
    assert "tool_choice" in body
    assert losses == ["reasoning"]


def test_an_answer_that_is_to_be_continued_leaves_no_thinking() -> None:
    said = (message("user", "Hi"), message("assistant", "Well"))
    body, losses = rendered(*said, reasoning=Reasoning(effort="low"))
    assert "thinking" not in body
    assert losses == ["reasoning"]


def test_calls_that_have_lost_their_thinking_leave_none() -> None:
    said = (message("user", "Hi"), calls("a"), result("a", "1"))
    body, losses = rendered(*said, reasoning=Reasoning(effort="low"))
    assert "thinking" not in body
    assert losses == ["reasoning"]
    kept = message("assistant", Thinking(text="hm", signature=Opaque(issuer="p", value="s")), *calls("a").parts)
    body, losses = rendered(message("user", "Hi"), kept, result("a", "1"), reasoning=Reasoning(effort="low"))
    assert body["thinking"]["type"] == "enabled"
    assert losses == []


def test_adaptive_thinking_needs_no_thinking_before_calls() -> None:
    said = (message("user", "Hi"), calls("a"), result("a", "1"))
    body, losses = rendered(*said, reasoning=Reasoning(effort="xhigh", summary="auto"), abilities=NEW)
    assert body["thinking"] == {"type": "adaptive", "display": "summarized"}
    assert body["output_config"] == {"effort": "xhigh"}
    assert losses == []


@pytest.mark.parametrize(
    ("reasoning", "effort"),
    [
        (Reasoning(effort="minimal"), "low"),
        (Reasoning(effort="xhigh"), "high"),
        (Reasoning(budget_tokens=9000), "medium"),
        (Reasoning(budget_tokens=10), "low"),
        (Reasoning(enabled=True), None),
    ],
)
def test_efforts_for_adaptive_thinking(reasoning: Reasoning, effort: str | None) -> None:
    abilities = ModelFeatures(thinking="adaptive", efforts=("low", "medium", "high", "max"))
    body, losses = rendered(reasoning=reasoning, abilities=abilities)
    assert body["thinking"] == {"type": "adaptive"}
    assert body.get("output_config") == (effort and {"effort": effort})
    lost = ["reasoning"] if reasoning.effort == "xhigh" else []
    assert losses == (["reasoning.budget_tokens"] if reasoning.budget_tokens else lost)


def test_while_it_thinks_a_model_takes_no_sampling() -> None:
    fields = {"temperature": 0.5, "top_k": 3, "top_p": 0.5}
    body, losses = rendered(**fields, reasoning=Reasoning(effort="low"))
    assert not set(fields) & set(body)
    assert losses == ["temperature", "top_p", "top_k"]
    body, losses = rendered(temperature=1, top_p=0.95, reasoning=Reasoning(effort="low"))
    assert "temperature" not in body
    assert body["top_p"] == 0.95
    assert losses == []


@pytest.mark.parametrize(
    ("sampling", "fields", "sent", "lost"),
    [
        ("all", {"temperature": 0.5, "top_p": 0.5, "top_k": 3}, {"temperature": 0.5, "top_p": 0.5, "top_k": 3}, []),
        ("all", {"temperature": 1.7}, {"temperature": 1.0}, ["temperature"]),
        ("one", {"temperature": 0.5, "top_p": 0.5}, {"temperature": 0.5}, ["top_p"]),
        ("one", {"temperature": 1, "top_p": 0.5}, {"top_p": 0.5}, []),
        ("one", {"temperature": 0, "top_k": 3}, {"temperature": 0, "top_k": 3}, []),
        ("none", {"temperature": 0.5, "top_p": 1, "top_k": 1}, {}, ["temperature", "top_k"]),
    ],
)
def test_sampling_is_what_the_model_takes(sampling: Any, fields: Any, sent: Any, lost: list[str]) -> None:
    body, losses = rendered(**fields, abilities=ModelFeatures(sampling=sampling))
    assert {name: body[name] for name in ("temperature", "top_p", "top_k") if name in body} == sent
    assert losses == lost
