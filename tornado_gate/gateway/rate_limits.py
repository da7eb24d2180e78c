"""Limits of requests and tokens per minute, for keys and teams. No I/O; the clock is a parameter. One object for each process.

Sliding-window counter: the count of the previous minute, weighted by its share of the window, plus the count of the current
minute. A request is counted when it is admitted, tokens when the response ends: a key over its token limit is rejected at
its next request, never in the middle of a response.

A stream that ends without its usage, because the caller left or the upstream broke off, costs an estimate of its prompt and of
what was produced. A response that failed before its first event costs nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from cachetools import LRUCache

from tornado_gate.errors import RateLimited
from tornado_gate.ledger.estimates import CHARACTERS_PER_TOKEN, settle_usage
from tornado_gate.types import NO_LIMITS, Caller, Meter
from tornado_gate.types.value import State

WINDOW_SECONDS = 60.0
FILE_CHARACTERS = 2048
"""A longer text whose beginning of this length has no space is a file in base64."""
FILE_TOKENS = 1000
MAX_KEYS = 100_000


class _Window(State):
    """Counts of one kind for one key."""

    began: float
    current: float = 0.0
    previous: float = 0.0

    def estimate_level(self, now: float) -> float:
        """The estimated count within the last 60 s."""
        passed = now - self.began
        if passed >= WINDOW_SECONDS:
            self.previous = self.current if passed < 2 * WINDOW_SECONDS else 0.0
            self.current = 0.0
            self.began += WINDOW_SECONDS * int(passed / WINDOW_SECONDS)
            passed = now - self.began
        return self.current + self.previous * (1 - passed / WINDOW_SECONDS)

    def estimate_seconds_until(self, level: float, now: float) -> float:
        """Seconds until the count falls to `level`, if nothing is added."""
        passed = now - self.began
        if self.current <= level and self.previous:
            return max(0.0, WINDOW_SECONDS * (1 - (level - self.current) / self.previous) - passed)
        return WINDOW_SECONDS - passed + WINDOW_SECONDS * max(0.0, 1 - level / max(self.current, 1.0))


class _Limit(NamedTuple):
    """A limit of a key or a team, by its id; `words` name it in messages."""

    owner: str
    words: str
    kind: str
    most: int


def _list_limits(caller: Caller) -> list[_Limit]:
    key, team = "this API key", "the team of this API key"
    limits = [
        (caller.id, key, "requests", caller.requests_per_minute),
        (caller.id, key, "tokens", caller.tokens_per_minute),
    ]
    if caller.team_limits is not NO_LIMITS:
        limits += [
            (caller.team, team, "requests", caller.team_limits.requests_per_minute),
            (caller.team, team, "tokens", caller.team_limits.tokens_per_minute),
        ]
    return [_Limit(owner, words, kind, most) for owner, words, kind, most in limits if most is not None]


class RateLimits:
    """The windows of all keys and teams that have a limit. Those without a limit have no window."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._windows: LRUCache[tuple[str, str], _Window] = LRUCache(MAX_KEYS)

    def admit(self, caller: Caller) -> dict[str, str]:
        """Count a request and return the ``x-ratelimit`` headers. Raises RateLimited, with these headers, at a limit.

        Of the limits of the key and of its team, the headers have the one that leaves less.
        """
        lowest: dict[str, tuple[int, dict[str, str]]] = {}
        limits = _list_limits(caller)
        for limit in limits:
            left, headers = self._check(limit)
            if limit.kind not in lowest or left < lowest[limit.kind][0]:
                lowest[limit.kind] = left, headers
        for limit in limits:
            if limit.kind == "requests":
                self._get_window(limit.owner, "requests").current += 1
        return {name: value for _, headers in lowest.values() for name, value in headers.items()}

    def get_remaining(self, caller: Caller) -> dict[str, dict[str, int]]:
        """``limit`` and ``remaining`` of this minute, for each limited kind (requests, tokens)."""
        now = self._clock()
        found: dict[str, dict[str, int]] = {}
        for limit in _list_limits(caller):
            level = self._get_window(limit.owner, limit.kind).estimate_level(now)
            remaining = max(0, int(limit.most - level))
            if limit.kind not in found or remaining < found[limit.kind]["remaining"]:
                found[limit.kind] = {"limit": limit.most, "remaining": remaining}
        return found

    def charge(self, caller: Caller, meter: Meter) -> None:
        """Count the tokens of a response that has ended, in any way."""
        limits_tokens = caller.tokens_per_minute is not None or caller.team_limits.tokens_per_minute is not None
        if limits_tokens and not meter.charged:
            self.count_tokens(caller, compute_tokens(meter))

    def count_tokens(self, caller: Caller, tokens: int) -> None:
        now = self._clock()
        for limit in _list_limits(caller):
            if limit.kind == "tokens":
                window = self._get_window(limit.owner, "tokens")
                window.estimate_level(now)
                window.current += tokens

    def _check(self, limit: _Limit) -> tuple[int, dict[str, str]]:
        """Return what is left, and the headers. Raises RateLimited."""
        now, kind = self._clock(), limit.kind
        window = self._get_window(limit.owner, kind)
        level = window.estimate_level(now)
        room = limit.most - 1  # a request counts as one request and uses at least one token
        left = max(0, int(room - level))
        headers = {f"x-ratelimit-limit-{kind}": str(limit.most), f"x-ratelimit-remaining-{kind}": str(left)}
        if level > room:
            wait = math.ceil(window.estimate_seconds_until(room, now)) or 1
            error = RateLimited(
                f"The limit of {limit.words} is {limit.most} {kind} per minute; {math.ceil(level)} are used. "
                f"Retry after {wait} s.",
                retry_after=wait,
            )
            error.headers |= headers
            raise error
        return left, headers

    def _get_window(self, key: str, kind: str) -> _Window:
        window = self._windows.get((key, kind))
        if window is None:
            window = self._windows[key, kind] = _Window(began=self._clock())
        return window


def compute_tokens(meter: Meter) -> int:
    """The tokens that a response costs: those reported, or an estimate if a chat has ended before its final usage."""
    return settle_usage(meter)[0].total_tokens or 0


def estimate_prompt_tokens(value: Any) -> int:
    """An estimate of the tokens of a JSON body: the length of its texts; a file in base64 counts as FILE_TOKENS."""
    return _estimate_characters(value) // CHARACTERS_PER_TOKEN


def _estimate_characters(value: Any) -> int:
    if isinstance(value, str):
        is_file = len(value) > FILE_CHARACTERS and " " not in value[:FILE_CHARACTERS]
        return FILE_TOKENS * CHARACTERS_PER_TOKEN if is_file else len(value)
    if isinstance(value, Mapping):
        return sum(len(name) + _estimate_characters(member) for name, member in value.items())
    if isinstance(value, list | tuple):
        return sum(map(_estimate_characters, value))
    return 1
