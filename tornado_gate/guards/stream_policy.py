"""The header ``x-gate-stream``: the caller's options for a stream. ``x-gate-stream: failover=never; ping=15``."""

from __future__ import annotations

from tornado_gate.errors import InvalidField
from tornado_gate.types.value import Value

HEADER = "x-gate-stream"
FAILOVER_CHOICES = ("pre-first-event", "never")
MAX_PING_SECONDS = 300
MAX_SHOWN = 60


class StreamPolicy(Value, frozen=True):
    """`failover`: whether another target may be tried after a failure; None: the value in conf.

    `ping_seconds`: after this time without data of the upstream a keep-alive is sent, even before the first event. 0: the value
    in conf, only after the first event.
    """

    failover: bool | None = None
    ping_seconds: int = 0


def parse_stream_policy(header: str) -> StreamPolicy:
    """Read the header's value. Raises InvalidField that names what is allowed."""
    failover: bool | None = None
    ping = 0
    seen: set[str] = set()
    for part in header.split(";"):
        name, _, value = (piece.strip().lower() for piece in part.partition("="))
        if not name and not value and seen:
            continue  # a semicolon at the end
        if name in seen:
            raise _invalid(f"has '{name}' twice")
        seen.add(name)
        if name == "failover" and value in FAILOVER_CHOICES:
            failover = value != "never"
        elif name == "ping" and value.isascii() and value.isdecimal() and 1 <= int(value[:9]) <= MAX_PING_SECONDS:
            ping = int(value[:9])
        else:
            raise _invalid(f"has the invalid part '{part.strip()[:MAX_SHOWN]}'")
    return StreamPolicy(failover, ping)


def _invalid(fault: str) -> InvalidField:
    allowed = f"failover={'|'.join(FAILOVER_CHOICES)} and ping=SECONDS (1 to {MAX_PING_SECONDS})"
    return InvalidField(HEADER, f"The header '{HEADER}' {fault}. Allowed are {allowed}, separated by a semicolon.")
