"""The part of conf for the choice of targets: strategies, cache affinity, retries, circuits and health checks."""

from __future__ import annotations

from typing import Literal

from tornado_gate.types.value import Value

Strategy = Literal["weighted", "latency", "least_busy", "cost"]

SESSION_HEADERS = "session_headers"
"""In `Affinity.sources`: the headers with which coding agents name their session."""


class Affinity(Value, frozen=True, kw_only=True):
    """Affinity: requests of one conversation go to the same target and key, so that the upstream's prompt cache has
    their prompt.

    `sources` are tried in order: names of headers and of members of the body (``metadata.user_id``), or
    SESSION_HEADERS. `otherwise` is used for a request that has none of them. A conversation that had to move to another
    target stays there until it was silent for `ttl` seconds. If a target has more than `most_load` times its share of
    the requests in flight, it gets no more requests while others have less.
    """

    sources: tuple[str, ...] = ("prompt_cache_key", SESSION_HEADERS, "metadata.user_id")
    otherwise: Literal["prefix", "none"] = "prefix"
    ttl: float = 3600.0
    most_load: float = 1.25


class RetryBudget(Value, frozen=True, kw_only=True):
    """The concurrent retries of a target: `share` of its requests, but always `minimum`."""

    share: float = 0.2
    minimum: int = 3


class RetriesConfig(Value, frozen=True, kw_only=True):
    """The retries of a request at the same target, before it goes to the next one.

    The first retry waits about `backoff_seconds`, each further one twice as long, up to `max_wait_seconds`. If the
    Retry-After of a target is longer, the target is not tried again.
    """

    same_target: int = 0
    backoff_seconds: float = 0.1
    max_wait_seconds: float = 2.0
    budget: RetryBudget = RetryBudget()


class CircuitsConfig(Value, frozen=True, kw_only=True):
    """Circuits. They open after `failures` consecutive failures, or when `failure_share` of the last `window` requests
    have failed.

    The target then gets no requests for `open_seconds`. After that it gets one probe request, which others wait for up
    to `probe_seconds`. If an upstream refuses a key, the key gets no requests for `refused_key_seconds`. If an upstream
    limits a key, the key gets none until its Retry-After, or for `limited_key_seconds` without one. Both apply while
    another key is left.
    """

    failures: int = 5
    open_seconds: float = 10.0
    window: int = 20
    failure_share: float = 0.5
    probe_seconds: float = 60.0
    refused_key_seconds: float = 300.0
    limited_key_seconds: float = 5.0


class HealthCheck(Value, frozen=True, kw_only=True):
    """An active check of a provider entry, every `interval` seconds: a GET of `path`, or a tiny chat request for `model`.

    After `failures` consecutive failures the entry's targets are skipped, until `successes` consecutive checks succeed.
    """

    path: str = ""
    model: str = ""
    interval: float = 30.0
    timeout: float = 5.0
    failures: int = 3
    successes: int = 2
