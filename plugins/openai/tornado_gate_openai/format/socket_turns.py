"""The turns that one WebSocket connection can continue without storage: the last response of each of its lanes.

A turn is kept as JSON text, so its memory is the length of that text; it is counted against the account's share.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tornado_gate.types import KeepBytes
from tornado_gate.types.value import Value

OVERHEAD_BYTES: Final = 1024
"""Counted for each turn besides its text."""


class Turn(Value, frozen=True):
    """A response that is not stored, with the conversation before it.

    `items` are all its input and output items as JSON, separated by commas. They follow the items of the stored response
    `previous`, if the conversation continues one; `count` is their number.
    """

    items: bytes
    count: int
    previous: str | None = None


class TurnCache:
    """The turns of one connection. A lane keeps its last one; a turn may be continued on any lane."""

    def __init__(self, keep_bytes: KeepBytes) -> None:
        self._keep_bytes = keep_bytes
        self._turns: dict[str, Turn] = {}
        self._of_lane: dict[str, tuple[str, Callable[[], None]]] = {}

    def find(self, response_id: str) -> Turn | None:
        return self._turns.get(response_id)

    def keep(self, lane: str, response_id: str, turn: Turn) -> None:
        """Keep the last turn of a lane, if the account's share of memory has room for it."""
        self.drop(lane)
        release = self._keep_bytes(len(turn.items) + OVERHEAD_BYTES)
        if release is not None:
            self._turns[response_id] = turn
            self._of_lane[lane] = response_id, release

    def drop(self, lane: str, response_id: str | None = None) -> None:
        """Drop the turn of a lane; with `response_id` only if it is that one."""
        kept, release = self._of_lane.get(lane, (None, None))
        if kept is None or release is None or response_id not in (None, kept):
            return
        del self._of_lane[lane], self._turns[kept]
        release()

    def close(self) -> None:
        """Drop all turns."""
        for lane in list(self._of_lane):
            self.drop(lane)
