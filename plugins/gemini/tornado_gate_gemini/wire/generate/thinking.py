"""``thinkingConfig`` and `Reasoning`, in both directions. Pure.

The table from effort to budgets and levels comes from the vendor's OpenAI-compatible endpoint:
https://ai.google.dev/gemini-api/docs/openai. A budget of 0 disables thinking, -1 lets the model choose.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.types import Call, ChatRequest, Reasoning
from tornado_gate.wire.reasoning import EFFORTS, find_effort, fit_effort
from tornado_gate_gemini.wire.generate.model_features import GeminiModelFeatures
from tornado_gate_gemini.wire.generate.names import WIRE_FORMAT

_BUDGET_OF_EFFORT: Final[Mapping[str, int]] = {"minimal": 1024, "low": 1024, "medium": 8192, "high": 24576}
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
    """The ``thinkingConfig`` for the model: a budget or a level, never both; None if neither is set."""
    reasoning = request.reasoning
    if reasoning is None:
        return None
    if request.wire_format == WIRE_FORMAT:
        config = _render_own(reasoning)
    elif dialect.thinking_levels:
        config = _render_level(call, request, reasoning, dialect)
    else:
        config = _render_budget(call, request, reasoning, dialect)
    if reasoning.summary is not None or (reasoning.visible and config.get("thinkingBudget") != 0):
        config["includeThoughts"] = True
    return config or None


def _render_own(reasoning: Reasoning) -> dict[str, Any]:
    """The members as the caller of this format sent them."""
    if reasoning.effort is not None:
        return {"thinkingLevel": reasoning.effort.upper()}
    if reasoning.enabled is not None:
        return {"thinkingBudget": _AUTOMATIC_BUDGET if reasoning.enabled else 0}
    return {} if reasoning.budget_tokens is None else {"thinkingBudget": reasoning.budget_tokens}


def _render_level(
    call: Call, request: ChatRequest, reasoning: Reasoning, dialect: GeminiModelFeatures
) -> dict[str, Any]:
    """A level. These models accept budgets only for compatibility, so a budget becomes the level that corresponds to it."""
    name = request.field_name("reasoning")
    budget = reasoning.budget_tokens
    effort = reasoning.effort
    if effort is not None and budget is not None:
        call.drop_field(request.member_name("reasoning", "budget_tokens"))
    if effort == "none" or (effort is None and (reasoning.enabled is False or budget == 0)):
        call.drop_field(name)  # these models always think
        return {"thinkingLevel": (fit_effort("minimal", dialect.efforts or ("low",)) or "low").upper()}
    if effort is None:
        budget_effort = find_effort(budget) if budget is not None and budget > 0 else None
        return {} if budget_effort is None else {"thinkingLevel": (_fit_level(budget_effort, dialect) or "low").upper()}
    fitted = _fit_level(effort, dialect)
    if fitted != effort:
        call.drop_field(name)
    return {} if fitted is None else {"thinkingLevel": fitted.upper()}


def _fit_level(effort: str, dialect: GeminiModelFeatures) -> str | None:
    """The nearest level of the model; None for an effort that no vendor has."""
    return fit_effort(effort, dialect.efforts or tuple(_BUDGET_OF_EFFORT)) if effort in EFFORTS else None


def _render_budget(
    call: Call, request: ChatRequest, reasoning: Reasoning, dialect: GeminiModelFeatures
) -> dict[str, Any]:
    """A budget within the bounds of the model."""
    name = request.field_name("reasoning")
    budget = reasoning.budget_tokens
    if budget is not None and reasoning.effort is not None:
        call.drop_field(request.member_name("reasoning", "effort"))
    elif budget is None and reasoning.effort is not None and reasoning.effort != "none":
        fitted = fit_effort(reasoning.effort, tuple(_BUDGET_OF_EFFORT)) if reasoning.effort in EFFORTS else None
        if fitted != reasoning.effort:
            call.drop_field(name)
        if fitted is None:
            return {}
        budget = _BUDGET_OF_EFFORT[fitted]
    if budget is None and reasoning.effort is None and reasoning.enabled is None:
        return {}
    if budget == 0 or reasoning.effort == "none" or reasoning.enabled is False:
        if not dialect.budget_off:
            call.drop_field(name)
        return {"thinkingBudget": 0 if dialect.budget_off else dialect.least_budget}
    if budget is None or budget < 0:
        return {"thinkingBudget": _AUTOMATIC_BUDGET}
    if dialect.most_budget is not None and budget > dialect.most_budget:
        call.drop_field(
            request.member_name("reasoning", "budget_tokens") if reasoning.budget_tokens is not None else name
        )
        budget = dialect.most_budget
    return {"thinkingBudget": max(budget, dialect.least_budget)}
