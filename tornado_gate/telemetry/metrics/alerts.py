"""Alerts and the messages about them. The names of sinks come from conf."""

from __future__ import annotations

from tornado_gate.telemetry.metrics.series import SeriesFactory


class AlertMetrics:
    """Alerts that were raised, messages by their result, and messages that wait."""

    def __init__(self, series: SeriesFactory) -> None:
        self._raised = series.make_counter("tornado_gate_alerts", "Alerts that this node has raised.", ["kind"])
        self._messages = series.make_counter(
            "tornado_gate_alert_messages",
            "Attempts to send messages about alerts: sent, retried, failed; dropped because too many wait (without a sink).",
            ["sink", "result"],
        )
        self._queued = series.make_gauge(
            "tornado_gate_alert_messages_queued",
            "Messages about alerts that wait, of all nodes.",
            mode="livemostrecent",
        )

    def count_raised(self, kind: str) -> None:
        self._raised.labels(kind).inc()

    def count_message(self, sink: str, result: str, number: int = 1) -> None:
        self._messages.labels(sink, result).inc(number)

    def set_queued(self, number: int) -> None:
        self._queued.set(number)
