"""A whole answer for a chat request. Pure: the same request and salt give the same answer.

First comes thinking when it was asked for, then text or calls of tools. `max_tokens` covers all three, in that order.
There is no sampling, so temperature, top_p, top_k and the penalties have nothing to act on; `seed` and the number of
the choice pick the wording.
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
from tornado_gate_local.conversation import Turn, read_turn
from tornado_gate_local.json_schema import Budget
from tornado_gate_local.phrases import plain_answer, thought
from tornado_gate_local.schema import fill
from tornado_gate_local.tools import PlannedCall, plan_calls
from tornado_gate_local.words import count_tokens, first_tokens, tokens

MOST_TOKENS = 16_384  # of one choice; also the answer to a caller who sets no max_tokens
TOKENS_PER_MESSAGE = 3
TOKENS_PER_ATTACHMENT = 85


def answer(request: ChatRequest, salt: str) -> tuple[Choice, ...]:
    """One choice for each that was asked for. `salt` makes the ids of tool calls unlike those of any other answer.

    Raises InvalidField for a tool_choice that names no tool.
    """
    turn = read_turn(request)
    budget = Budget()
    calls = plan_calls(request, turn, budget)
    fixed = None if calls else _fixed_text(request, turn, budget)
    first = crc32(turn.text[:1_000].encode("utf-8", "replace")) + (request.seed or 0)
    return tuple(
        _choice(request, _Draft(turn, first + number, calls, fixed, f"{salt}:{number}"))
        for number in range(request.n or 1)
    )


class _Draft(Value, frozen=True):
    """What one choice is to say: `calls`, else the text that a schema demands, else words of its own."""

    turn: Turn
    variant: int
    calls: tuple[PlannedCall, ...]
    fixed: str | None
    salt: str


def _fixed_text(request: ChatRequest, turn: Turn, budget: Budget) -> str | None:
    """The JSON text for a schema; None when the text is free."""
    wanted = request.response_format
    if wanted is None or wanted.kind != "json_schema" or wanted.schema is None:
        return None
    return orjson.dumps(fill(wanted.schema, turn.text, budget=budget)).decode()


def _choice(request: ChatRequest, draft: _Draft) -> Choice:
    room = _Room(min(request.max_tokens or MOST_TOKENS, MOST_TOKENS))
    parts: list[Part] = []
    if (thinking := _thinking(request.reasoning, draft)) is not None:
        parts.append(Thinking(text=room.fit(thinking)))
    if draft.calls and not room.full:
        parts += _calls(draft, room)
        return _finished(parts, "tool_calls", room)
    if room.full:
        return _finished(parts, "stop", room)
    text, met = _stopped(_text(request, draft), request.stop)
    parts.append(Text(text=room.fit(text)))
    return _finished(parts, "stop", room, met)


def _finished(parts: list[Part], reason: FinishReason, room: _Room, met: str | None = None) -> Choice:
    if room.full:
        return Choice(parts=tuple(parts), reason="length")
    return Choice(parts=tuple(parts), reason=reason, stop_sequence=met)


def _text(request: ChatRequest, draft: _Draft) -> str:
    if draft.fixed is not None:
        return draft.fixed
    text = plain_answer(draft.turn, draft.variant)
    wanted = request.response_format
    return text if wanted is None or wanted.kind == "text" else orjson.dumps({"answer": text}).decode()


def _calls(draft: _Draft, room: _Room) -> Iterator[ToolCall]:
    """Calls of tools until there is no room left; the arguments of the last may be cut, as a model's are."""
    for number, call in enumerate(draft.calls):
        if room.full:
            return
        room.fit(call.name)
        identifier = "call_" + sha256(f"{draft.salt}:{number}".encode()).hexdigest()[:24]
        yield ToolCall(id=identifier, name=call.name, arguments=room.fit(call.arguments))


def asks_to_think(reasoning: Reasoning | None) -> bool:
    """Whether a caller's words on reasoning ask for any."""
    if reasoning is None or reasoning.enabled is False or reasoning.effort == "none" or reasoning.budget_tokens == 0:
        return False
    return bool(reasoning.enabled or reasoning.effort or reasoning.budget_tokens or reasoning.summary)


def _thinking(reasoning: Reasoning | None, draft: _Draft) -> str | None:
    """A short thought within the caller's budget of tokens; a negative budget is no limit."""
    if reasoning is None or not asks_to_think(reasoning):
        return None
    text = thought(draft.turn, len(draft.calls), draft.variant)
    budget = reasoning.budget_tokens or 0
    return "".join(first_tokens(text, budget)) if budget > 0 else text


class _Room:
    """How many tokens of `max_tokens` are left; `full` once something had to be cut."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.full = False

    def fit(self, text: str) -> str:
        """As much of `text` as there is room for."""
        pieces = first_tokens(text, self.left + 1)
        self.full = self.full or len(pieces) > self.left
        kept = pieces[: self.left]
        self.left -= len(kept)
        return "".join(kept)


def _stopped(text: str, stops: tuple[str, ...]) -> tuple[str, str | None]:
    """The text before the first stop string, and that string."""
    found = [(at, stop) for stop in stops if stop and (at := text.find(stop)) >= 0]
    if not found:
        return text, None
    at, stop = min(found, key=lambda pair: pair[0])
    return text[:at], stop


def usage(request: ChatRequest, choices: tuple[Choice, ...]) -> Usage:
    """Tokens by the rule of `words.count_tokens`: about four characters each.

    Input: every text, call and definition of a tool, plus 3 for each message and 85 for each image, sound and file.
    """
    texts: list[str] = []
    attached = 0
    for message in request.messages:
        attached += _add_texts(message, texts)
    texts += map(_definition, request.tools)
    parts = [part for choice in choices for part in choice.parts]
    thinking = sum(count_tokens([part.text]) for part in parts if isinstance(part, Thinking))
    spoken = sum(_output_tokens(part) for part in parts)
    fixed = TOKENS_PER_MESSAGE * len(request.messages) + TOKENS_PER_ATTACHMENT * attached
    return Usage(
        input_tokens=count_tokens(texts) + fixed,
        output_tokens=thinking + spoken,
        reasoning_tokens=thinking,
    )


def size(request: ChatRequest) -> int:
    """About how many characters a request says."""
    texts: list[str] = []
    for message in request.messages:
        _add_texts(message, texts)
    return sum(map(len, texts))


def _add_texts(message: Message, texts: list[str]) -> int:
    """Add what a message says to `texts`; returns how many parts it has that are no text."""
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


def _definition(tool: Tool | VendorTool) -> str:
    if isinstance(tool, VendorTool):
        return orjson.dumps(tool.value, default=dict).decode()
    return f"{tool.name} {tool.description or ''} {orjson.dumps(tool.parameters or {}, default=dict).decode()}"


def _output_tokens(part: Part) -> int:
    match part:
        case Text(text=text):
            return len(tokens(text))
        case ToolCall(name=name, arguments=arguments):
            return len(tokens(name)) + len(tokens(arguments))
        case _:
            return 0
