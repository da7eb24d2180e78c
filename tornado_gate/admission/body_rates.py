"""Refuses bodies that arrive too slowly, so that idle connections do not hold memory, disk space and slots for long."""

from __future__ import annotations

from typing import Protocol

from tornado_gate.errors import RequestError
from tornado_gate.streams.timer_wheel import get_wheel

WINDOW_SECONDS = 30.0
CHECKS_PER_WINDOW = 6


class ArrivingBody(Protocol):
    """A request whose body is not complete. `is_body_paused`: the gateway has paused reading."""

    body_bytes: int
    is_body_paused: bool

    def refuse_body(self, error: RequestError) -> None:
        """Send the error response and end the request."""


class BodyRates:
    """All arriving bodies of a process. A body must arrive with `bytes_per_second` on average over WINDOW_SECONDS; 0: no limit.

    All bodies share one timer; a body costs an entry of a dict.
    """

    def __init__(self, bytes_per_second: int) -> None:
        self.bytes_per_second = bytes_per_second
        self._bodies: dict[ArrivingBody, tuple[int, int]] = {}
        """The start of each body's window: the number of the check, and the bytes that had arrived."""
        self._checks = 0
        self._is_timing = False

    def __len__(self) -> int:
        return len(self._bodies)

    def add(self, body: ArrivingBody) -> None:
        self._bodies[body] = self._checks, 0
        if not self._is_timing:
            self._start_timer()

    def remove(self, body: ArrivingBody) -> None:
        """Remove a body. Repeated calls have no effect."""
        self._bodies.pop(body, None)

    def _start_timer(self) -> None:
        self._is_timing = True
        wheel = get_wheel()
        wheel.add(wheel.loop.time() + WINDOW_SECONDS / CHECKS_PER_WINDOW, self)

    def on_timer(self) -> None:
        self._is_timing = False
        self._checks += 1
        for body, (start, bytes_before) in list(self._bodies.items()):
            if body.is_body_paused:
                self._bodies[body] = self._checks, body.body_bytes
            elif self._checks - start > CHECKS_PER_WINDOW:  # the body may have arrived just before the first check
                self._check(body, body.body_bytes - bytes_before)
        if self._bodies:
            self._start_timer()

    def _check(self, body: ArrivingBody, arrived: int) -> None:
        if arrived >= self.bytes_per_second * WINDOW_SECONDS:
            self._bodies[body] = self._checks, body.body_bytes
            return
        self.remove(body)
        body.refuse_body(
            RequestError(
                f"The request body arrives too slowly: {arrived} bytes in {WINDOW_SECONDS:.0f} s; at least "
                f"{self.bytes_per_second} bytes per second are required (limits.body_bytes_per_second). Send it faster.",
                code="request_timeout",
                status=408,
            )
        )
