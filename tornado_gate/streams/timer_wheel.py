"""Time limits of thousands of requests on one timer of the loop.

A timer of uvloop's own costs 5 µs to set and to cancel, and almost every limit is cancelled. Here it is a place in a set: of
those whose time comes within the same sixteenth of a second. Pure but for the loop.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

log = logging.getLogger(__name__)

SLOTS_PER_SECOND = 16
_NEVER = 1 << 62


class TimerListener(Protocol):
    """Something that has to be told when its time has come."""

    def on_timer(self) -> None:
        """The time has come."""


class TimerWheel:
    """One for each loop, by `wheel`. Times are the loop's, in seconds; what is told is told at most a sixteenth too late."""

    __slots__ = ("_next", "_slots", "_timer", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._slots: dict[int, set[TimerListener]] = {}
        self._next = _NEVER  # the slot that the timer waits for; it may be empty by then
        self._timer: asyncio.TimerHandle | None = None

    def add(self, when: float, what: TimerListener) -> int:
        """Have `what` told at `when`. The slot, which `remove` needs."""
        slot = int(when * SLOTS_PER_SECOND) + 1
        held = self._slots.get(slot)
        if held is not None:
            held.add(what)
        else:
            self._slots[slot] = {what}
            if slot < self._next:
                self._schedule(slot)
        return slot

    def remove(self, slot: int, what: TimerListener) -> None:
        """It need not be told any more; nothing happens when it was."""
        held = self._slots.get(slot)
        if held is not None:
            held.discard(what)
            if not held:
                del self._slots[slot]

    @property
    def is_empty(self) -> bool:
        """Whether nobody waits."""
        return not self._slots

    def _schedule(self, slot: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._next = slot
        self._timer = self.loop.call_at(slot / SLOTS_PER_SECOND, self._fire_due_slots)

    def _fire_due_slots(self) -> None:
        self._timer, self._next = None, _NEVER
        now = int(self.loop.time() * SLOTS_PER_SECOND)
        for slot in sorted(slot for slot in self._slots if slot <= now):
            self._notify_slot(slot)
        if self._slots:
            first = min(self._slots)
            if first < self._next:
                self._schedule(first)

    def _notify_slot(self, slot: int) -> None:
        """One that fails must not silence the others, and one that is removed meanwhile is not told."""
        for what in list(self._slots.get(slot, ())):
            if what in self._slots.get(slot, ()):
                self.remove(slot, what)
                try:
                    what.on_timer()
                except Exception:
                    log.exception("a time limit could not be told")


_current_wheel: TimerWheel | None = None


def get_wheel() -> TimerWheel:
    """That of the running loop."""
    global _current_wheel  # noqa: PLW0603  a process has one loop, but for tests
    loop = asyncio.get_running_loop()
    found = _current_wheel
    if found is None or found.loop is not loop:
        found = _current_wheel = TimerWheel(loop)
    return found
