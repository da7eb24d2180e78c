"""What is known of each request of a soak test, and how its end is judged."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

Outcome = Literal["right", "error", "left", "cut", "WRONG", "MIXED", "LOST", "OPEN"]
"""`right`: the whole, right content. `error`: a well-formed error of the caller's format, where one is allowed. `left`: the
caller closed the connection, and what it had was right. `cut`: no or half an answer while its worker was killed or the gateway
was down. The others fail the test: `WRONG` content or an error that must not be; `MIXED`: content of another request; `LOST`: no
answer at all; `OPEN`: the request has not ended."""
LEDGER_SECONDS = 2.0
"""A row is in the database after so long: the interval of the ledger, and time to write on a busy machine."""
NEEDS_DATABASE = ("page /admin", "page /console", "bad: wrong key")
"""Kinds of requests that cannot be answered without the database."""
NEAR_SECONDS = 10.0
FAULTS: tuple[Outcome, ...] = ("WRONG", "MIXED", "LOST", "OPEN")


@dataclass(slots=True)
class Request:
    """One request of a caller. `recorded`: whether the ledger must have it; `status` 0: no status line came;
    `held`: from when until when a session was open for certain."""

    kind: str
    model: str
    nonce: str
    number: int
    started: float = field(default_factory=time.time)
    ended: float = 0.0
    outcome: Outcome = "OPEN"
    status: int = 0
    detail: str = ""
    recorded: bool = True
    held: tuple[float, float] | None = None

    @property
    def id(self) -> str:
        return f"soak-{self.number}-{self.nonce}"

    @property
    def seconds(self) -> float:
        return self.ended - self.started


class Mismatch(Exception):
    """An answer is not what it must be; the message says how."""


class Mixed(Mismatch):
    """An answer holds the nonce of another request."""


class Broken(Exception):
    """The connection ended without a whole answer: a refused, reset or closed one."""


@dataclass(frozen=True, slots=True)
class Disruption:
    """Something that was done to the gateway or around it, from `start` to `end` in Unix seconds.

    `cuts`: requests in flight may lose their connection. `refuses`: requests that start meanwhile may be refused, those in flight
    must be answered. `loses_rows`: a process was killed with what it had not written. `has_no_database`: pages, and the check of
    keys that are not in the file, may be 503. `ends_sessions`: realtime sessions are closed with 1001, or refused.
    `moves_limits`: limits were counted by another store meanwhile, and the first one has then what it had ("kept") or
    nothing ("lost").
    """

    kind: str
    start: float
    end: float
    cuts: bool = False
    refuses: bool = False
    loses_rows: bool = False
    has_no_database: bool = False
    ends_sessions: bool = False
    moves_limits: Literal["", "kept", "lost"] = ""

    def touches(self, start: float, end: float) -> bool:
        return self.start <= end and start <= self.end

    def excuses(self, request: Request) -> bool:
        """Whether it explains that a request got no answer, or a 503."""
        if self.cuts and self.touches(request.started, request.ended):
            return True
        if self.has_no_database and request.status == 503 and request.kind.startswith(NEEDS_DATABASE):
            return self.touches(request.started, request.ended)
        is_ended = request.model == "voice" and any(word in request.detail for word in ("1001", "503"))
        if self.ends_sessions and is_ended and self.touches(request.started, request.ended):
            return True
        return self.refuses and self.touches(request.started, request.started)

    def may_lose_row_of(self, request: Request) -> bool:
        """Rows are written every half second: those of requests that ended just before may be lost, and those in flight."""
        return self.loses_rows and self.touches(request.started, request.ended + LEDGER_SECONDS)


def find_percentile(values: list[float], share: float) -> float:
    """A percentile by the nearest rank; 0 without values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


class Journal:
    """All requests of a run."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.disruptions: list[Disruption] = []

    def begin(self, kind: str, model: str, nonce: str) -> Request:
        request = Request(kind, model, nonce, len(self.requests))
        self.requests.append(request)
        return request

    def settle(self) -> None:
        """Excuse the requests that a disruption explains. A disruption is known after the requests that it hits have failed."""
        for request in self.requests:
            hit = request.outcome == "LOST" or (request.outcome == "WRONG" and request.status == 503)
            if hit and any(one.excuses(request) for one in self.disruptions):
                request.outcome = "cut"

    def count(self, requests: list[Request] | None = None) -> Counter[Outcome]:
        return Counter(one.outcome for one in (self.requests if requests is None else requests))

    def describe_time(self, start: float, end: float) -> str:
        """What was done around a time, for whoever looks for the cause of a fault."""
        near = [one for one in self.disruptions if one.touches(start - NEAR_SECONDS, end + NEAR_SECONDS)]
        told = [f"{one.kind} from {one.start - start:+.1f} to {one.end - start:+.1f} s" for one in near]
        return f" ({'; '.join(told)})" if told else ""

    def list_faults(self) -> list[Request]:
        return [one for one in self.requests if one.outcome in FAULTS]
