"""Messages of the vocabulary as ``system`` and ``messages``: the client half. Pure.

The vendor's rules, kept for every conversation whatever it looked like:

- System and developer messages before the first turn are merged into ``system``. One that stands later keeps its place:
  as a message of role "system" where the model takes that (directly after a user's turn, and before an assistant's or
  at the end), otherwise as text in the user's turn, marked ``<system>``, and its role is reported as lost.
- Neighbours of one role are one turn.
- The results of the tools of one turn stand together in the user's turn directly after it, before anything else.
- No text is empty; of a foreign request none is all white space, and the last turn of an assistant does not end in it.
- Thinking without the signature of its issuer cannot go up: it is left out and reported.

Source: anthropic-python 2.11, types/message_param.py; the vendor's pages "Tool use" and "Mid-conversation system messages".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from tornado_gate.types import (
    Call,
    ChatRequest,
    File,
    Image,
    Message,
    Part,
    Refusal,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    VendorPart,
)
from tornado_gate.types.value import State, field
from tornado_gate.wire.anthropic_messages.ids import render_id
from tornado_gate.wire.anthropic_messages.json_values import WIRE_FORMAT, add_extra
from tornado_gate.wire.anthropic_messages.model_features import ModelFeatures
from tornado_gate.wire.anthropic_messages.parts import render_block

Block = dict[str, Any]
Path = Callable[..., str]
"""`ChatRequest.path` of one message: called with a part's index, or without. Made only when there is something to report."""


class _Turn(State, eq=False):
    """One turn. `results` come before `blocks`. `plain`: it is one message whose content was a bare string."""

    role: str
    path: Path
    results: list[Block] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    plain: bool = False
    extra: dict[str, Any] = field(default_factory=dict)

    def render(self) -> dict[str, Any]:
        return add_extra(
            {"role": self.role, "content": _render_content([*self.results, *self.blocks], self.plain)}, self.extra
        )


def _render_content(blocks: list[Block], plain: bool) -> str | list[Block]:
    if plain and len(blocks) == 1 and blocks[0].keys() == {"type", "text"}:
        return str(blocks[0]["text"])
    return blocks


def render_conversation(call: Call, request: ChatRequest, abilities: ModelFeatures) -> dict[str, Any]:
    """``system``, when there is one, and ``messages``. What cannot be said is reported to `call.lose`."""
    writer = _TurnWriter(call, request.wire_format == WIRE_FORMAT)
    messages = [(partial(request.path, number), message) for number, message in enumerate(request.messages)]
    leading = 0
    while leading < len(messages) and messages[leading][1].role in ("system", "developer"):
        leading += 1
    body: dict[str, Any] = {}
    if system := [block for path, message in messages[:leading] for block in writer.render_blocks(path, message)]:
        body["system"] = _render_content(system, leading == 1 and messages[0][1].plain)
    for path, message in messages[leading:]:
        writer.add(path, message)
    turns = writer.turns if writer.own else _place_system_turns(call, writer.turns, abilities)
    if not writer.own:
        _strip_last_text(turns)
    return body | {"messages": [turn.render() for turn in turns]}


class _TurnWriter:
    """Puts messages into turns. `own`: the request came in this format."""

    def __init__(self, call: Call, own: bool) -> None:
        self.own = own
        self.turns: list[_Turn] = []
        self._call = call
        self._callers: dict[str, _Turn] = {}

    def add(self, path: Path, message: Message) -> None:
        """Add a message to the turn that it belongs to."""
        results = [(index, part) for index, part in enumerate(message.parts) if isinstance(part, ToolResult)]
        for index, result in results:
            turn = self._get_turn_after(self._callers.get(result.call_id), path)
            turn.results.append(self._render_result(partial(path, index), message, result))
            turn.extra |= message.extra if self.own else {}
        blocks = self.render_blocks(path, message)
        if not blocks:
            return
        role = {"developer": "system", "tool": "user"}.get(message.role, message.role)
        last = self.turns[-1] if self.turns else None
        if last is None or last.role != role:
            last = _Turn(role=role, path=path, plain=message.plain)
            self.turns.append(last)
        else:
            last.plain = False
        last.blocks += blocks
        last.extra |= message.extra if self.own else {}
        for part in message.parts:
            if isinstance(part, ToolCall):
                self._callers[part.id] = last

    def _get_turn_after(self, caller: _Turn | None, path: Path) -> _Turn:
        """The user's turn directly after `caller`, or the last one when nobody is known to have called."""
        place = len(self.turns)
        if caller is None and self.turns and self.turns[-1].role == "user":
            place -= 1
        while caller is not None and self.turns[place - 1] is not caller:
            place -= 1
        if place == len(self.turns) or self.turns[place].role != "user":
            self.turns.insert(place, _Turn(role="user", path=path))
        self.turns[place].plain = False
        return self.turns[place]

    def render_blocks(self, path: Path, message: Message) -> list[Block]:
        """The blocks of a message, but for results of tools."""
        if message.name is not None:
            self._call.drop_field(f"{path()}.name")
        if not self.own:
            self._drop_extra(path, message.extra)
        blocks: list[Block] = []
        for index, part in enumerate(message.parts):
            if not isinstance(part, ToolResult) and self._has_content(part):
                block = self._render_block(partial(path, index), part, message.role)
                blocks += [block] if block is not None else []
        return blocks

    def _has_content(self, part: Part) -> bool:
        if not isinstance(part, (Text, Refusal)):
            return True
        return bool(part.text if self.own else part.text.strip())

    def _render_block(self, path: Path, part: Part, role: str) -> Block | None:
        unsigned = isinstance(part, Thinking) and part.signature is None
        block = None if unsigned or not self._is_allowed(part, role) else render_block(part, self.own)
        if block is None:
            self._call.drop_field(path())
        elif not self.own and not isinstance(part, VendorPart):
            if isinstance(part, Image) and part.detail not in (None, "auto"):
                self._call.drop_field(f"{path()}.detail")
            self._drop_extra(path, part.extra)
        return block

    def _is_allowed(self, part: Part, role: str) -> bool:
        """Whether a part of a foreign request may stand in a message of this role."""
        if self.own or role in ("user", "tool"):
            return True
        return isinstance(part, (Text, Refusal)) or (role == "assistant" and isinstance(part, (Thinking, ToolCall)))

    def _drop_extra(self, path: Path, extra: Mapping[str, Any]) -> None:
        for name, value in extra.items():
            if value is not None:
                self._call.drop_field(f"{path()}.{name}")

    def _render_result(self, path: Path, message: Message, result: ToolResult) -> Block:
        """A ``tool_result`` block; of what it holds, text, pictures and documents are known to the vendor."""
        value: Block = {"type": "tool_result", "tool_use_id": render_id(result.call_id)}
        blocks: list[Block] = []
        for index, part in enumerate(result.parts):
            place = partial(_get_content_path, path, index)
            if not self._has_content(part):
                continue
            if isinstance(part, (Text, Image, File)) or (self.own and isinstance(part, VendorPart)):
                block = self._render_block(place, part, "tool")
                blocks += [block] if block is not None else []
            else:
                self._call.drop_field(place())
        if blocks:
            value["content"] = _render_content(blocks, message.plain)
        if result.is_error:
            value["is_error"] = True
        if self.own:
            return add_extra(value, result.extra)
        self._drop_extra(path, result.extra)
        return value


def _get_content_path(path: Path, index: int) -> str:
    return f"{path()}.content.{index}"


def _place_system_turns(call: Call, turns: Iterable[_Turn], abilities: ModelFeatures) -> list[_Turn]:
    """The turns of a foreign request with each system turn where the model takes it, or as a user's words."""
    turns = list(turns)
    settled: list[_Turn] = []
    for place, turn in enumerate(turns):
        last = settled[-1] if settled else None
        before_assistant = place + 1 == len(turns) or turns[place + 1].role == "assistant"
        placed = abilities.system_turns and last is not None and last.role == "user" and before_assistant
        settled_turn = turn
        if turn.role == "system" and not placed:
            call.drop_field(f"{turn.path()}.role")
            settled_turn = _Turn(role="user", path=turn.path, blocks=[_mark_as_system(block) for block in turn.blocks])
        if last is not None and last.role == settled_turn.role:
            last.plain = False
            last.results += settled_turn.results
            last.blocks += settled_turn.blocks
        else:
            settled.append(settled_turn)
    return settled


def _mark_as_system(block: Block) -> Block:
    return {"type": "text", "text": f"<system>\n{block['text']}\n</system>"}


def _strip_last_text(turns: list[_Turn]) -> None:
    """Take the white space from the end of an assistant's words that are to be continued."""
    if turns and turns[-1].role == "assistant" and turns[-1].blocks:
        last = turns[-1].blocks[-1]
        if last["type"] == "text":
            last["text"] = last["text"].rstrip()
