"""Metrics: names, bounded labels, several processes, and the loop's lag."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.entries import make_counted_entry
from tornado_gate import __version__
from tornado_gate.telemetry import metrics_folder
from tornado_gate.telemetry.loop_lag import LoopLagMonitor
from tornado_gate.telemetry.metrics import Metrics, requests, tasks
from tornado_gate.telemetry.metrics_folder import prepare_folder
from tornado_gate.types import Usage

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def samples(text: str) -> Samples:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return samples(metrics.render()[0].decode()).get((f"tornado_gate_{name}", frozenset(labels.items())))


def names(metrics: Metrics, name: str, label: str) -> set[str]:
    found = samples(metrics.render()[0].decode())
    return {dict(labels)[label] for (family, labels) in found if family == f"tornado_gate_{name}"}


@pytest.fixture
def metrics(monkeypatch: pytest.MonkeyPatch) -> Metrics:
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR", raising=False)
    made = Metrics()
    made.set_known_names(models=["gpt", "smart"], providers=["openai"])
    return made


def finish(metrics: Metrics, **rest: Any) -> None:
    metrics.requests.add(make_counted_entry(**rest))


LABELS = {"format": "format-openai", "operation": "chat", "model": "gpt", "provider": "openai", "status": "200"}


def test_a_request_is_counted_by_format_operation_model_provider_and_status(metrics: Metrics) -> None:
    finish(metrics)
    finish(metrics)
    finish(metrics, status=503)
    assert value(metrics, "requests_total", **LABELS) == 2
    assert value(metrics, "requests_total", **(LABELS | {"status": "503"})) == 1
    assert value(metrics, "request_seconds_count", format="format-openai", operation="chat") == 3
    assert value(metrics, "request_seconds_bucket", format="format-openai", operation="chat", le="0.25") == 0
    assert value(metrics, "request_seconds_bucket", format="format-openai", operation="chat", le="0.5") == 3


def test_the_first_event_is_timed_only_when_there_was_one(metrics: Metrics) -> None:
    finish(metrics)
    finish(metrics, first_event_seconds=0.02)
    labels = {"format": "format-openai", "operation": "chat", "provider": "openai"}
    assert value(metrics, "first_event_seconds_count", **labels) == 1
    assert value(metrics, "first_event_seconds_sum", **labels) == 0.02


def test_a_target_is_timed_by_model_and_provider_where_it_has_answered(metrics: Metrics) -> None:
    pair = {"model": "gpt", "provider": "openai"}
    finish(metrics, seconds=2.0, first_event_seconds=2.0)
    finish(metrics, seconds=3.0, first_event_seconds=0.5, is_streamed=True)
    finish(metrics, seconds=9.0, status=503)
    finish(metrics, seconds=9.0, first_event_seconds=9.0, is_streamed=True, cached=True)
    finish(metrics, seconds=9.0, model="", provider="", status=200)
    assert value(metrics, "target_seconds_count", **pair) == 2
    assert value(metrics, "target_seconds_sum", **pair) == 5.0
    assert value(metrics, "time_to_first_token_seconds_count", **pair) == 1
    assert value(metrics, "time_to_first_token_seconds_bucket", **pair, le="0.5") == 1
    assert names(metrics, "target_seconds_count", "model") == {"gpt"}


def test_timed_targets_are_bounded_and_forgotten_with_their_names(
    metrics: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "MAX_TARGETS", 2)
    metrics.set_known_names(models=[f"m{number}" for number in range(9)], providers=["openai"])
    for number in range(9):
        finish(metrics, model=f"m{number}", first_event_seconds=0.5, is_streamed=True)
    for name in ("target_seconds_count", "time_to_first_token_seconds_count"):
        assert names(metrics, name, "model") == {"m0", "m1", "other"}
        assert value(metrics, name, model="other", provider="other") == 7
    metrics.set_known_names(models=["m1", "m8"], providers=["openai"])
    finish(metrics, model="m8", first_event_seconds=0.5, is_streamed=True)
    assert names(metrics, "time_to_first_token_seconds_count", "model") == {"m1", "m8", "other"}


def test_no_series_has_a_double_with_the_time_of_its_creation(metrics: Metrics) -> None:
    finish(metrics, usage=Usage(input_tokens=1), first_event_seconds=1.0)
    assert b"_created" not in metrics.render()[0]


def test_tokens_are_counted_by_direction_and_unreported_ones_are_not(metrics: Metrics) -> None:
    usage = Usage(input_tokens=10, output_tokens=4, cache_read_tokens=6, reasoning_tokens=0)
    finish(metrics, usage=usage)
    finish(metrics, usage=usage)
    counted = {
        direction: value(metrics, "tokens_total", model="gpt", provider="openai", direction=direction)
        for direction in ("input", "output", "cache_read", "cache_write", "reasoning")
    }
    assert counted == {"input": 20, "output": 8, "cache_read": 12, "cache_write": None, "reasoning": None}


def test_a_negative_count_from_an_upstream_does_no_harm(metrics: Metrics) -> None:
    finish(metrics, usage=Usage(input_tokens=-5))
    assert value(metrics, "requests_total", **LABELS) == 1
    assert value(metrics, "tokens_total", model="gpt", provider="openai", direction="input") is None
    finish(metrics, usage=Usage(input_tokens=-5))
    finish(metrics, usage=Usage(input_tokens=7))
    assert value(metrics, "tokens_total", model="gpt", provider="openai", direction="input") == 7


def test_names_that_conf_does_not_hold_are_counted_as_other(metrics: Metrics) -> None:
    for number in range(500):
        finish(metrics, model=f"made-up-{number}", provider=f"p{number}", usage=Usage(input_tokens=1))
    assert names(metrics, "requests_total", "model") == {"other"}
    assert names(metrics, "requests_total", "provider") == {"other"}
    assert value(metrics, "tokens_total", model="other", provider="other", direction="input") == 500


def test_a_request_that_reached_no_model_has_empty_labels(metrics: Metrics) -> None:
    finish(metrics, model="", provider="", status=401)
    assert value(metrics, "requests_total", **(LABELS | {"model": "", "provider": "", "status": "401"})) == 1


def test_a_reload_knows_the_new_names_and_forgets_the_old_ones(metrics: Metrics) -> None:
    finish(metrics, usage=Usage(input_tokens=1), first_event_seconds=1.0)
    finish(metrics, model="smart")
    metrics.set_known_names(models=["smart", "new"], providers=["openai"])
    finish(metrics)
    finish(metrics, model="new")
    assert names(metrics, "requests_total", "model") == {"smart", "new", "other"}
    assert names(metrics, "tokens_total", "model") == set()
    assert names(metrics, "first_event_seconds_count", "provider") == {"openai"}
    metrics.set_known_names(models=["smart"], providers=[])
    assert names(metrics, "first_event_seconds_count", "provider") == set()


def test_a_kept_model_keeps_its_count_over_a_reload(metrics: Metrics) -> None:
    finish(metrics)
    metrics.set_known_names(models=["gpt"], providers=["openai"])
    finish(metrics)
    assert value(metrics, "requests_total", **LABELS) == 2


def test_series_are_bounded_whatever_conf_holds(metrics: Metrics, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "MAX_CHILDREN", 3)
    metrics.set_known_names(models=[f"m{number}" for number in range(50)], providers=["openai"])
    for number in range(50):
        finish(metrics, model=f"m{number}", usage=Usage(output_tokens=1))
    assert names(metrics, "requests_total", "model") == {"m0", "m1", "m2", "other"}
    assert value(metrics, "tokens_total", model="other", provider="other", direction="output") == 47


def test_an_error_code_that_an_upstream_made_up_makes_no_series(metrics: Metrics) -> None:
    for kind in ("upstream_timeout", "upstream_authentication", "plugin_failed", "context_length_exceeded", "x" * 99):
        metrics.targets.count_error("openai", kind)
    metrics.targets.count_error("unknown", "upstream_error")
    assert names(metrics, "upstream_errors_total", "kind") == {
        "upstream_timeout",
        "upstream_authentication",
        "plugin_failed",
        "upstream_error",
        "other",
    }
    assert value(metrics, "upstream_errors_total", provider="openai", kind="other") == 2
    assert value(metrics, "upstream_errors_total", provider="other", kind="upstream_error") == 1


def test_streams_plugins_reloads_and_lag_are_counted(metrics: Metrics) -> None:
    metrics.requests.count_stream_opened()
    metrics.requests.count_stream_opened()
    metrics.requests.count_stream_closed()
    metrics.process.count_plugin_error("local")
    metrics.process.count_reload(True)
    metrics.process.count_reload(False)
    metrics.process.observe_loop(0.125, 7)
    assert value(metrics, "open_streams") == 1
    assert value(metrics, "plugin_errors_total", plugin="local") == 1
    assert value(metrics, "reloads_total", result="ok") == 1
    assert value(metrics, "reloads_total", result="failed") == 1
    assert value(metrics, "event_loop_lag_seconds") == 0.125
    assert value(metrics, "event_loop_tasks") == 7


def test_open_video_tasks_are_told_by_provider_and_state(metrics: Metrics) -> None:
    metrics.tasks.set_open({("openai", "queued"): 3, ("openai", "running"): 2}, 61.5)
    assert value(metrics, "open_video_tasks", provider="openai", state="queued") == 3
    assert value(metrics, "open_video_tasks", provider="openai", state="running") == 2
    assert value(metrics, "video_oldest_seconds") == 61.5
    metrics.tasks.set_open({("openai", "running"): 1}, 0.0)
    assert value(metrics, "open_video_tasks", provider="openai", state="queued") == 0
    assert value(metrics, "open_video_tasks", provider="openai", state="running") == 1
    assert value(metrics, "video_oldest_seconds") == 0


def test_open_video_tasks_of_providers_that_conf_lacks_are_added_up(metrics: Metrics) -> None:
    metrics.tasks.set_open({("gone", "queued"): 3, ("lost", "queued"): 4}, 1.0)
    assert names(metrics, "open_video_tasks", "provider") == {"other"}
    assert value(metrics, "open_video_tasks", provider="other", state="queued") == 7


def test_a_video_task_that_has_ended_is_counted_and_timed(metrics: Metrics) -> None:
    metrics.tasks.count_ended("openai", "gpt", "completed", 45.0)
    metrics.tasks.count_ended("openai", "smart", "completed", 61.0)
    metrics.tasks.count_ended("openai", "gpt", "failed", -3.0)
    assert value(metrics, "video_tasks_total", provider="openai", model="gpt", outcome="completed") == 1
    assert value(metrics, "video_tasks_total", provider="openai", model="smart", outcome="completed") == 1
    assert value(metrics, "video_tasks_total", provider="openai", model="gpt", outcome="failed") == 1
    assert value(metrics, "video_task_seconds_bucket", provider="openai", outcome="completed", le="60.0") == 1
    assert value(metrics, "video_task_seconds_sum", provider="openai", outcome="completed") == 106
    assert value(metrics, "video_task_seconds_sum", provider="openai", outcome="failed") == 0


def test_video_tasks_of_names_that_conf_does_not_hold_are_counted_as_other(metrics: Metrics) -> None:
    for number in range(100):
        metrics.tasks.count_ended(f"p{number}", f"m{number}", "failed", 1.0)
    assert value(metrics, "video_tasks_total", provider="other", model="other", outcome="failed") == 100
    assert names(metrics, "video_tasks_total", "provider") == {"other"}
    assert names(metrics, "video_task_seconds_count", "provider") == {"other"}


def test_series_of_video_tasks_are_bounded_whatever_conf_holds(
    metrics: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "MAX_CHILDREN", 2)
    metrics.set_known_names(models=[f"m{number}" for number in range(20)], providers=["openai"])
    for number in range(20):
        metrics.tasks.count_ended("openai", f"m{number}", "completed", 1.0)
    metrics.tasks.count_ended("openai", "m0", "completed", 1.0)
    assert names(metrics, "video_tasks_total", "model") == {"m0", "m1", "other"}
    assert value(metrics, "video_tasks_total", provider="openai", model="m0", outcome="completed") == 2


def test_a_reload_forgets_the_video_tasks_of_gone_names(metrics: Metrics) -> None:
    metrics.tasks.set_open({("openai", "queued"): 1}, 1.0)
    metrics.tasks.count_ended("openai", "gpt", "completed", 1.0)
    metrics.tasks.count_ended("openai", "smart", "failed", 1.0)
    metrics.set_known_names(models=["smart"], providers=["openai"])
    assert names(metrics, "video_tasks_total", "model") == {"smart"}
    assert value(metrics, "video_task_seconds_count", provider="openai", outcome="completed") == 1
    metrics.set_known_names(models=["smart"], providers=[])
    assert names(metrics, "video_tasks_total", "model") == set()
    assert names(metrics, "open_video_tasks", "provider") == set()
    assert names(metrics, "video_task_seconds_count", "provider") == set()
    metrics.tasks.set_open({("openai", "queued"): 1}, 1.0)
    assert names(metrics, "open_video_tasks", "provider") == {"other"}


def test_build_info_names_the_version(metrics: Metrics) -> None:
    assert names(metrics, "build_info", "version") == {__version__}


def test_the_content_type_is_that_of_prometheus_text(metrics: Metrics) -> None:
    assert metrics.render()[1].startswith("text/plain; version=")


def test_two_metrics_in_one_process_do_not_meet(metrics: Metrics) -> None:
    finish(Metrics())
    assert value(metrics, "requests_total", **LABELS) is None


def test_importing_the_module_does_not_import_prometheus_client() -> None:
    code = "import sys, tornado_gate.telemetry.metrics; print('prometheus_client' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"


WORKER = """
import os
from tests.support.entries import make_counted_entry
from tornado_gate.telemetry.metrics import Metrics
metrics = Metrics()
metrics.set_known_names(models=["gpt"], providers=["openai"])
for process in range(3):
    child = os.fork()
    if not child:
        metrics.requests.add(make_counted_entry())
        metrics.requests.count_stream_opened()
        metrics.process.observe_loop(process, 2)
        metrics.tasks.set_open({("openai", "queued"): 9 - process, ("openai", "running"): 1}, 100.0 - process)
        metrics.tasks.count_ended("openai", "gpt", "completed", 2.0)
        os._exit(0)
    os.waitpid(child, 0)
    if process == 2:
        from tornado_gate.telemetry.metrics.process import remove_process
        remove_process(child)
metrics.requests.add(make_counted_entry())
print(metrics.render()[0].decode())
"""


def test_several_processes_are_rendered_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "")
    prepare_folder(tmp_path / "metrics")
    text = subprocess.check_output([sys.executable, "-c", WORKER], text=True, timeout=60)
    found = samples(text)
    assert found["tornado_gate_requests_total", frozenset(LABELS.items())] == 4
    timed = frozenset({"model": "gpt", "provider": "openai"}.items())
    assert found["tornado_gate_target_seconds_count", timed] == 4
    assert found["tornado_gate_open_streams", frozenset()] == 2
    assert found["tornado_gate_event_loop_lag_seconds", frozenset()] == 1
    assert found["tornado_gate_event_loop_tasks", frozenset()] == 4, "the sum of the living processes"
    queued = frozenset({"provider": "openai", "state": "queued"}.items())
    assert found["tornado_gate_open_video_tasks", queued] == 8, "it is what the last living process saw, not a sum"
    assert found["tornado_gate_video_oldest_seconds", frozenset()] == 99
    ended = frozenset({"provider": "openai", "model": "gpt", "outcome": "completed"}.items())
    assert found["tornado_gate_video_tasks_total", ended] == 3


def test_what_a_former_run_counted_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "")
    (tmp_path / "counter_1.db").write_bytes(b"old")
    (tmp_path / "else.txt").write_text("not ours")
    prepare_folder(tmp_path)
    assert [path.name for path in tmp_path.glob("*.*")] == ["else.txt"]


def test_the_folder_of_a_run_is_removed_when_none_of_its_processes_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "")
    first = prepare_folder(tmp_path)
    second = prepare_folder(tmp_path)  # a gateway that replaces the first one, which still runs
    assert len(list(tmp_path.glob("run-*"))) == 2
    os.close(first.descriptor)
    third = prepare_folder(tmp_path)
    assert len(list(tmp_path.glob("run-*"))) == 2
    assert os.environ["PROMETHEUS_MULTIPROC_DIR"] in map(str, tmp_path.iterdir())
    for folder in (second, third):
        folder.remove()
    assert list(tmp_path.iterdir()) == []


def test_the_counters_are_in_memory_unless_somebody_else_has_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk would kill the processes that count in mapped files."""
    shared, data = tmp_path / "shm", tmp_path / "var"
    monkeypatch.setattr(metrics_folder, "SHARED_MEMORY", shared)
    assert metrics_folder.choose_parent(data) == data / "metrics"
    shared.mkdir()
    parent = metrics_folder.choose_parent(data)
    assert parent.parent == shared
    parent.chmod(0o777)
    assert metrics_folder.choose_parent(data) == data / "metrics"
    monkeypatch.setattr(metrics_folder, "LEAST_FREE_BYTES", 1 << 80)
    parent.chmod(0o700)
    assert metrics_folder.choose_parent(data) == data / "metrics"


def test_a_start_sweeps_what_killed_gateways_have_left_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "")
    monkeypatch.setattr(metrics_folder, "SHARED_MEMORY", tmp_path)
    killed, running, stopped = (prepare_folder(tmp_path / f"tornado-gate-{number}") for number in range(3))
    (tmp_path / "somebody-else").mkdir()
    os.close(killed.descriptor)
    stopped.remove()
    assert not stopped.path.parent.exists()
    new = prepare_folder(tmp_path / "tornado-gate-9")
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {running.path.parent.name, new.path.parent.name, "somebody-else"}
    for folder in (running, new):
        folder.remove()


class FakeLoop:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0
        self.pending: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[[], None]) -> Any:
        entry = (self.now + delay, callback)
        self.pending.append(entry)
        return SimpleNamespace(cancel=lambda: self.pending.remove(entry))

    def advance(self, late: float = 0.0) -> None:
        due, callback = self.pending.pop(0)
        self.now = due + late
        callback()


def loop_lag(metrics: Metrics, loop: FakeLoop, **seconds: float) -> LoopLagMonitor:
    return LoopLagMonitor(metrics, loop=cast(asyncio.AbstractEventLoop, loop), **seconds)


def test_lag_is_the_largest_delay_of_a_period(metrics: Metrics) -> None:
    loop = FakeLoop()
    lag = loop_lag(metrics, loop, interval_seconds=0.25, period_seconds=1.0)
    lag.start()
    for late in (0.0, 0.5):
        loop.advance(late)
    assert value(metrics, "event_loop_lag_seconds") == 0.5
    for late in (0.0, 0.0625, 0.0, 0.0):
        loop.advance(late)
    assert value(metrics, "event_loop_lag_seconds") == 0.0625


def test_lag_stops_and_starts_again_without_doubling(metrics: Metrics) -> None:
    loop = FakeLoop()
    lag = loop_lag(metrics, loop)
    lag.start()
    lag.start()
    assert len(loop.pending) == 1
    lag.stop()
    lag.stop()
    assert loop.pending == []
    lag.start()
    assert len(loop.pending) == 1


@pytest.mark.gen_test
async def test_lag_is_measured_on_the_running_loop(metrics: Metrics, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = asyncio.get_running_loop().create_future()
    monkeypatch.setattr(metrics.process, "observe_loop", lambda lag, tasks: measured.set_result((lag, tasks)))
    lag = LoopLagMonitor(metrics, interval_seconds=0.001, period_seconds=0.0)
    lag.start()
    seconds, tasks = await measured
    lag.stop()
    assert tasks >= 1, "this test is one"
    assert 0 <= seconds < 1
