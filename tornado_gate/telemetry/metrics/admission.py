"""The reasons why requests wait or are refused: bodies, overload, connections, limits."""

from __future__ import annotations

from typing import Literal

from tornado_gate.telemetry.metrics.flushing import Flusher
from tornado_gate.telemetry.metrics.series import SeriesFactory

LIMIT_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1)


class AdmissionMetrics:
    """Bodies of open requests, and requests and connections that were refused."""

    def __init__(self, series: SeriesFactory, flusher: Flusher) -> None:
        self._flusher = flusher
        self._bodies: dict[str, tuple[int, int, int]] = {}
        self._bodies_shown: dict[str, tuple[int, int, int]] = {}
        self._body_bytes = series.make_gauge(
            "tornado_gate_body_bytes",
            "Bytes of the bodies of all open requests: large JSON bodies in memory, forms on the disk.",
            ["storage"],
            mode="livesum",
        )
        self._bodies_waiting = series.make_gauge(
            "tornado_gate_bodies_waiting",
            "Bodies that are not read because limits.bodies_bytes or limits.forms_bytes is reached.",
            ["storage"],
            mode="livesum",
        )
        self._bodies_refused = series.make_counter(
            "tornado_gate_bodies_refused", "Bodies that waited in vain and got 503.", ["storage"]
        )
        self._shared: dict[str, int] = {}
        self._shared_shown: dict[str, int] = {}
        self._shared_bytes = series.make_gauge(
            "tornado_gate_shared_bytes",
            "Bytes of memory that accounts share: large_responses, fetched_files, kept_turns.",
            ["resource"],
            mode="livesum",
        )
        self._open_shown = 0
        self._open_requests = series.make_gauge(
            "tornado_gate_open_requests", "Open requests of callers, with streams and sessions.", mode="livesum"
        )
        self._shed = series.make_counter(
            "tornado_gate_shed_requests",
            "Requests that were refused with 503 because of an overload, by reason.",
            ["reason"],
        )
        self._connection_limits = series.make_counter(
            "tornado_gate_connection_limits",
            "Connections of callers that were closed or not accepted because of a limit, by limit.",
            ["limit"],
        )
        flusher.add_subject(self._flush)

    def set_bodies(self, storage: Literal["memory", "disk"], held_bytes: int, waiting: int, refused: int) -> None:
        """Set what the bodies of open requests hold, how many wait, and how many were refused since the start."""
        self._bodies[storage] = held_bytes, waiting, refused
        self._flusher.request_flush()

    def set_shared(self, resource: Literal["large_responses", "fetched_files", "kept_turns"], held_bytes: int) -> None:
        """Set what all accounts hold of a shared memory. Any thread may call it."""
        self._shared[resource] = held_bytes
        self._flusher.request_flush()

    def set_open_requests(self, count: int) -> None:
        """Set the number of open requests of this process. Called several times a second, not for each request."""
        if count != self._open_shown:
            self._open_requests.set(count)
            self._open_shown = count

    def count_shed_request(self, reason: str) -> None:
        """Count a request that was refused because of an overload; `reason` is one of a few."""
        self._shed.labels(reason).inc()

    def count_connection_limit(self, limit: str) -> None:
        """Count a connection that has reached `limit`, one of the few values of `http.server.refusals.Limit`."""
        self._connection_limits.labels(limit).inc()

    def _flush(self) -> None:
        self._flush_bodies()
        shared = self._shared.copy()  # a thread may change it
        for resource, held in shared.items() if shared != self._shared_shown else ():
            self._shared_bytes.labels(resource).set(held)
        self._shared_shown = shared

    def _flush_bodies(self) -> None:
        if self._bodies == self._bodies_shown:
            return
        for storage, (held, waiting, refused) in self._bodies.items():
            self._body_bytes.labels(storage).set(held)
            self._bodies_waiting.labels(storage).set(waiting)
            self._bodies_refused.labels(storage).inc(refused - self._bodies_shown.get(storage, (0, 0, 0))[2])
        self._bodies_shown = dict(self._bodies)


class LimitMetrics:
    """Limits of requests, tokens and money, and the store that counts them."""

    def __init__(self, series: SeriesFactory) -> None:
        self._refusals = series.make_counter(
            "tornado_gate_limit_refusals",
            "Requests that a bound has refused, by its name and by what it bounds: key, user, team, model, provider, gateway.",
            ["bound", "subject"],
        )
        self._seconds = series.make_histogram(
            "tornado_gate_limit_store_seconds",
            "Seconds in which the bounds of a request were reserved, by store: embedded or redis.",
            ["store"],
            LIMIT_BUCKETS,
        )
        self._dropped_counters = series.make_counter(
            "tornado_gate_limit_counters_dropped",
            "Counters of limits that were dropped because too many subjects are limited: their minutes begin again.",
        )
        self._store_away = series.make_gauge(
            "tornado_gate_limit_store_away",
            "1 while limits.store cannot be used and requests are counted on this machine only, of the worst process.",
            mode="livemax",
        )

    def count_refusal(self, limit: str, subject: str) -> None:
        """Count a rejected request by the name of the limit and the kind of its subject."""
        self._refusals.labels(limit, subject).inc()

    def observe_store(self, store: str, seconds: float) -> None:
        """Record the time of a reservation in the store named "embedded" or "redis"."""
        self._seconds.labels(store).observe(seconds)

    def count_dropped_counters(self, count: int) -> None:
        """Count the counters of limits that had no room."""
        self._dropped_counters.inc(count)

    def set_store_away(self, away: bool) -> None:
        """Record whether the store of conf cannot be used."""
        self._store_away.set(away)
