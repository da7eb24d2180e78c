"""Thinking that comes back: only what this imitation issued, unchanged, complete and in its order.

Source: platform.claude.com/docs/en/build-with-claude/thinking#preserving-thinking-blocks, .../thinking-troubleshooting and
.../preserved-thinking (read 2026-11-22). The account counts as new: newer models check what stood before a block. A block of a
model that the current one cannot read is dropped without an error.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from qa.imitations.anthropic.conversation import Block, list_blocks, merge_turns
from qa.imitations.anthropic.models import Model
from qa.imitations.anthropic.refusal import refuse

THINKING: Final = ("thinking", "redacted_thinking")
CONTROLS: Final = "thinking-binding-controls-2026-08-01"
_BOUND: Final = (
    "The block is bound to a different conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` "
    f'to "drop_block". That setting requires the `{CONTROLS}` value in the `anthropic-beta` header.'
)


@dataclass(frozen=True, slots=True)
class Issued:
    """One block as it was issued. `response`: of which answer, and `place` among its thinking; `before`: the signature of the
    thinking before it, in the request or the answer; `prefix`: what stood before it.
    """

    model: str
    text: str
    response: str
    place: int
    before: str
    prefix: str


@dataclass(slots=True)
class Ledger:
    """All issued blocks by their signature (or data), and the number of thinking blocks of each answer."""

    blocks: dict[str, Issued] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def issue(self, body: Mapping[str, Any], answer: Mapping[str, Any], serial: int) -> None:
        """Record the thinking of an answer to `body`."""
        before = ""
        for _, block in _list_thinking(body["messages"]):
            before = _get_signature(block)
        place = 0
        for number, block in enumerate(answer["content"]):
            if block["type"] not in THINKING:
                continue
            said = {"role": "assistant", "content": answer["content"][:number]}
            prefix = _digest(body, [*body["messages"], said])
            signature = _get_signature(block)
            text = block.get("thinking", "")
            self.blocks[signature] = Issued(body["model"], text, str(serial), place, before, prefix)
            before, place = signature, place + 1
        self.counts[str(serial)] = place

    def check(self, body: Mapping[str, Any], model: Model) -> list[dict[str, str]]:
        """Raise `Refusal` for thinking that this imitation did not issue, or that has changed.

        Returns the blocks that are ignored instead, where the request wants it so, as the vendor reports them.
        """
        turns = merge_turns(body["messages"])
        assistants = [blocks for role, blocks in turns if role == "assistant"]
        before: str | None = None
        ignored: list[dict[str, str]] = []
        binding = (body.get("thinking") or {}).get("block_binding") or {}
        for path, block in _list_thinking(body["messages"]):
            issued = self.blocks.get(_get_signature(block))
            latest = bool(assistants) and any(place == path for place, _ in assistants[-1])
            if issued is None:
                refuse(f"{path}: Invalid `signature` in `thinking` block")
            if issued.text and block.get("thinking", "") != issued.text:
                _refuse_change(path) if latest else refuse(f"{path}: Invalid `signature` in `thinking` block")
            checked = issued.model == body["model"] and model.bound
            if checked and (ignored or not self._is_bound(body, path, issued, before)):
                if binding.get("prefix_mismatch_behavior") != "drop_block":
                    refuse(f"{path}: Invalid `signature` in `thinking` block. {_BOUND}")
                ignored.append({"type": "thinking_dropped", "path": path, "reason": "prefix_binding_mismatch"})
            before = _get_signature(block)
        if assistants:
            self._check_complete(body, assistants[-1])
        _check_start(body, turns, model)
        return ignored

    def _is_bound(self, body: Mapping[str, Any], path: str, issued: Issued, before: str | None) -> bool:
        """Whether a block stands where it was issued: after the same prompt, tools, turns and thinking."""
        number, place = (int(step) for step in path.split(".")[1::2])
        message = body["messages"][number]
        said = {"role": message["role"], "content": list_blocks(message["content"])[:place]}
        same = _digest(body, [*body["messages"][:number], said]) == issued.prefix
        return same and before in (None, issued.before)

    def _check_complete(self, body: Mapping[str, Any], blocks: Sequence[tuple[str, Block]]) -> None:
        """The thinking of each answer in the latest assistant turn is there as a whole, in its order, or not at all."""
        found: dict[str, list[int]] = {}
        for _path, block in blocks:
            if block["type"] in THINKING:
                issued = self.blocks[_get_signature(block)]
                if issued.model == body["model"]:
                    found.setdefault(issued.response, []).append(issued.place)
        for response, places in found.items():
            if places != list(range(self.counts[response])):
                _refuse_change(blocks[0][0])


def _refuse_change(path: str) -> None:
    refuse(
        f"{path}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These blocks must "
        "remain as they were in the original response."
    )


def _check_start(body: Mapping[str, Any], turns: Sequence[tuple[str, list[tuple[str, Block]]]], model: Model) -> None:
    """In manual mode, a tool loop starts with thinking (the page's "Tool choice limitation (manual mode)").

    Later calls of the loop have none without interleaved thinking: the example of the page, "Interleaved thinking".
    """
    if (body.get("thinking") or {}).get("type") != "enabled":
        return
    first: list[tuple[str, Block]] = []
    for role, blocks in reversed(turns):
        if role == "user" and not any(block["type"] == "tool_result" for _, block in blocks):
            break
        first = blocks if role == "assistant" else first
    if first and first[0][1]["type"] not in THINKING and turns[-1][0] == "user":
        path, block = first[0]
        refuse(
            f"{path}.type: Expected `thinking` or `redacted_thinking`, but found `{block['type']}`. When `thinking` is enabled, "
            "a final `assistant` message must start with a thinking block (preceding the lastmost set of `tool_use` and "
            "`tool_result` blocks). To avoid this requirement, disable `thinking`."
        )


def _list_thinking(messages: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Block]]:
    for number, message in enumerate(messages):
        for place, block in enumerate(list_blocks(message["content"])):
            if block["type"] in THINKING:
                yield f"messages.{number}.content.{place}", block


def _get_signature(block: Block) -> str:
    return str(block["data"] if block["type"] == "redacted_thinking" else block["signature"])


def _digest(body: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> str:
    """What stood before a block: the system prompt, the tools and the turns, without thinking and without cache marks."""
    turns = [
        [role, [_strip(block) for _, block in blocks if block["type"] not in THINKING]]
        for role, blocks in merge_turns(messages)
    ]
    parts = [list_blocks(body.get("system") or []), body.get("tools") or [], [turn for turn in turns if turn[1]]]
    return hashlib.sha256(json.dumps(_strip(parts), sort_keys=True).encode()).hexdigest()


def _strip(value: Any) -> Any:
    """Without cache marks, and without members that have their default value."""
    if isinstance(value, dict):
        kept = {name: member for name, member in value.items() if member is not None and name != "cache_control"}
        return {name: _strip(member) for name, member in kept.items() if member != {"type": "direct"}}
    return [_strip(item) for item in value] if isinstance(value, list) else value
