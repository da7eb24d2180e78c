"""What is said of each request, on its way from the event loop to the thread that writes the log. Knows no format.

A line is a tuple on a deque: no lock, no `logging.LogRecord`, and no wake-up of the thread but one for each batch.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

from tornado_gate.types import Usage
from tornado_gate.types.value import Value

LOGGER = "tornado_gate.access"


class AccessLine(Value, frozen=True):
    """What is said of one request. `caller` is the key's id, `usage` counts tokens, `bytes_out` the body's bytes."""

    method: str
    path: str
    status: int
    milliseconds: float
    request_id: str
    caller: str = ""
    model: str = ""
    provider: str = ""
    bytes_out: int = 0
    usage: Usage | None = None
    attempts: int = 0

    def message(self) -> str:
        """Method, path and status. Whatever `path` holds, its query is not logged."""
        return f"{self.method} {self.path.partition('?')[0]} {self.status}"

    def secret_bearing_texts(self) -> str:
        """All that a secret could be in, by a caller's doing or by conf's: one line for each text."""
        return f"{self.message()}\n{self.request_id}\n{self.caller}\n{self.model}\n{self.provider}"

    def fields(self) -> dict[str, Any]:
        """The fields of the line in their order; what is not known has none."""
        usage = self.usage
        fields: dict[str, Any] = {
            "method": self.method,
            "path": self.path.partition("?")[0],
            "status": self.status,
            "milliseconds": round(self.milliseconds, 2),
            "request_id": self.request_id,
            "caller": self.caller,
            "model": self.model,
            "provider": self.provider,
            "bytes_out": self.bytes_out,
            "attempts": self.attempts,
        }
        if usage is not None:
            if usage.input_tokens is not None:
                fields["input_tokens"] = usage.input_tokens
            if usage.output_tokens is not None:
                fields["output_tokens"] = usage.output_tokens
        if all((self.provider, self.model, self.caller, self.request_id, self.method, fields["path"])):
            return fields
        return {name: value for name, value in fields.items() if value != ""}


StampedLine = tuple[int, AccessLine]
"""A line, and when its request ended, in nanoseconds since 1970."""


class AccessBuffer:
    """Lines that wait to be written, at most `most`; one that comes when it is full is lost, and counted.

    `add` is the event loop's, all else the writer's: each number has one thread that changes it, so nothing is locked.
    `wake` is called when a line comes and nobody has been woken since `rest`; it must not wait.
    """

    __slots__ = ("_awake", "_counted", "_lines", "_lost", "_most", "_wake")

    def __init__(self, most: int, wake: Callable[[], None]) -> None:
        self._most = most
        self._wake = wake
        self._lines: deque[StampedLine] = deque()
        self._awake = False
        self._lost = self._counted = 0

    def __bool__(self) -> bool:
        return bool(self._lines)

    def add(self, line: AccessLine) -> None:
        lines = self._lines
        if len(lines) >= self._most:
            self._lost += 1
            return
        lines.append((time.time_ns(), line))
        if not self._awake:
            self._awake = True
            self._wake()

    def request_wake(self) -> None:
        """Call `wake` for the next line. Look once more for lines after this: one that came before it has woken nobody."""
        self._awake = False

    def take(self, most: int, until: int | None = None) -> list[StampedLine]:
        """Up to `most` lines in order, none that came after `until` (nanoseconds)."""
        lines = self._lines
        taken: list[StampedLine] = []
        while lines and len(taken) < most and (until is None or lines[0][0] <= until):
            taken.append(lines.popleft())
        return taken

    def take_dropped(self) -> int:
        """How many were lost since this was asked last."""
        lost = self._lost
        dropped, self._counted = lost - self._counted, lost
        return dropped
