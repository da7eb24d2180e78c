"""Access log lines on their way from the event loop to the thread that writes the log. Independent of wire formats.

A line is a tuple on a deque: no lock, no `logging.LogRecord`, and one wake-up of the thread per batch.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

from tornado_gate.types import Usage
from tornado_gate.types.value import Value

LOGGER = "tornado_gate.access"


_ENDED_AS_THE_STATUS_SAYS = ("", "complete", "refused", "failed")


class AccessLine(Value, frozen=True):
    """The log line of one request.

    `caller` is the key's id, `client` the caller's IP address, `usage` counts tokens, `bytes_out` is the size of the
    body. `error` is the code of the error that the response is or ends with, even when the status is 200. `outcome` is
    how the response ended, as in the usage ledger.
    """

    method: str
    path: str
    status: int
    milliseconds: float
    request_id: str
    caller: str = ""
    model: str = ""
    provider: str = ""
    upstream_model: str = ""
    bytes_out: int = 0
    usage: Usage | None = None
    attempts: int = 0
    images: int = 0
    error: str = ""
    client: str = ""
    outcome: str = ""

    def message(self) -> str:
        """Return method, path without query, and status."""
        return f"{self.method} {self.path.partition('?')[0]} {self.status}"

    def secret_bearing_texts(self) -> str:
        """Return all texts that may contain a secret, from the caller or the configuration, one per line."""
        names = f"{self.request_id}\n{self.caller}\n{self.model}\n{self.provider}\n{self.upstream_model}\n{self.error}"
        return f"{self.message()}\n{names}"

    def fields(self) -> dict[str, Any]:
        """Return the fields of the line in order. Unknown fields are omitted."""
        usage = self.usage
        fields: dict[str, Any] = {
            "method": self.method,
            "path": self.path.partition("?")[0],
            "status": self.status,
            "milliseconds": round(self.milliseconds, 2),
            "request_id": self.request_id,
            "caller": self.caller,
            "client": self.client,
            "model": self.model,
            "provider": self.provider,
            "upstream_model": self.upstream_model,
            "bytes_out": self.bytes_out,
            "attempts": self.attempts,
        }
        if usage is not None:
            if usage.input_tokens is not None:
                fields["input_tokens"] = usage.input_tokens
            if usage.output_tokens is not None:
                fields["output_tokens"] = usage.output_tokens
        if self.images:
            fields["images"] = self.images
        if self.error:
            fields["error"] = self.error
        if self.outcome not in _ENDED_AS_THE_STATUS_SAYS:
            fields["outcome"] = self.outcome
        names = (
            self.provider,
            self.upstream_model,
            self.model,
            self.caller,
            self.client,
            self.request_id,
            self.method,
            fields["path"],
        )
        if all(names):
            return fields
        return {name: value for name, value in fields.items() if value != ""}


StampedLine = tuple[int, AccessLine]
"""A line, and the end of its request in nanoseconds since 1970."""


class AccessBuffer:
    """A queue of at most `most` lines; lines that exceed it are dropped and counted.

    The event loop calls `add`, the writer thread all other methods: each number is changed by one thread only, so no lock is
    needed. `wake` is called for the first line after `request_wake`; it must not block.
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
        """Call `wake` for the next line. Check for lines again after this: a line added just before has not called
        `wake`.
        """
        self._awake = False

    def take_lines(self, most: int, until: int | None = None) -> list[StampedLine]:
        """Return up to `most` lines in order, none newer than `until` (nanoseconds)."""
        lines = self._lines
        taken: list[StampedLine] = []
        while lines and len(taken) < most and (until is None or lines[0][0] <= until):
            taken.append(lines.popleft())
        return taken

    def take_dropped(self) -> int:
        """Return the number of dropped lines since the last call."""
        lost = self._lost
        dropped, self._counted = lost - self._counted, lost
        return dropped
