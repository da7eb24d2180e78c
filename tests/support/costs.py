"""`pytest --costs`: what tests cost, as CPU time and as waiting, by folder, by file and by test.

On a busy machine wall time says little. CPU time counts this process and all that it started; waiting is the wall time in which
neither computed and this process was not waiting for a processor either. `--costs=FILE` also writes a line for each test:
its id, CPU seconds, those of child processes among them, seconds of waiting, and megabytes by which memory grew.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

TICKS = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
LONG_SECONDS = 0.05
"""A test that took longer is measured with its child processes; their time in shorter tests counts for the next longer one."""
LONGEST = 30
"""So many files, and so many tests, are printed."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--costs",
        nargs="?",
        const="",
        metavar="FILE",
        help="print CPU time and waiting of the tests, by folder, file and test; with FILE: write those of each test",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--costs") is not None:
        config.pluginmanager.register(CostReport(config.getoption("--costs")), "cost-report")
        config.pluginmanager.register(CostMeter(), "cost-meter")


@dataclass(frozen=True, slots=True)
class Clocks:
    """Seconds since a fixed moment."""

    wall: float
    own_cpu: float
    children_cpu: float
    delay: float
    memory: float

    def measure_since(self, start: Clocks) -> dict[str, float]:
        own = self.own_cpu - start.own_cpu
        children = max(0.0, self.children_cpu - start.children_cpu)
        waiting = self.wall - start.wall - own - children - (self.delay - start.delay)
        return {
            "cpu": own + children,
            "children": children,
            "waiting": max(0.0, waiting),
            "memory": self.memory - start.memory,
        }


def read_clocks(children_cpu: float | None = None) -> Clocks:
    """The clocks now. `children_cpu` stands for the time of all child processes, which takes milliseconds to read."""
    delay = int(Path("/proc/self/schedstat").read_text(encoding="ascii").split()[1]) / 1e9
    memory = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * PAGE_BYTES / 1e6
    if children_cpu is None:
        children_cpu = read_children_cpu(os.getpid())
    return Clocks(time.monotonic(), time.process_time(), children_cpu, delay, memory)


def read_children_cpu(root: int) -> float:
    """CPU seconds of the processes that `root` started, and that these started, also of those that have ended."""
    children: dict[int, list[int]] = defaultdict(list)
    own: dict[int, int] = {}
    ended: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(folder.name)
        children[int(fields[1])].append(pid)
        own[pid] = int(fields[11]) + int(fields[12])
        ended[pid] = int(fields[13]) + int(fields[14])
    total = ended.get(root, 0)
    waiting = list(children[root])
    while waiting:
        pid = waiting.pop()
        total += own[pid] + ended[pid]
        waiting += children[pid]
    return total / TICKS


class CostMeter:
    """Measures in the process that runs the tests: with xdist, in each worker."""

    def __init__(self) -> None:
        self._start: Clocks | None = None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        self._start = self._start or read_clocks()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if call.when == "teardown" and self._start is not None:
            start = self._start
            is_long = time.monotonic() - start.wall > LONG_SECONDS
            end = read_clocks(None if is_long else start.children_cpu)
            report.__dict__["costs"] = end.measure_since(start)
            self._start = end
        return report


class CostReport:
    """Adds up what the reports of the tests say, and prints it at the end."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._costs: dict[str, dict[str, float]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        costs: Any = getattr(report, "costs", None)
        if costs is not None:
            self._costs[report.nodeid] = costs

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        folders = add_up((str(Path(test.partition("::")[0]).parent), costs) for test, costs in self._costs.items())
        files = add_up((test.partition("::")[0], costs) for test, costs in self._costs.items())
        tests = add_up(self._costs.items())
        for title, rows, limit in [("folders", folders, 1000), ("files", files, LONGEST), ("tests", tests, LONGEST)]:
            terminalreporter.section(f"costs by {title}: tests, CPU s, of child processes, waiting s, memory MB")
            longest = sorted(rows.items(), key=lambda row: -row[1]["cpu"] - row[1]["waiting"])
            for name, sums in longest[:limit]:
                terminalreporter.line(render_row(name, sums))
        terminalreporter.line(
            render_row("all", add_up(("all", costs) for costs in self._costs.values()).get("all", {}))
        )
        if self._file:
            lines = [f"{test}\t{render_costs(costs)}\n" for test, costs in self._costs.items()]
            Path(self._file).write_text("".join(lines), encoding="utf-8")


def add_up(costs: Iterable[tuple[str, dict[str, float]]]) -> dict[str, dict[str, float]]:
    """The sums of the costs that have the same name, and how many they are."""
    sums: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for name, parts in costs:
        sums[name]["tests"] += 1
        for part, value in parts.items():
            sums[name][part] += value
    return sums


def render_row(name: str, sums: dict[str, float]) -> str:
    numbers = [sums.get(part, 0.0) for part in ("cpu", "children", "waiting", "memory")]
    return f"{sums.get('tests', 0):6.0f}" + "".join(f"{number:9.1f}" for number in numbers) + f"  {name}"


def render_costs(costs: dict[str, float]) -> str:
    return "\t".join(f"{costs[part]:.3f}" for part in ("cpu", "children", "waiting", "memory"))
