"""What requests add up to reaches Prometheus whole: whoever reads, whenever, from whatever thread or process."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import Histogram

from tests.telemetry.test_metrics import LABELS, finish, value
from tornado_gate.telemetry.metrics import Metrics
from tornado_gate.telemetry.metrics.requests import REQUEST_BUCKETS
from tornado_gate.telemetry.metrics.series import make_registry
from tornado_gate.telemetry.metrics_folder import prepare_folder
from tornado_gate.telemetry.request_counters import observe_all
from tornado_gate.types import Usage


@pytest.fixture
def metrics(monkeypatch: pytest.MonkeyPatch) -> Metrics:
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR", raising=False)
    made = Metrics()
    made.set_known_names(models=["gpt"], providers=["openai"])
    return made


@given(st.lists(st.one_of(st.sampled_from([0.0, 0.005, 0.25, 600.0, 600.5, 60.0]), st.floats(0, 1e4)), max_size=30))
def test_durations_are_shown_as_if_each_had_been_observed(durations: list[float]) -> None:
    registry = make_registry()
    observed = Histogram("one_by_one", "", ["way"], registry=registry, buckets=REQUEST_BUCKETS)
    one_by_one, together = observed.labels("observe"), observed.labels("together")
    for seconds in durations:
        one_by_one.observe(seconds)
    observe_all(together, durations[:10])
    observe_all(together, durations[10:])
    shown: dict[str, dict[tuple[str, str], float]] = {"observe": {}, "together": {}}
    for sample in next(iter(registry.collect())).samples:
        shown[sample.labels["way"]][sample.name, sample.labels.get("le", "")] = sample.value
    assert shown["together"] == pytest.approx(shown["observe"])


def test_counts_are_exact_though_other_threads_render_meanwhile(metrics: Metrics) -> None:
    ended = threading.Event()
    shown: list[list[float]] = [[], []]

    def watch(seen: list[float]) -> None:
        while not ended.is_set():
            seen.append(value(metrics, "requests_total", **LABELS) or 0.0)

    threads = [threading.Thread(target=watch, args=(seen,)) for seen in shown]
    for thread in threads:
        thread.start()
    for _ in range(30_000):
        finish(metrics, usage=Usage(input_tokens=2), first_event_seconds=0.5)
    ended.set()
    for thread in threads:
        thread.join()
    assert all(seen == sorted(seen) for seen in shown)
    assert value(metrics, "requests_total", **LABELS) == 30_000
    assert value(metrics, "request_seconds_count", format="format-openai", operation="chat") == 30_000
    first_event = {"format": "format-openai", "operation": "chat", "provider": "openai"}
    assert value(metrics, "first_event_seconds_sum", **first_event) == 15_000
    assert value(metrics, "tokens_total", model="gpt", provider="openai", direction="input") == 60_000


DEFERRED = """
import asyncio
from tests.support.entries import make_counted_entry
from prometheus_client import CollectorRegistry
from prometheus_client.multiprocess import MultiProcessCollector
from tornado_gate.telemetry.loop_lag import LoopLagMonitor
from tornado_gate.telemetry.metrics import Metrics
from tornado_gate.types import Usage

def read():
    registry = CollectorRegistry()
    MultiProcessCollector(registry)
    labels = dict(format="f", operation="chat", model="gpt", provider="openai", status="200")
    found = (registry.get_sample_value("tornado_gate_requests_total", labels),
             registry.get_sample_value("tornado_gate_open_streams"))
    print(*found, end=";")

def finish():
    metrics.requests.add(make_counted_entry(format="f", first_event_seconds=0.05, usage=Usage(input_tokens=1)))

def count():
    finish()
    metrics.requests.count_stream_opened()

class Loop:
    def time(self): return 0.0
    def call_later(self, delay, callback):
        self.callback = callback
        return asyncio.Handle(print, (), asyncio.new_event_loop())

metrics, loop = Metrics(), Loop()
metrics.set_known_names(models=["gpt"], providers=["openai"])
finish(); read()
metrics.requests.count_stream_opened(); metrics.requests.count_stream_opened(); read()
metrics.requests.count_stream_closed(); read()
lag = LoopLagMonitor(metrics, loop=loop)
lag.start()
count(); count(); read()
loop.callback(); read()
count(); metrics.set_known_names(models=["other"], providers=["openai"]); read()
metrics.set_known_names(models=["gpt"], providers=["openai"])
count(); lag.stop(); read()
count(); read()
count(); metrics.render(); read()
"""


def test_what_other_processes_read_is_as_old_as_the_last_call_of_the_loop_and_whole_when_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "")
    prepare_folder(tmp_path / "metrics")
    text = subprocess.check_output([sys.executable, "-c", DEFERRED], text=True, timeout=60)
    finished, opened, at_once, deferred, called, reloaded, stopped, after, rendered = text.strip(";").split(";")
    assert (finished, opened, at_once) == ("1.0 0.0", "1.0 2.0", "1.0 1.0")
    assert deferred == "1.0 1.0"
    assert called == "3.0 3.0"
    assert reloaded == "4.0 4.0"
    assert (stopped, after, rendered) == ("5.0 5.0", "6.0 6.0", "7.0 7.0")
