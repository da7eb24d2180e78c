"""deploy/: the dashboards and alert rules name series that a gateway has, and a real fault changes what each rule reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.deploy.faults import FAULTS, FAULTS_OF_PROCESSES, Seen, see_faults
from tests.deploy.rules import (
    DASHBOARDS,
    Selector,
    list_labels,
    list_selectors,
    read_dashboard_expressions,
    read_rules,
)
from tests.support.upstream import Upstream
from tornado_gate.telemetry.metrics import Metrics
from tornado_gate.telemetry.metrics.process import RestartCounter

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture
def seen(upstream: Upstream, tmp_path: Path) -> dict[str, Seen]:
    return see_faults(upstream, tmp_path)


def read_selected(text: str, selector: Selector) -> Samples:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if selector.selects(sample.name, sample.labels)
    }


@pytest.mark.qa
def test_a_real_fault_changes_what_its_rule_reads(seen: dict[str, Seen]) -> None:
    rules = read_rules()
    assert rules.keys() == seen.keys() == FAULTS.keys() | FAULTS_OF_PROCESSES.keys() | {"GateAbsent"}
    faults = []
    for name, rule in rules.items():
        for selector in list_selectors(rule["expr"]):
            before, during = read_selected(seen[name].before, selector), read_selected(seen[name].during, selector)
            assert selector.metric in seen[name].before + seen[name].during
            if before == during or (name != "GateAbsent" and not any(during.values())):
                faults.append(f"{name}: {selector} {before} {during}")
    assert not faults, "\n".join(faults)


def test_every_rule_tells_what_to_do() -> None:
    for name, rule in read_rules().items():
        assert rule["labels"]["severity"] in ("warning", "critical"), name
        assert {"summary", "description"} <= rule["annotations"].keys(), name


def list_known_series() -> dict[str, set[str]]:
    """Return the labels of every series of the gateway by its name, as Prometheus reads it."""
    known: dict[str, set[str]] = {}
    counters = [RestartCounter()._counter, *Metrics()._series._registry._collector_to_names]
    for series in counters:
        labels = set(series._labelnames)  # type: ignore[attr-defined]
        for sample in series.describe():
            name = sample.name
            known |= {name: labels, f"{name}_total": labels, f"{name}_sum": labels, f"{name}_count": labels}
            known[f"{name}_bucket"] = labels | {"le"}
    return known


def test_every_series_of_dashboards_and_rules_exists_with_its_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR", raising=False)
    known = list_known_series()
    expressions = [*read_dashboard_expressions(), *((name, rule["expr"]) for name, rule in read_rules().items())]
    faults = []
    for place, expression in expressions:
        labels = list_labels(expression)
        for selector in list_selectors(expression):
            used = labels | {label for label, _, _ in selector.matchers}
            if selector.metric not in known:
                faults.append(f"{place}: there is no {selector.metric}")
            elif missing := used - known[selector.metric] - {"le"}:
                faults.append(f"{place}: {selector.metric} has no {missing}")
    assert len(expressions) > 30
    assert not faults, "\n".join(faults)


def test_dashboards_are_ready_to_import() -> None:
    assert DASHBOARDS
    for path in DASHBOARDS:
        dashboard = json.loads(path.read_text(encoding="utf-8"))
        ids = [panel["id"] for panel in dashboard["panels"]]
        assert len(ids) == len(set(ids)), path
        assert dashboard["id"] is None, path
        assert dashboard["uid"] == path.stem, path
        for panel in dashboard["panels"]:
            assert panel["title"], path
            assert panel["type"] == "row" or panel["datasource"]["uid"] == "${datasource}", panel["title"]
        for one in dashboard["panels"]:
            for other in dashboard["panels"]:
                assert one is other or not _overlap(one["gridPos"], other["gridPos"]), (one["title"], other["title"])


def _overlap(one: dict[str, int], other: dict[str, int]) -> bool:
    return not (
        one["x"] + one["w"] <= other["x"]
        or other["x"] + other["w"] <= one["x"]
        or one["y"] + one["h"] <= other["y"]
        or other["y"] + other["h"] <= one["y"]
    )


def test_the_files_are_described() -> None:
    page = (Path(__file__).parents[2] / "docs" / "deployment" / "observability.md").read_text(encoding="utf-8")
    for name in read_rules():
        assert f"`{name}`" in page, name
    for path in DASHBOARDS:
        assert f"deploy/grafana/{path.name}" in page, path
