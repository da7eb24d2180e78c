"""Prometheus metrics with bounded labels, and the delay of the event loop.

Labels come from the configuration: unknown models and providers are counted as "other", so that callers cannot create series.
If PROMETHEUS_MULTIPROC_DIR is set when `Metrics` is created, every process writes to files there and each of them renders
the sum.

Requests are first counted in `RequestCounters`. `render` includes them; `LoopLagMonitor` copies them to the series every quarter
of a second while it runs, otherwise they are copied at once.
"""

from __future__ import annotations

import asyncio
import os
import platform
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tornado_gate._version import __version__
from tornado_gate.errors import GateError, PluginError, UpstreamError
from tornado_gate.telemetry.request_counters import TOKEN_DIRECTIONS, RequestCounters, RequestLabels
from tornado_gate.types import Usage

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Gauge

DIRECTORY_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
OTHER_LABEL = "other"
MAX_CHILDREN = 20_000
"""Maximum number of label combinations (models x formats x statuses); further ones count as "other"."""

REQUEST_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
FIRST_EVENT_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60)
VIDEO_BUCKETS = (1, 5, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200)


class Metrics:
    """All metrics of the gateway. Create one per process, before `Gate`. Call it from the event loop only, except `flush` and
    `render`, which any thread may call."""

    def __init__(self) -> None:
        self._multiprocess = bool(os.environ.get(DIRECTORY_VARIABLE))
        self._registry = _make_registry()
        self._models: frozenset[str] = frozenset()
        self._providers: frozenset[str] = frozenset()
        self._kinds = _list_error_codes()
        self._cache: dict[tuple[str, str, str, str, int], RequestCounters] = {}
        self._waiting: deque[RequestCounters] = deque()
        self._flushing = threading.Lock()
        self._at_once = self._multiprocess
        self._streams = self._streams_told = 0
        self._bodies: dict[str, tuple[int, int, int]] = {}
        self._bodies_told: dict[str, tuple[int, int, int]] = {}
        self._make_request_metrics()
        self._make_process_metrics()
        self._make_video_metrics()

    def _make_request_metrics(self) -> None:
        from prometheus_client import Counter, Histogram

        registry = self._registry
        self._requests = Counter(
            "tornado_gate_requests",
            "Requests, by the status of the response.",
            ["format", "operation", "model", "provider", "status"],
            registry=registry,
        )
        self._seconds = Histogram(
            "tornado_gate_request_seconds",
            "Seconds from the request's first byte to the response's last byte.",
            ["format", "operation"],
            registry=registry,
            buckets=REQUEST_BUCKETS,
        )
        self._first_event = Histogram(
            "tornado_gate_first_event_seconds",
            "Seconds from the request's first byte to the upstream's first event.",
            ["format", "operation", "provider"],
            registry=registry,
            buckets=FIRST_EVENT_BUCKETS,
        )
        self._tokens = Counter(
            "tornado_gate_tokens",
            "Tokens reported by upstreams; cached tokens also count as input, reasoning tokens as output.",
            ["model", "provider", "direction"],
            registry=registry,
        )
        self._upstream_errors = Counter(
            "tornado_gate_upstream_errors",
            "Failed attempts at a target, by error code.",
            ["provider", "kind"],
            registry=registry,
        )

    def _make_process_metrics(self) -> None:
        from prometheus_client import Counter, Gauge

        registry = self._registry
        self._open_streams: Gauge = Gauge(
            "tornado_gate_open_streams",
            "Open streamed responses.",
            registry=registry,
            multiprocess_mode="livesum",
        )
        self._loop_lag: Gauge = Gauge(
            "tornado_gate_event_loop_lag_seconds",
            "Largest delay of the event loop in the last period, of the worst process.",
            registry=registry,
            multiprocess_mode="livemax",
        )
        self._body_bytes: Gauge = Gauge(
            "tornado_gate_body_bytes",
            "Bytes of the bodies of all open requests: large JSON bodies in memory, forms on the disk.",
            ["storage"],
            registry=registry,
            multiprocess_mode="livesum",
        )
        self._bodies_waiting: Gauge = Gauge(
            "tornado_gate_bodies_waiting",
            "Bodies that are not read because limits.bodies_bytes or limits.forms_bytes is reached.",
            ["storage"],
            registry=registry,
            multiprocess_mode="livesum",
        )
        self._bodies_refused = Counter(
            "tornado_gate_bodies_refused", "Bodies that waited in vain and got 503.", ["storage"], registry=registry
        )
        self._plugin_errors = Counter("tornado_gate_plugin_errors", "Plugin failures.", ["plugin"], registry=registry)
        self._reloads = Counter(
            "tornado_gate_reloads", "Reloads of the configuration, by result.", ["result"], registry=registry
        )
        build = Gauge(
            "tornado_gate_build_info",
            "Always 1; the labels contain the versions.",
            ["version", "python"],
            registry=registry,
            multiprocess_mode="max",
        )
        build.labels(__version__, platform.python_version()).set(1)

    def _make_video_metrics(self) -> None:
        from prometheus_client import Counter, Gauge, Histogram

        registry = self._registry
        self._videos_told: set[tuple[str, str]] = set()
        self._videos_ended: set[tuple[str, str]] = set()
        # Every process counts all tasks, so the most recent value is right; a sum would count each task several times.
        self._videos: Gauge = Gauge(
            "tornado_gate_open_video_tasks",
            "Video tasks that have not ended, of all processes.",
            ["provider", "state"],
            registry=registry,
            multiprocess_mode="livemostrecent",
        )
        self._video_oldest: Gauge = Gauge(
            "tornado_gate_video_oldest_seconds",
            "Age of the oldest video task that has not ended, in seconds.",
            registry=registry,
            multiprocess_mode="livemostrecent",
        )
        self._video_tasks = Counter(
            "tornado_gate_video_tasks",
            "Ended video tasks, by result.",
            ["provider", "model", "outcome"],
            registry=registry,
        )
        self._video_seconds = Histogram(
            "tornado_gate_video_task_seconds",
            "Seconds from a video task's request to its end.",
            ["provider", "outcome"],
            registry=registry,
            buckets=VIDEO_BUCKETS,
        )

    def set_known_names(self, *, models: Iterable[str], providers: Iterable[str]) -> None:
        """Set the names in the configuration, the only ones used as labels. On a reload, series of removed names are deleted."""
        with self._flushing:
            self._flush()
            self._models, self._providers = frozenset(models), frozenset(providers)
            gone = [tally for tally in self._cache.values() if not self._is_known(tally.labels)]
            self._cache = {key: tally for key, tally in self._cache.items() if self._is_known(tally.labels)}
            if not self._multiprocess:  # series in the files of several processes cannot be removed
                for tally in gone:
                    self._remove_series(tally.labels)
            self._remove_unknown_video_series()

    def _is_known(self, labels: RequestLabels) -> bool:
        return self._are_known(labels.model, labels.provider)

    def _are_known(self, model: str, provider: str) -> bool:
        return model in self._models | {"", OTHER_LABEL} and provider in self._providers | {"", OTHER_LABEL}

    def _remove_unknown_video_series(self) -> None:
        for provider, model in [labels for labels in self._videos_ended if not self._are_known(labels[1], labels[0])]:
            self._videos_ended.remove((provider, model))
            self._video_tasks.remove(provider, model, "completed")
            self._video_tasks.remove(provider, model, "failed")
            if provider not in self._providers:
                self._video_seconds.remove(provider, "completed")
                self._video_seconds.remove(provider, "failed")
        for provider, state in [labels for labels in self._videos_told if not self._are_known("", labels[0])]:
            self._videos_told.remove((provider, state))
            self._videos.remove(provider, state)

    def _remove_series(self, labels: RequestLabels) -> None:
        self._requests.remove(*labels[:4], str(labels.status))
        for direction in TOKEN_DIRECTIONS:
            self._tokens.remove(labels.model, labels.provider, direction)
        if labels.provider not in self._providers | {"", OTHER_LABEL}:
            self._first_event.remove(labels.format, labels.operation, labels.provider)

    def count_request(
        self,
        format: str,
        operation: str,
        model: str,
        provider: str,
        status: int,
        seconds: float,
        first_event_seconds: float | None = None,
        usage: Usage | None = None,
    ) -> None:
        """Count a finished request. `model` is the name of the configured entry, "" if the request reached none."""
        tally = self._cache.get((format, operation, model, provider, status))
        if tally is None:  # configured names are found above
            tally = self._get_counters(RequestLabels(format, operation, *self._bound_labels(model, provider), status))
        tally.add(seconds, first_event_seconds, usage)
        if not tally.waiting:
            tally.waiting = True
            self._waiting.append(tally)
            if self._at_once:
                self.flush()

    def _bound_labels(self, model: str, provider: str) -> tuple[str, str]:
        return (
            model if not model or model in self._models else OTHER_LABEL,
            provider if not provider or provider in self._providers else OTHER_LABEL,
        )

    def _get_counters(self, labels: RequestLabels) -> RequestCounters:
        if labels not in self._cache and len(self._cache) >= MAX_CHILDREN:
            labels = RequestLabels(OTHER_LABEL, OTHER_LABEL, OTHER_LABEL, OTHER_LABEL, labels.status)
        if labels not in self._cache:
            self._cache[labels] = RequestCounters(labels, REQUEST_BUCKETS, FIRST_EVENT_BUCKETS)
        return self._cache[labels]

    def defer(self, deferred: bool) -> None:
        """With true, `flush` is called periodically; with false, every count is flushed at once, also those pending."""
        self._at_once = self._multiprocess and not deferred
        if not deferred:
            self.flush()

    def flush(self) -> None:
        """Add the pending counts to the Prometheus series."""
        with self._flushing:
            self._flush()

    def _flush(self) -> None:
        for _ in range(len(self._waiting)):
            self._waiting.popleft().flush(self._requests, self._seconds, self._first_event, self._tokens)
        streams = self._streams
        if streams != self._streams_told:
            self._open_streams.set(streams)
            self._streams_told = streams
        if self._bodies != self._bodies_told:
            self._flush_bodies()

    def _flush_bodies(self) -> None:
        for storage, (held, waiting, refused) in self._bodies.items():
            self._body_bytes.labels(storage).set(held)
            self._bodies_waiting.labels(storage).set(waiting)
            self._bodies_refused.labels(storage).inc(refused - self._bodies_told.get(storage, (0, 0, 0))[2])
        self._bodies_told = dict(self._bodies)

    def set_bodies(self, storage: Literal["memory", "disk"], held_bytes: int, waiting: int, refused: int) -> None:
        """Set what the bodies of open requests hold, how many wait, and how many were refused since the start."""
        self._bodies[storage] = held_bytes, waiting, refused
        if self._at_once:
            self.flush()

    def count_upstream_error(self, provider: str, kind: str) -> None:
        """Count a failed attempt. `kind` is the error's code; codes made up by upstreams count as "other"."""
        known = provider if provider in self._providers else OTHER_LABEL
        self._upstream_errors.labels(known, kind if kind in self._kinds else OTHER_LABEL).inc()

    def count_plugin_error(self, plugin: str) -> None:
        """Count a failure of an installed plugin."""
        self._plugin_errors.labels(plugin).inc()

    def count_stream_opened(self) -> None:
        self._streams += 1
        if self._at_once:
            self.flush()

    def count_stream_closed(self) -> None:
        self._streams -= 1
        if self._at_once:
            self.flush()

    def set_video_tasks(self, counts: Mapping[tuple[str, str], int], oldest_seconds: float) -> None:
        """Set the number of unfinished video tasks of all processes, by (provider entry, "queued" or "running"), and the age
        of the oldest, 0 if there is none. Each process calls this periodically; missing combinations become 0."""
        told = dict.fromkeys(self._videos_told, 0)
        for (provider, state), count in counts.items():
            labels = (provider if provider in self._providers else OTHER_LABEL, state)
            told[labels] = told.get(labels, 0) + count
        for labels, count in told.items():
            self._videos.labels(*labels).set(count)
        self._videos_told = set(told)
        self._video_oldest.set(oldest_seconds)

    def count_video_ended(
        self, provider: str, model: str, outcome: Literal["completed", "failed"], seconds: float
    ) -> None:
        """Count an ended video task, `seconds` after its request. Call it once, in the process that ended it."""
        labels = (
            provider if provider in self._providers else OTHER_LABEL,
            model if model in self._models else OTHER_LABEL,
        )
        if labels not in self._videos_ended and len(self._videos_ended) >= MAX_CHILDREN:
            labels = (OTHER_LABEL, OTHER_LABEL)
        self._videos_ended.add(labels)
        self._video_tasks.labels(*labels, outcome).inc()
        self._video_seconds.labels(labels[0], outcome).observe(max(0.0, seconds))  # the clock may have been set back

    def observe_loop_lag(self, seconds: float) -> None:
        self._loop_lag.set(seconds)

    def count_reload(self, ok: bool) -> None:
        """Count a reload that succeeded or was rejected."""
        self._reloads.labels("ok" if ok else "failed").inc()

    def render(self) -> tuple[bytes, str]:
        """Return the text for Prometheus and its content type. Reads files if there are several processes."""
        from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
        from prometheus_client.multiprocess import MultiProcessCollector

        self.flush()
        registry = self._registry
        if self._multiprocess:
            registry = _make_registry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry), CONTENT_TYPE_LATEST


def _make_registry() -> CollectorRegistry:
    from prometheus_client import CollectorRegistry

    return CollectorRegistry()


def _list_error_codes() -> frozenset[str]:
    """Return the error codes that the gateway itself assigns to failures of upstreams and plugins."""
    codes = {"upstream_authentication", PluginError.code}
    pending: list[type[GateError]] = [UpstreamError]
    while pending:
        kind = pending.pop()
        codes.add(kind.code)
        pending += kind.__subclasses__()
    return frozenset(codes)


def prepare_directory(directory: Path) -> None:
    """Create the directory for several processes, and name it in the environment. Call before the first `Metrics`.

    Files of an earlier run are deleted, so that their counts are not added.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    for left_over in directory.glob("*.db"):
        left_over.unlink(missing_ok=True)
    os.environ[DIRECTORY_VARIABLE] = str(directory)


def remove_process(process_id: int) -> None:
    """Remove the open streams and the delay of an ended process; its counters stay."""
    if os.environ.get(DIRECTORY_VARIABLE):
        from prometheus_client.multiprocess import mark_process_dead

        mark_process_dead(process_id)  # type: ignore[no-untyped-call]


class LoopLagMonitor:
    """Schedules a callback in the event loop every `interval_seconds` and measures its delay.

    Reports the largest delay of each `period_seconds` to `metrics`, and flushes `metrics` at every callback and at the end. Call
    `start` inside the loop; both calls may be repeated.
    """

    def __init__(
        self,
        metrics: Metrics,
        *,
        interval_seconds: float = 0.25,
        period_seconds: float = 5.0,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._metrics = metrics
        self._interval = interval_seconds
        self._period = period_seconds
        self._loop: Any = loop
        self._handle: asyncio.TimerHandle | None = None
        self._due = self._period_ends = self._largest = 0.0

    def start(self) -> None:
        if self._handle is None:
            self._loop = self._loop or asyncio.get_running_loop()
            self._period_ends = self._loop.time() + self._period
            self._metrics.defer(True)
            self._schedule_tick()

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
            self._metrics.defer(False)

    def _schedule_tick(self) -> None:
        self._due = self._loop.time() + self._interval
        self._handle = self._loop.call_later(self._interval, self._tick)

    def _tick(self) -> None:
        now = self._loop.time()
        self._largest = max(self._largest, now - self._due)
        if now >= self._period_ends:
            self._metrics.observe_loop_lag(self._largest)
            self._largest = 0.0
            self._period_ends = now + self._period
        self._schedule_tick()
        self._metrics.flush()
