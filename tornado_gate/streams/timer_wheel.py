"""A timer wheel: timeouts of thousands of requests on one timer of the event loop.

Setting and cancelling a uvloop timer takes 5 µs, and almost every timeout is cancelled. In the wheel a timeout is an entry in
the set (slot) of all timeouts that are due within the same 1/16 s.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

log = logging.getLogger(__name__)

SLOTS_PER_SECOND = 16
LATE_SECONDS = 0.25
"""A timer that is later proves that this process did not run: the loop reads what has arrived meanwhile before a time ends."""
_NEVER = 1 << 62


class TimerListener(Protocol):
    """An object that the wheel notifies."""

    def on_timer(self) -> None:
        """Handle the end of the time."""


class TimerWheel:
    """The wheel of one event loop; see `get_wheel`. Times are the loop's, in seconds; notifications are up to 1/16 s late.

    If this process did not run, they are 1/16 s later: what has arrived meanwhile may extend a time or make it void.
    """

    __slots__ = ("_is_deferred", "_next", "_slots", "_timer", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._slots: dict[int, set[TimerListener]] = {}
        self._next = _NEVER  # the slot that the timer waits for; it may be empty by then
        self._timer: asyncio.TimerHandle | None = None
        self._is_deferred = False

    def add(self, when: float, listener: TimerListener) -> int:
        """Notify `listener` at `when`. Return the slot, which `remove` needs."""
        slot = int(when * SLOTS_PER_SECOND) + 1
        held = self._slots.get(slot)
        if held is not None:
            held.add(listener)
        else:
            self._slots[slot] = {listener}
            if slot < self._next:
                self._schedule(slot)
        return slot

    def remove(self, slot: int, listener: TimerListener) -> None:
        """Remove `listener` from `slot`; no effect if it was already notified."""
        held = self._slots.get(slot)
        if held is not None:
            held.discard(listener)
            if not held:
                del self._slots[slot]

    @property
    def is_empty(self) -> bool:
        """Return whether there are no entries."""
        return not self._slots

    def _schedule(self, slot: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._next = slot
        self._timer = self.loop.call_at(slot / SLOTS_PER_SECOND, self._fire_due_slots)

    def _fire_due_slots(self) -> None:
        now = int(self.loop.time() * SLOTS_PER_SECOND)
        if now > self._next + LATE_SECONDS * SLOTS_PER_SECOND and not self._is_deferred:
            self._is_deferred = True
            self._schedule(now + 1)
            return
        self._is_deferred = False
        self._timer, self._next = None, _NEVER
        for slot in sorted(slot for slot in self._slots if slot <= now):
            self._notify_slot(slot)
        if self._slots:
            first = min(self._slots)
            if first < self._next:
                self._schedule(first)

    def _notify_slot(self, slot: int) -> None:
        """Notify the entries of a slot.

        An exception of one does not affect the others; entries removed during this are skipped.
        """
        for listener in list(self._slots.get(slot, ())):
            if listener in self._slots.get(slot, ()):
                self.remove(slot, listener)
                try:
                    listener.on_timer()
                except Exception:
                    log.exception("a timeout callback failed: %s", type(listener).__name__)


_current_wheel: TimerWheel | None = None


def get_wheel() -> TimerWheel:
    """Return the wheel of the running loop."""
    global _current_wheel  # noqa: PLW0603  a process has one loop, except in tests
    loop = asyncio.get_running_loop()
    wheel = _current_wheel
    if wheel is None or wheel.loop is not loop:
        wheel = _current_wheel = TimerWheel(loop)
    return wheel
