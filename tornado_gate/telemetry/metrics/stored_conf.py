"""The configuration in the database, as a node with such a configuration uses it."""

from __future__ import annotations

from tornado_gate.telemetry.metrics.series import SeriesFactory


class StoredConfMetrics:
    """The versions of the configuration. With several processes, each series shows the worst of them."""

    def __init__(self, series: SeriesFactory) -> None:
        self._version = series.make_gauge(
            "tornado_gate_conf_version", "Version of the configuration in the database that is used.", mode="livemin"
        )
        self._newest = series.make_gauge(
            "tornado_gate_conf_newest_version", "Newest version that this node has read.", mode="livemax"
        )
        self._refused = series.make_gauge(
            "tornado_gate_conf_refused", "1 while the node cannot use the newest version.", mode="livemax"
        )
        self._away = series.make_gauge(
            "tornado_gate_conf_database_away",
            "1 while the configuration cannot be read from the database.",
            mode="livemax",
        )

    def set_versions(self, version: int, newest: int, *, is_refused: bool, is_away: bool) -> None:
        self._version.set(version)
        self._newest.set(newest)
        self._refused.set(is_refused)
        self._away.set(is_away)
