"""Common messages as ``system`` and ``messages``: the client half. Pure.

The output follows the vendor's rules for any conversation:

- System and developer messages before the first turn are merged into ``system``. A later one keeps its position: as a
  message of role "system" where the model accepts it (directly after a user turn, and before an assistant turn or at the
  end), otherwise as text in the user turn, marked ``<system>``; then its role is reported as dropped.
- Adjacent messages of one role are merged into one turn.
- The tool results of a turn come first in the user turn directly after it. Ids of calls are unique: a call that repeats an id
  gets another one, and so does its result.
- Empty text is left out, and messages without other content. A conversation of system messages only becomes a user turn; one
  without any content is a 400. For requests of other formats, so is text of white space only, and trailing white space of a
  last assistant turn.
- Thinking without a signature is dropped and reported, because the vendor rejects it.

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
from tornado_gate.types.value import State, field, replace
from tornado_gate.wire.accepted_media import fit_medium
from tornado_gate.wire.empty_conversations import empty_conversation_error
from tornado_gate.wire.prompt_cache import CACHE_CONTROL, select_losses
from tornado_gate_anthropic.wire.messages.cache_markers import MarkerWriter
from tornado_gate_anthropic.wire.messages.ids import render_id
from tornado_gate_anthropic.wire.messages.json_values import WIRE_FORMAT, add_extra
from tornado_gate_anthropic.wire.messages.model_features import ModelFeatures
from tornado_gate_anthropic.wire.messages.parts import render_block
from tornado_gate_anthropic.wire.messages.server_tools import is_unanswered

Block = dict[str, Any]
Path = Callable[..., str]
"""Returns `ChatRequest.path` of one message or, given an index, of its part. Called only to report a dropped field."""


class _Turn(State, eq=False):
    """One turn. `results` come before `blocks`. `plain` is True for a single message whose content was one string."""

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


def render_conversation(
    call: Call, request: ChatRequest, abilities: ModelFeatures, markers: MarkerWriter
) -> dict[str, Any]:
    """``system``, if any, and ``messages``. Reports unsupported parts and fields to `call.drop_field`."""
    writer = _TurnWriter(call, request.wire_format == WIRE_FORMAT, markers, abilities.media_types)
    messages = [(partial(request.path, number), message) for number, message in enumerate(request.messages)]
    leading = 0
    while leading < len(messages) and messages[leading][1].role in ("system", "developer"):
        leading += 1
    body: dict[str, Any] = {}
    if system := [block for path, message in messages[:leading] for block in writer.render_blocks(path, message)]:
        body["system"] = _render_content(system, leading == 1 and messages[0][1].plain)
    for path, message in messages[leading:]:
        writer.add(path, message)
    if writer.own:
        return body | {"messages": [turn.render() for turn in writer.turns]}
    turns = _place_system_turns(call, writer.turns, abilities)
    _strip_last_text(turns)
    rendered = [turn.render() for turn in turns]
    if not rendered and system:  # the vendor requires a user turn
        rendered = [{"role": "user", "content": body.pop("system")}]
    if not rendered:
        raise empty_conversation_error(request.field_name("messages"))
    return body | {"messages": rendered}


class _TurnWriter:
    """The writer of turns from messages. `own` is True when the request came in this format."""

    def __init__(self, call: Call, own: bool, markers: MarkerWriter, media_types: tuple[str, ...] | None) -> None:
        self.own = own
        self._media_types = media_types
        self.turns: list[_Turn] = []
        self._call = call
        self._markers = markers
        self._sent_ids: set[str] = set()
        self._waiting: dict[str, list[tuple[str, _Turn]]] = {}
        self._answered: dict[str, tuple[str, _Turn]] = {}

    def add(self, path: Path, message: Message) -> None:
        """Add a message to its turn."""
        results = [(index, part) for index, part in enumerate(message.parts) if isinstance(part, ToolResult)]
        for index, result in results:
            call_id, caller = self._take_call(result.call_id)
            turn = self._get_turn_after(caller, path)
            renamed = result if call_id == result.call_id else replace(result, call_id=call_id)
            turn.results.append(block := self._render_result(partial(path, index), message, renamed))
            turn.extra |= message.extra if self.own else {}
            if message.extra and not self.own and len(message.parts) == 1:
                self._markers.mark([block], message.extra, path)
        sent = self._make_ids_unique(message) if message.role == "assistant" else message
        blocks = self.render_blocks(path, sent)
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
        for part, original in zip(sent.parts, message.parts, strict=True):
            if isinstance(part, ToolCall) and isinstance(original, ToolCall):
                self._waiting.setdefault(original.id, []).append((part.id, last))

    def _make_ids_unique(self, message: Message) -> Message:
        """`message` with another id for each call whose id an earlier call has, which only this vendor rejects."""
        parts: list[Part] = []
        for part in message.parts:
            if isinstance(part, ToolCall) and not self.own:
                call_id, number = part.id, 1
                while call_id in self._sent_ids:
                    number += 1
                    call_id = f"{part.id}-{number}"
                self._sent_ids.add(call_id)
                parts.append(part if call_id == part.id else replace(part, id=call_id))
            else:
                parts.append(part)
        return replace(message, parts=tuple(parts)) if parts != list(message.parts) else message

    def _take_call(self, call_id: str) -> tuple[str, _Turn | None]:
        """The sent id of the call that a result belongs to, and its turn: the first call of this id without a result."""
        waiting = self._waiting.get(call_id)
        if waiting:
            self._answered[call_id] = waiting.pop(0)
        return self._answered.get(call_id, (call_id, None))

    def _get_turn_after(self, caller: _Turn | None, path: Path) -> _Turn:
        """The user turn directly after `caller`, inserted if missing; the last one when `caller` is None (unknown call id)."""
        position = len(self.turns)
        if caller is None and self.turns and self.turns[-1].role == "user":
            position -= 1
        while caller is not None and self.turns[position - 1] is not caller:
            position -= 1
        if position == len(self.turns) or self.turns[position].role != "user":
            self.turns.insert(position, _Turn(role="user", path=path))
        self.turns[position].plain = False
        return self.turns[position]

    def render_blocks(self, path: Path, message: Message) -> list[Block]:
        """The blocks of a message, without its tool results."""
        if message.name is not None:
            self._call.drop_field(f"{path()}.name")
        if message.extra and not self.own:
            self._drop_extra(path, message.extra)
        blocks: list[Block] = []
        for index, part in enumerate(message.parts):
            if isinstance(part, VendorPart) and part.restored is not None:
                if is_unanswered(part.restored):
                    self._call.drop_field(path(index))
                else:
                    blocks += map(dict, part.restored)
            elif not isinstance(part, ToolResult) and self._has_content(part):
                block = self._render_block(partial(path, index), part, message.role)
                blocks += [block] if block is not None else []
            elif isinstance(part, Text) and part.extra and not self.own:
                self._markers.mark(blocks, part.extra, partial(path, index))
        if message.extra and not self.own and (blocks or message.role != "tool"):
            self._markers.mark(blocks, message.extra, path)
        return blocks

    def _has_content(self, part: Part) -> bool:
        if not isinstance(part, (Text, Refusal)):
            return True
        return bool(part.text if self.own else part.text.strip())

    def _render_block(self, path: Path, part: Part, role: str) -> Block | None:
        unsigned = isinstance(part, Thinking) and part.signature is None
        sent: Part | None = None if unsigned or not self._is_allowed(part, role) else part
        if isinstance(sent, (Image, File)) and not self.own:
            sent = fit_medium(self._call, sent, self._media_types, path)
        block = None if sent is None else render_block(sent, self.own)
        if block is None:
            self._call.drop_field(path())
        elif not self.own and not isinstance(part, VendorPart):
            if isinstance(part, Image) and part.detail not in (None, "auto"):
                self._call.drop_field(f"{path()}.detail")
            if part.extra:
                self._drop_extra(path, part.extra)
                self._markers.mark([block], part.extra, path)
        return block

    def _is_allowed(self, part: Part, role: str) -> bool:
        """Return whether this format accepts `part` in a message of `role`, for a request of another format."""
        if self.own or role in ("user", "tool"):
            return True
        return isinstance(part, (Text, Refusal)) or (role == "assistant" and isinstance(part, (Thinking, ToolCall)))

    def _drop_extra(self, path: Path, extra: Mapping[str, Any]) -> None:
        for name in select_losses(extra, marked=True):
            self._call.drop_field(f"{path()}.{name}")

    def _render_result(self, path: Path, message: Message, result: ToolResult) -> Block:
        """A ``tool_result`` block. The vendor accepts text, images and documents in it; other parts are reported as dropped."""
        value: Block = {"type": "tool_result", "tool_use_id": render_id(result.call_id)}
        blocks: list[Block] = []
        for index, part in enumerate(result.parts):
            part_path = partial(path, index)
            if not self._has_content(part):
                continue
            if isinstance(part, (Text, Image, File)) or (self.own and isinstance(part, VendorPart)):
                block = self._render_block(part_path, part, "tool")
                blocks += [block] if block is not None else []
            else:
                self._call.drop_field(part_path())
        if not self.own:
            self._markers.raise_marker(value, blocks)
        if blocks:
            value["content"] = _render_content(blocks, message.plain)
        if result.is_error:
            value["is_error"] = True
        if self.own:
            return add_extra(value, result.extra)
        self._drop_extra(path, result.extra)
        return value


def _place_system_turns(call: Call, turns: Iterable[_Turn], abilities: ModelFeatures) -> list[_Turn]:
    """The turns of a request of another format; system turns that the model does not accept there become user turns."""
    turns = list(turns)
    settled: list[_Turn] = []
    for index, turn in enumerate(turns):
        last = settled[-1] if settled else None
        before_assistant = index + 1 == len(turns) or turns[index + 1].role == "assistant"
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
    marker = {CACHE_CONTROL: block[CACHE_CONTROL]} if CACHE_CONTROL in block else {}
    return {"type": "text", "text": f"<system>\n{block['text']}\n</system>", **marker}


def _strip_last_text(turns: list[_Turn]) -> None:
    """Strip trailing white space from a last assistant turn, which the vendor rejects."""
    if turns and turns[-1].role == "assistant" and turns[-1].blocks:
        last = turns[-1].blocks[-1]
        if last["type"] == "text":
            last["text"] = last["text"].rstrip()
