"""``thinking`` and ``output_config.effort``, both ways. Pure.

A request of another format asks for an effort or a budget; how that is said depends on the model:

======== ============= ======
effort   budget_tokens effort
======== ============= ======
none     (disabled)    (disabled)
minimal  1,024         low
low      2,048         low
medium   8,192         medium
high     16,384        high
xhigh    32,768        xhigh (high where the model does not know it)
max      65,536        max
======== ============= ======

A budget must be 1,024 or more and below ``max_tokens``: one that is not is cut to half of ``max_tokens``, and when that is
too little there is no thinking. Neither is there when a tool is forced, when the last turn is an assistant's that is to
be continued, or, with a budget, when the calls of the last turn have lost the thinking before them.

Source: anthropic-python 2.11, types/thinking_config_*_param.py and types/output_config_param.py; the vendor's pages
"Extended thinking" and "Adaptive thinking".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tornado_gate.types import Call, ChatRequest, Reasoning
from tornado_gate.wire.anthropic_messages.json_values import WIRE_FORMAT, drop_none, select_unknown
from tornado_gate.wire.anthropic_messages.model_features import ModelFeatures
from tornado_gate.wire.anthropic_messages.tools import forces_a_tool
from tornado_gate.wire.reasoning import BUDGET_OF_EFFORT, find_effort

MIN_BUDGET: Final = 1024


def parse_reasoning(body: Mapping[str, Any]) -> tuple[Reasoning | None, str, dict[str, Any]]:
    """What a body says of thinking, the name of the field that says it, and what the vocabulary has no word for."""
    thinking = body.get("thinking")
    effort = (body.get("output_config") or {}).get("effort")
    extra: dict[str, Any] = {}
    enabled = budget = None
    if thinking is not None and thinking["type"] in ("enabled", "adaptive", "disabled"):
        enabled = thinking["type"] != "disabled"
        budget = thinking.get("budget_tokens") if thinking["type"] == "enabled" else None
        known = ("type", "budget_tokens") if thinking["type"] == "enabled" else ("type",)
        extra = {f"thinking.{name}": member for name, member in select_unknown(thinking, *known).items()}
    elif thinking is not None:
        extra = {"thinking": thinking}
    if effort is None and enabled is None:
        return None, "", extra
    name = "output_config.effort" if enabled is None else "thinking"
    return Reasoning(effort=effort, budget_tokens=budget, enabled=enabled), name, extra


def render_own(reasoning: Reasoning | None) -> dict[str, Any]:
    """``thinking`` and ``effort`` of a request that came in this format: as they were."""
    if reasoning is None:
        return {}
    thinking: dict[str, Any] | None = None
    if reasoning.budget_tokens is not None:
        thinking = {"type": "enabled", "budget_tokens": reasoning.budget_tokens}
    elif reasoning.enabled is not None:
        thinking = {"type": "adaptive" if reasoning.enabled else "disabled"}
    return drop_none(thinking=thinking, effort=reasoning.effort)


def render_reasoning(
    call: Call, request: ChatRequest, abilities: ModelFeatures, messages: Sequence[Mapping[str, Any]], limit: int | None
) -> dict[str, Any]:
    """``thinking`` and ``effort`` for a request of any format, each when there is something to say.

    `messages` are those of the outgoing body and `limit` its ``max_tokens`` when that is known.
    """
    reasoning = request.reasoning
    if request.wire_format == WIRE_FORMAT:
        return render_own(reasoning)
    if reasoning is None:
        return {}
    if not _wants_thinking(reasoning):
        return {"thinking": {"type": "disabled"}}
    name = request.field_name("reasoning")
    if forces_a_tool(request) or (messages and messages[-1]["role"] == "assistant"):
        call.drop_field(name)
        return {}
    if abilities.thinking == "adaptive":
        return _render_adaptive(call, reasoning, name, abilities)
    budget = _compute_budget(reasoning, limit)
    if budget is None or _lacks_thinking(messages):
        call.drop_field(name)
        return {}
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


def _wants_thinking(reasoning: Reasoning) -> bool:
    return reasoning.enabled is not False and reasoning.effort != "none" and reasoning.budget_tokens != 0


def _render_adaptive(call: Call, reasoning: Reasoning, name: str, abilities: ModelFeatures) -> dict[str, Any]:
    effort = reasoning.effort
    if reasoning.budget_tokens is not None and reasoning.budget_tokens > 0:
        call.drop_field(f"{name}.budget_tokens")
        effort = effort or find_effort(reasoning.budget_tokens)
    known = {"minimal": "low", **({} if abilities.xhigh else {"xhigh": "high"})}
    thinking = {"type": "adaptive"} | ({"display": "summarized"} if reasoning.summary else {})
    return {"thinking": thinking} | drop_none(effort=None if effort is None else known.get(effort, effort))


def _compute_budget(reasoning: Reasoning, limit: int | None) -> int | None:
    """Tokens to think with, or None when `limit` leaves too few."""
    asked = reasoning.budget_tokens
    if asked is None or asked < 0:  # as many as the model likes
        asked = BUDGET_OF_EFFORT.get(reasoning.effort or "medium", BUDGET_OF_EFFORT["medium"])
    budget = max(asked, MIN_BUDGET)
    if limit is not None and budget >= limit:
        budget = limit // 2
    return budget if budget >= MIN_BUDGET else None


def _lacks_thinking(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the last assistant's turn calls tools and does not begin with thinking, which the vendor refuses."""
    for message in reversed(messages):
        if message["role"] == "assistant":
            blocks = message["content"] if isinstance(message["content"], list) else []
            kinds = [block.get("type") for block in blocks]
            return "tool_use" in kinds and kinds[0] not in ("thinking", "redacted_thinking")
    return False
