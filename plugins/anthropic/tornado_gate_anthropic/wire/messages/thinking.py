"""``thinking`` and ``output_config.effort``, in both directions. Pure.

A request of another format has an effort or a token budget. Its rendering depends on the model, which may lack efforts:

======== ============= ======
effort   budget_tokens effort
======== ============= ======
none     (disabled)    (disabled)
minimal  1,024         low
low      2,048         low
medium   8,192         medium
high     16,384        high
xhigh    32,768        xhigh
max      65,536        max
======== ============= ======

A budget must be at least 1,024 and below ``max_tokens``. A larger one is reduced to half of ``max_tokens``; if that is too
small, thinking is left out. It is also left out when a tool is forced, when the last turn is an assistant turn to be
continued and, with a budget, when the last tool loop does not start with a thinking block. Where the model thinks by default and
a tool is forced, it is switched off. Thinking that cannot be switched off gets the lowest effort.
Source: anthropic-python 2.11, types/thinking_config_*_param.py and types/output_config_param.py; the vendor's pages
"Extended thinking" and "Adaptive thinking".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tornado_gate.types import Call, ChatRequest, Reasoning
from tornado_gate.wire.reasoning import BUDGET_OF_EFFORT, find_effort, fit_effort
from tornado_gate_anthropic.wire.messages.json_values import WIRE_FORMAT, drop_none, select_unknown
from tornado_gate_anthropic.wire.messages.model_features import ModelFeatures
from tornado_gate_anthropic.wire.messages.tools import forces_a_tool

MIN_BUDGET: Final = 1024
_DISPLAYS: Final = ("summarized", "omitted")
"""Values of ``display``; thinking without one is taken to be visible."""
BINDING_BETA: Final = "thinking-binding-controls-2026-08-01"
"""The beta that ``thinking.block_binding`` belongs to."""
_IGNORE_UNBOUND: Final[Mapping[str, Any]] = {"prefix_mismatch_behavior": "drop_block"}


def parse_reasoning(body: Mapping[str, Any]) -> tuple[Reasoning | None, str, dict[str, Any]]:
    """The reasoning options of a body, the wire field they come from, and the members that `Reasoning` does not have."""
    thinking = body.get("thinking")
    effort = (body.get("output_config") or {}).get("effort")
    extra: dict[str, Any] = {}
    enabled = budget = None
    display: Any = "omitted"
    if thinking is not None and thinking["type"] in ("enabled", "adaptive", "disabled"):
        enabled = thinking["type"] != "disabled"
        budget = thinking.get("budget_tokens") if thinking["type"] == "enabled" else None
        display = thinking.get("display") if enabled else "omitted"
        known = ["type"]
        known += ["budget_tokens"] if thinking["type"] == "enabled" else []
        known += ["display"] if enabled and display in _DISPLAYS else []
        extra = {f"thinking.{name}": member for name, member in select_unknown(thinking, *known).items()}
    elif thinking is not None:
        extra = {"thinking": thinking}
    if effort is None and enabled is None:
        return None, "", extra
    name = "output_config.effort" if enabled is None else "thinking"
    reasoning = Reasoning(
        effort=effort,
        budget_tokens=budget,
        enabled=enabled,
        summary="auto" if display == "summarized" else None,
        visible=display != "omitted",
    )
    return reasoning, name, extra


def _render_own(call: Call, reasoning: Reasoning | None, messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """``thinking`` and ``effort`` of a request in this format, unchanged unless another vendor's thinking was left out."""
    if reasoning is None:
        return {}
    if reasoning.budget_tokens is not None and lacks_thinking(messages):
        call.drop_field("thinking")
        return drop_none(thinking={"type": "disabled"}, effort=reasoning.effort)
    thinking: dict[str, Any] | None = None
    if reasoning.budget_tokens is not None:
        thinking = {"type": "enabled", "budget_tokens": reasoning.budget_tokens}
    elif reasoning.enabled is not None:
        thinking = {"type": "adaptive" if reasoning.enabled else "disabled"}
    if thinking is not None and thinking["type"] != "disabled" and (reasoning.summary or not reasoning.visible):
        thinking["display"] = "summarized" if reasoning.summary else "omitted"
    return drop_none(thinking=thinking, effort=reasoning.effort)


def render_reasoning(
    call: Call, request: ChatRequest, abilities: ModelFeatures, messages: Sequence[Mapping[str, Any]], limit: int | None
) -> dict[str, Any]:
    """``thinking`` and ``effort`` for a request of any format; each is left out when unset.

    `messages` are the messages of the outgoing body, and `limit` is its ``max_tokens`` if known.
    """
    reasoning = request.reasoning
    if request.wire_format == WIRE_FORMAT:
        return _render_own(call, reasoning, messages)
    forced = abilities.forced_tools == "without_thinking" and forces_a_tool(request)
    off = {"thinking": {"type": "disabled"}} if forced and abilities.thinking_default else {}
    if reasoning is None:
        return off
    name = request.field_name("reasoning")
    if not _wants_thinking(reasoning):
        return off or _render_off(call, name, abilities, shown=reasoning.summary is not None)
    if abilities.thinking == "none" or forced or (messages and messages[-1]["role"] == "assistant"):
        call.drop_field(name)
        return off
    if abilities.thinking == "adaptive":
        return _render_adaptive(call, request, reasoning, abilities)
    budget = _compute_budget(reasoning, limit, abilities)
    if budget is None or lacks_thinking(messages):
        call.drop_field(name)
        return {}
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


def allow_unbound_thinking(
    thinking: Mapping[str, Any] | None, abilities: ModelFeatures, messages: Sequence[Mapping[str, Any]]
) -> dict[str, Any] | None:
    """The ``thinking`` with which the model ignores earlier thinking after a change of the conversation, instead of rejecting
    it.

    Clients of other formats change system prompts, tools and histories between turns, which only this vendor forbids; most do
    not know that their history has thinking, because the core restores it. None: `thinking` need not change.

    Source: platform.claude.com/docs/en/build-with-claude/preserved-thinking (read 2026-11-22). The member is accepted beside
    "adaptive" only, which is the default of these models.
    """
    if not abilities.bound_thinking or (thinking is not None and thinking["type"] != "adaptive"):
        return None
    contents = [message["content"] for message in messages if message["role"] == "assistant"]
    blocks = [block for content in contents if isinstance(content, list) for block in content]
    if not any(block["type"] in ("thinking", "redacted_thinking") for block in blocks):
        return None
    return {**(thinking or {"type": "adaptive"}), "block_binding": dict(_IGNORE_UNBOUND)}


def _render_off(call: Call, name: str, abilities: ModelFeatures, *, shown: bool) -> dict[str, Any]:
    """Thinking switched off, or the lowest effort where that is impossible; then it is `shown` to a caller who requested it."""
    if abilities.thinking == "none":
        return {}
    if abilities.thinking_off != "never":
        return {"thinking": {"type": abilities.thinking_off}}
    call.drop_field(name)
    thinking = {"type": "adaptive", "display": "summarized"} if shown and abilities.thinking == "adaptive" else None
    return drop_none(thinking=thinking, effort=fit_effort("low", abilities.efforts))


def _wants_thinking(reasoning: Reasoning) -> bool:
    return reasoning.enabled is not False and reasoning.effort != "none" and reasoning.budget_tokens != 0


def _render_adaptive(
    call: Call, request: ChatRequest, reasoning: Reasoning, abilities: ModelFeatures
) -> dict[str, Any]:
    effort = reasoning.effort
    if reasoning.budget_tokens is not None and reasoning.budget_tokens > 0:
        call.drop_field(request.member_name("reasoning", "budget_tokens"))
        effort = effort or find_effort(reasoning.budget_tokens)
    fitted = effort and fit_effort("low" if effort == "minimal" else effort, abilities.efforts)
    if effort not in (fitted, "minimal"):
        call.drop_field(request.field_name("reasoning"))
    shown = reasoning.summary is not None or abilities.display == "omitted"
    thinking = {"type": "adaptive"} | ({"display": "summarized"} if shown else {})
    return {"thinking": thinking} | drop_none(effort=fitted)


def _compute_budget(reasoning: Reasoning, limit: int | None, abilities: ModelFeatures) -> int | None:
    """The thinking budget in tokens; None when `limit` leaves less than `MIN_BUDGET`.

    Without a limit, the model's largest response leaves room for its usual one, or is shared in halves.
    """
    wanted_budget = reasoning.budget_tokens
    if wanted_budget is None or wanted_budget < 0:  # no budget given: use the budget of the effort level
        wanted_budget = BUDGET_OF_EFFORT.get(reasoning.effort or "medium", BUDGET_OF_EFFORT["medium"])
    budget = max(wanted_budget, MIN_BUDGET)
    if limit is None and abilities.max_output is not None:
        budget = min(budget, max(abilities.max_output - abilities.default_output, abilities.max_output // 2))
    if limit is not None and budget >= limit:
        budget = limit // 2
    return budget if budget >= MIN_BUDGET else None


def lacks_thinking(messages: Sequence[Any]) -> bool:
    """Return whether the tool loop at the end does not start with thinking, which the vendor rejects beside a budget.

    A loop is the model's output since the last user turn with more than results; adjacent messages of one role are one turn.
    Source: the vendor's page "Extended thinking", "Tool use" and "Interleaved thinking" (read 2026-11-22).
    """
    first: Sequence[Any] = ()
    calls = answered = False
    role = ""
    for message in reversed(messages):
        if not isinstance(message, Mapping) or message.get("role") == "system":
            continue
        blocks = message.get("content") if isinstance(message.get("content"), list) else ()
        kinds = [block.get("type") for block in blocks or () if isinstance(block, Mapping)]
        if role == "user" and message["role"] != "user" and not answered:
            break
        if message["role"] == "assistant":
            first, calls = kinds or first, calls or "tool_use" in kinds
        answered = "tool_result" in kinds or (answered and role == "user" == message["role"])
        role = message["role"]
    return calls and first[0] not in ("thinking", "redacted_thinking")
