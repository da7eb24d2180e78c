"""``cache_control`` in requests of other formats: the client half. Pure.

A marker stays where the caller set it: on a tool, on a block, or at the top level, which marks the last block. The vendor's
rules hold for every body: at most four markers, longer lifetimes before shorter ones in the order tools, system, messages, and
no marker on thinking. A marker that breaks a rule is reported as dropped.

Source: platform.claude.com/docs/en/build-with-claude/prompt-caching (read 2026-11-22): "Automatic caching", "Edge cases",
"Mixing different TTLs", "What cannot be cached".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from tornado_gate.types import Call
from tornado_gate.types.value import State, field
from tornado_gate.wire.prompt_cache import CACHE_CONTROL, find_marker, render_cache_control

Holder = dict[str, Any]
"""A JSON object with ``cache_control``: a tool, a block or the body."""

MAX_MARKERS: Final = 4
_UNMARKABLE_TYPES: Final = ("thinking", "redacted_thinking")
_FUNCTION: Final = "function"


class MarkerWriter(State, eq=False):
    """The writer of markers on the blocks and tools of one body.

    `names` has the caller's path of each, by the identity of its value.
    """

    call: Call
    names: dict[int, Callable[[], str]] = field(default_factory=dict)

    def mark(self, blocks: Iterable[Holder], extra: Mapping[str, Any], path: Callable[[], str]) -> None:
        """Put the marker in `extra`, if any, on the last of `blocks` that can have one; `path` returns the path of its parent.

        A block that already has a marker keeps it: both end the same prefix.
        """
        name = find_marker(extra)
        if not name:
            if isinstance(inner := extra.get(_FUNCTION), Mapping) and find_marker(inner):  # of a chat tool
                self.mark(blocks, inner, lambda: f"{path()}.{_FUNCTION}")
            return
        value = render_cache_control(extra)
        holder = find_markable(blocks)
        if value is None or holder is None:
            self.call.drop_field(f"{path()}.{name}")
        elif CACHE_CONTROL not in holder:
            holder[CACHE_CONTROL] = value
            self.names[id(value)] = lambda: f"{path()}.{name}"

    def mark_body(self, body: Holder, extra: Mapping[str, Any]) -> None:
        """Set the top-level member, which a caller of another format sends under the same name."""
        if extra.get(CACHE_CONTROL) is None:
            return
        value = render_cache_control(extra)
        if value is None:
            self.call.drop_field(CACHE_CONTROL)
            return
        body[CACHE_CONTROL] = value
        self.names[id(value)] = lambda: CACHE_CONTROL

    def raise_marker(self, holder: Holder, inner: Iterable[Holder]) -> None:
        """Move the last marker inside a tool result to the result."""
        for block in inner:
            if (value := block.pop(CACHE_CONTROL, None)) is not None:
                holder[CACHE_CONTROL] = value

    def settle(self, body: Holder) -> None:
        """Remove what exceeds the vendor's rules. A body without markers is not read."""
        if not self.names:
            return
        tools, system, turns = (list(holders) for holders in _list_marked(body))
        top = [body] if CACHE_CONTROL in body else []
        if top and (last := _find_last_block(body)) is not None and CACHE_CONTROL in last:
            if last[CACHE_CONTROL] != body[CACHE_CONTROL]:
                self._report(body[CACHE_CONTROL])
            del body[CACHE_CONTROL]  # it would mark the same block
            top = []
        ranked = [*top, *tools[-1:], *system[-1:], *reversed(turns), *reversed(system[:-1]), *reversed(tools[:-1])]
        for holder in ranked[MAX_MARKERS:]:
            self._report(holder.pop(CACHE_CONTROL))
        self._order_lifetimes([*tools, *system, *turns, *top])

    def _order_lifetimes(self, holders: Iterable[Holder]) -> None:
        """Shorten lifetimes after a shorter one."""
        short = False
        for holder in holders:
            value = holder.get(CACHE_CONTROL)
            if value is None:
                continue
            if short and value.get("ttl") == "1h":
                self._report(value, ".ttl")
                del value["ttl"]
            short = short or value.get("ttl") != "1h"

    def _report(self, value: Any, member: str = "") -> None:
        self.call.drop_field(self.names[id(value)]() + member)


def find_markable(blocks: Iterable[Holder]) -> Holder | None:
    """The last block or tool that may have a marker."""
    markable = None
    for block in blocks:
        if block.get("type") not in _UNMARKABLE_TYPES:
            markable = block
    return markable


def list_blocks(content: Any) -> list[Holder]:
    """The blocks of a content, which may be a string."""
    return content if isinstance(content, list) else []


def _list_marked(body: Holder) -> Iterator[Iterator[Holder]]:
    """The tools, system blocks and message blocks with a marker, in the order in which the vendor processes them."""
    turns = (block for turn in body["messages"] for block in list_blocks(turn["content"]))
    for holders in (body.get("tools") or (), list_blocks(body.get("system")), turns):
        yield (holder for holder in holders if CACHE_CONTROL in holder)


def _find_last_block(body: Holder) -> Holder | None:
    blocks = list_blocks(body["messages"][-1]["content"]) if body["messages"] else []
    return blocks[-1] if blocks else None


def add_rolling_markers(body: Holder) -> None:
    """Mark the prefixes that the next request of a conversation repeats: tools, system, and the last two user turns.

    The last user turn ends the prefix to be written, the one before it the prefix that the previous request has written.
    """
    if (tool := find_markable(body.get("tools") or ())) is not None:
        tool[CACHE_CONTROL] = {"type": "ephemeral"}
    if body.get("system"):
        _mark_content(body, "system")
    for turn in [turn for turn in body["messages"] if turn["role"] == "user"][-2:]:
        _mark_content(turn, "content")


def _mark_content(holder: Holder, member: str) -> None:
    if isinstance(holder[member], str):
        holder[member] = [{"type": "text", "text": holder[member]}]
    if (block := find_markable(holder[member])) is not None:
        block[CACHE_CONTROL] = {"type": "ephemeral"}
