"""The complete answer to a chat request. Pure: the same request and salt give the same answer.

Thinking comes first, when the request enables reasoning, then text or tool calls. `max_tokens` limits their sum, in
that order. There is no sampling, so temperature, top_p, top_k and the penalties have no effect; `seed` and the index
of the choice select the wording.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from zlib import crc32

import orjson

from tornado_gate.types import (
    ChatRequest,
    Choice,
    FinishReason,
    Message,
    Part,
    Reasoning,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
    VendorTool,
)
from tornado_gate.types.value import Value
from tornado_gate_local.conversation import LocalTurn, read_turn
from tornado_gate_local.json_schema import StepBudget
from tornado_gate_local.phrases import make_answer, make_thinking
from tornado_gate_local.schema import fill
from tornado_gate_local.tools import PlannedCall, plan_calls
from tornado_gate_local.words import count_tokens, split_tokens, take_first_tokens

MAX_TOKENS = 16_384  # of one choice; also the limit of a request without max_tokens
TOKENS_PER_MESSAGE = 3
TOKENS_PER_ATTACHMENT = 85


def make_choices(request: ChatRequest, salt: str) -> tuple[Choice, ...]:
    """Return `request.n` choices. `salt` makes the ids of tool calls unique to one answer.

    Raises InvalidField for a tool_choice that names a tool that is not in `tools`.
    """
    turn = read_turn(request)
    budget = StepBudget()
    calls = plan_calls(request, turn, budget)
    fixed = None if calls else _make_schema_text(request, turn, budget)
    first = crc32(turn.text[:1_000].encode("utf-8", "replace")) + (request.seed or 0)
    return tuple(
        _make_choice(request, _Draft(turn, first + number, calls, fixed, f"{salt}:{number}"))
        for number in range(request.n or 1)
    )


class _Draft(Value, frozen=True):
    """The content of one choice: `calls`; without them `fixed`, the JSON for a schema; without it generated text."""

    turn: LocalTurn
    variant: int
    calls: tuple[PlannedCall, ...]
    fixed: str | None
    salt: str


def _make_schema_text(request: ChatRequest, turn: LocalTurn, budget: StepBudget) -> str | None:
    """The JSON text for the schema of the response format; None when the format has no schema."""
    wanted = request.response_format
    if wanted is None or wanted.kind != "json_schema" or wanted.schema is None:
        return None
    return orjson.dumps(fill(wanted.schema, turn.text, budget=budget)).decode()


def _make_choice(request: ChatRequest, draft: _Draft) -> Choice:
    room = _TokenBudget(min(request.max_tokens or MAX_TOKENS, MAX_TOKENS))
    parts: list[Part] = []
    if (thinking := _make_thinking(request.reasoning, draft)) is not None:
        parts.append(Thinking(text=room.cut_to_fit(thinking)))
    if draft.calls and not room.full:
        parts += _iterate_calls(draft, room)
        return _finish_choice(parts, "tool_calls", room)
    if room.full:
        return _finish_choice(parts, "stop", room)
    text, met = _cut_at_stop(_make_text(request, draft), request.stop)
    parts.append(Text(text=room.cut_to_fit(text)))
    return _finish_choice(parts, "stop", room, met)


def _finish_choice(parts: list[Part], reason: FinishReason, room: _TokenBudget, met: str | None = None) -> Choice:
    if room.full:
        return Choice(parts=tuple(parts), reason="length")
    return Choice(parts=tuple(parts), reason=reason, stop_sequence=met)


def _make_text(request: ChatRequest, draft: _Draft) -> str:
    if draft.fixed is not None:
        return draft.fixed
    text = make_answer(draft.turn, draft.variant)
    wanted = request.response_format
    return text if wanted is None or wanted.kind == "text" else orjson.dumps({"answer": text}).decode()


def _iterate_calls(draft: _Draft, room: _TokenBudget) -> Iterator[ToolCall]:
    """Tool calls until the token budget is used up; the arguments of the last one may be cut, as a model's are."""
    for number, call in enumerate(draft.calls):
        if room.full:
            return
        room.cut_to_fit(call.name)
        identifier = "call_" + sha256(f"{draft.salt}:{number}".encode()).hexdigest()[:24]
        yield ToolCall(id=identifier, name=call.name, arguments=room.cut_to_fit(call.arguments))


def is_thinking_requested(reasoning: Reasoning | None) -> bool:
    """Whether the caller's reasoning settings enable reasoning."""
    if reasoning is None or reasoning.enabled is False or reasoning.effort == "none" or reasoning.budget_tokens == 0:
        return False
    return bool(reasoning.enabled or reasoning.effort or reasoning.budget_tokens or reasoning.summary)


def _make_thinking(reasoning: Reasoning | None, draft: _Draft) -> str | None:
    """A short thinking text within the caller's token budget; a negative budget means no limit."""
    if reasoning is None or not is_thinking_requested(reasoning):
        return None
    text = make_thinking(draft.turn, len(draft.calls), draft.variant)
    budget = reasoning.budget_tokens or 0
    return "".join(take_first_tokens(text, budget)) if budget > 0 else text


class _TokenBudget:
    """The tokens of `max_tokens` that are left; `full` is true once a text was cut."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.full = False

    def cut_to_fit(self, text: str) -> str:
        """The beginning of `text` that fits into the remaining tokens."""
        pieces = take_first_tokens(text, self.left + 1)
        self.full = self.full or len(pieces) > self.left
        kept = pieces[: self.left]
        self.left -= len(kept)
        return "".join(kept)


def _cut_at_stop(text: str, stops: tuple[str, ...]) -> tuple[str, str | None]:
    """The text before the first stop string, and that stop string; None when no stop string occurs."""
    matches = [(at, stop) for stop in stops if stop and (at := text.find(stop)) >= 0]
    if not matches:
        return text, None
    at, stop = min(matches, key=lambda pair: pair[0])
    return text[:at], stop


def count_usage(request: ChatRequest, choices: tuple[Choice, ...]) -> Usage:
    """Token counts by the rule of `words.count_tokens`: about four characters a token.

    Input: every text, tool call and tool definition, plus 3 for each message and 85 for each image, audio part and
    file.
    """
    texts: list[str] = []
    attached = 0
    for message in request.messages:
        attached += _add_texts(message, texts)
    texts += map(_render_definition, request.tools)
    parts = [part for choice in choices for part in choice.parts]
    thinking = sum(count_tokens([part.text]) for part in parts if isinstance(part, Thinking))
    spoken = sum(_count_output_tokens(part) for part in parts)
    fixed = TOKENS_PER_MESSAGE * len(request.messages) + TOKENS_PER_ATTACHMENT * attached
    return Usage(
        input_tokens=count_tokens(texts) + fixed,
        output_tokens=thinking + spoken,
        reasoning_tokens=thinking,
    )


def estimate_size(request: ChatRequest) -> int:
    """The number of characters in the texts and tool calls of a request."""
    texts: list[str] = []
    for message in request.messages:
        _add_texts(message, texts)
    return sum(map(len, texts))


def _add_texts(message: Message, texts: list[str]) -> int:
    """Append the texts of a message to `texts`; returns the number of its parts that are not text."""
    others = 0
    for part in message.parts:
        if isinstance(part, (Text, Thinking)):
            texts.append(part.text)
        elif isinstance(part, ToolCall):
            texts += [part.name, part.arguments]
        elif isinstance(part, ToolResult):
            others += _add_texts(Message(role="tool", parts=part.parts), texts)
        else:
            others += 1
    return others


def _render_definition(tool: Tool | VendorTool) -> str:
    if isinstance(tool, VendorTool):
        return orjson.dumps(tool.value, default=dict).decode()
    return f"{tool.name} {tool.description or ''} {orjson.dumps(tool.parameters or {}, default=dict).decode()}"


def _count_output_tokens(part: Part) -> int:
    match part:
        case Text(text=text):
            return len(split_tokens(text))
        case ToolCall(name=name, arguments=arguments):
            return len(split_tokens(name)) + len(split_tokens(arguments))
        case _:
            return 0
