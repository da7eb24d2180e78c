"""Provider entries: failed attempts, circuits, keys, health checks, running requests."""

from __future__ import annotations

from tornado_gate.telemetry.metrics.flushing import Flusher
from tornado_gate.telemetry.metrics.labels import KnownLabels
from tornado_gate.telemetry.metrics.series import SeriesFactory

STATES = ("running", "waiting")


class TargetMetrics:
    """The state of provider entries, and of circuits by the model entry that was requested."""

    def __init__(self, series: SeriesFactory, labels: KnownLabels, flusher: Flusher) -> None:
        self._labels = labels
        self._flusher = flusher
        self._open_circuits: dict[tuple[str, str], int] = {}
        self._running: dict[str, tuple[int, int]] = {}
        self._running_shown: dict[str, tuple[int, int]] = {}
        self._make_series(series)
        self._make_circuit_series(series)
        flusher.add_subject(self._flush)

    def _make_series(self, series: SeriesFactory) -> None:
        self._errors = series.make_counter(
            "tornado_gate_upstream_errors",
            "Failed attempts at a target, before or after the first event, by error code.",
            ["provider", "kind"],
        )
        self._requests = series.make_gauge(
            "tornado_gate_target_requests",
            "Requests of provider entries with a limit of concurrency, running and waiting.",
            ["provider", "state"],
            mode="livesum",
        )
        self._down = series.make_gauge(
            "tornado_gate_providers_down",
            "1 while the health checks of a provider entry fail.",
            ["provider"],
            mode="livemax",
        )
        self._health_checks = series.make_counter(
            "tornado_gate_health_checks", "Health checks of provider entries.", ["provider", "result"]
        )
        self._key_suspensions = series.make_counter(
            "tornado_gate_provider_key_rests",
            "Keys of provider entries that were refused or limited by the upstream and rest, by the key's number in conf.",
            ["provider", "key", "reason"],
        )

    def _make_circuit_series(self, series: SeriesFactory) -> None:
        self._circuits = series.make_gauge(
            "tornado_gate_open_circuits",
            "Open circuits of a provider entry, by the model entry that was requested; of the process that has most.",
            ["provider", "model"],
            mode="livemax",
        )
        self._circuit_transitions = series.make_counter(
            "tornado_gate_circuit_transitions", "Circuits that opened or closed.", ["provider", "model", "to"]
        )

    def count_error(self, provider: str, kind: str) -> None:
        """Count a failed attempt. `kind` is the error's code; codes made up by upstreams count as "other"."""
        self._errors.labels(self._labels.bind_provider(provider), self._labels.bind_code(kind)).inc()

    def count_circuit_transition(self, provider: str, model: str, *, is_open: bool) -> None:
        """Count a circuit that opened or closed. `model` is the name of a configured entry."""
        known_model, known_provider = self._labels.bind_target(model, provider)
        self._circuit_transitions.labels(known_provider, known_model, "open" if is_open else "closed").inc()
        self.show_circuit_transition(provider, model, is_open=is_open)

    def show_circuit_transition(self, provider: str, model: str, *, is_open: bool) -> None:
        """Show a circuit that has opened or closed, which another process has counted."""
        model, provider = self._labels.bind_target(model, provider)
        count = max(0, self._open_circuits.get((provider, model), 0) + (1 if is_open else -1))
        self._open_circuits[provider, model] = count
        self._circuits.labels(provider, model).set(count)

    def count_key_suspension(self, provider: str, key: str, reason: str) -> None:
        """Count a suspension of a provider entry's key. `key` is its number in conf, `reason` the code of an error class."""
        self._key_suspensions.labels(self._labels.bind_provider(provider), key, self._labels.bind_code(reason)).inc()

    def set_down(self, provider: str, *, is_down: bool) -> None:
        """Set whether the health checks of a provider entry fail."""
        self._down.labels(self._labels.bind_provider(provider)).set(is_down)

    def count_health_check(self, provider: str, result: str) -> None:
        """Count a health check. `result` is "passed", "failed" or "not_sent"."""
        self._health_checks.labels(self._labels.bind_provider(provider), result).inc()

    def set_requests(self, provider: str, running: int, waiting: int) -> None:
        """Set how many requests of a configured provider entry run and wait."""
        self._running[provider] = running, waiting
        self._flusher.request_flush()

    def _flush(self) -> None:
        if self._running == self._running_shown:
            return
        for provider, counts in self._running.items():
            for state, count in zip(STATES, counts, strict=True):
                self._requests.labels(provider, state).set(count)
        self._running_shown = dict(self._running)

    def remove_unknown_series(self) -> None:
        """Remove the series of names that the configuration no longer has."""
        for provider, model in list(self._open_circuits):
            if not self._labels.has_target(model, provider):
                del self._open_circuits[provider, model]
                self._circuits.remove(provider, model)
        for provider in [name for name in self._running_shown if not self._labels.is_configured(name)]:
            self._running.pop(provider, None)
            del self._running_shown[provider]
            for state in STATES:
                self._requests.remove(provider, state)
