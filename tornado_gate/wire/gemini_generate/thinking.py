"""``thinkingConfig`` and `Reasoning`, in both directions. Pure.

The table from effort to budgets and levels is that of the vendor's OpenAI-compatible endpoint:
https://ai.google.dev/gemini-api/docs/openai. A budget of 0 disables thinking, -1 lets the model choose.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.types import Call, ChatRequest, Reasoning
from tornado_gate.wire.gemini_generate.model_features import GeminiModelFeatures

_BUDGET_OF_EFFORT: Final[Mapping[str, int]] = {"minimal": 1024, "low": 1024, "medium": 8192, "high": 24576}
_LEVELS: Final = ("minimal", "low", "medium", "high")
_AUTOMATIC_BUDGET: Final = -1
THINKING_MEMBERS: Final = ("includeThoughts", "thinkingBudget", "thinkingLevel")


def parse_thinking(config: Mapping[str, Any]) -> Reasoning | None:
    """The `Reasoning` of a ``thinkingConfig``; None when no known member is set."""
    budget, level = config.get("thinkingBudget"), config.get("thinkingLevel")
    shown = "auto" if config.get("includeThoughts") is True else None
    effort = level.lower() if isinstance(level, str) and level != "THINKING_LEVEL_UNSPECIFIED" else None
    if budget is None and effort is None and shown is None:
        return None
    return Reasoning(
        effort=effort,
        budget_tokens=budget if budget is not None and budget > 0 else None,
        enabled=None if budget is None or budget > 0 else budget == _AUTOMATIC_BUDGET,
        summary=shown,
    )


def render_thinking(call: Call, request: ChatRequest, dialect: GeminiModelFeatures) -> dict[str, Any] | None:
    """The ``thinkingConfig`` for the model: a budget or a level, never both; None when nothing is set."""
    reasoning = request.reasoning
    if reasoning is None:
        return None
    name = request.field_name("reasoning")
    config: dict[str, Any] = {}
    if reasoning.budget_tokens is not None:  # newer models accept budgets for backward compatibility
        config["thinkingBudget"] = reasoning.budget_tokens
        if reasoning.effort is not None:
            call.drop_field(f"{name}.effort")
    elif reasoning.effort is not None:
        config |= _render_effort(call, reasoning.effort, name, dialect)
    elif reasoning.enabled is not None:
        config |= _render_switch(call, reasoning.enabled, name, dialect)
    if reasoning.summary is not None:
        config["includeThoughts"] = True
    return config or None


def _render_effort(call: Call, effort: str, name: str, dialect: GeminiModelFeatures) -> dict[str, Any]:
    if effort == "none":
        return _render_switch(call, False, name, dialect)
    known = "high" if effort in ("xhigh", "max") else effort
    if known not in _LEVELS:
        call.drop_field(name)
        return {}
    if known != effort:
        call.drop_field(name)
    return {"thinkingLevel": known.upper()} if dialect.thinking_levels else {"thinkingBudget": _BUDGET_OF_EFFORT[known]}


def _render_switch(call: Call, enabled: bool, name: str, dialect: GeminiModelFeatures) -> dict[str, Any]:
    if enabled:
        return {} if dialect.thinking_levels else {"thinkingBudget": _AUTOMATIC_BUDGET}
    if not dialect.thinking_levels:
        return {"thinkingBudget": 0}
    call.drop_field(name)  # these models always think; "low" is the lowest level that all of them accept
    return {"thinkingLevel": "LOW"}
