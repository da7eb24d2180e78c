"""Measurements of one running side, one function each. Times are seconds, memory kilobytes, unless a name says otherwise."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import statistics
import sys
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

import uvloop

from bench import upstream
from bench.cases import SLOW_CASE, Case
from bench.load import LoadGenerator, measure_first_chunks, run_and_watch
from bench.meter import MemoryUse, read_cpu_seconds, read_memory
from bench.side import LOAD_CORE, RunningSide

T = TypeVar("T")
WARM_SHARE = 0.25
WATCH_SECONDS = 0.25


def prepare() -> None:
    """Prepare this process as load generator: pin it to its core, raise the limit of open files, end children with it."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    if LOAD_CORE in os.sched_getaffinity(0):
        os.sched_setaffinity(0, {LOAD_CORE})
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def run_in_loop(work: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of one request: CPU time of the side, and requests per second."""

    micros: float
    per_second: float


def measure_cost(side: RunningSide, case: Case, seconds: float) -> Cost:
    """Measure a case. Raises BadAnswer if a response is wrong."""

    async def measured() -> Cost:
        load = LoadGenerator(side.port, side.request(case), case.expected)
        try:
            await load.open(case.connections)
            (await load.run(seconds * WARM_SHARE)).check()
            used = read_cpu_seconds(side.process)
            tally = (await load.run(seconds)).check()
            used = read_cpu_seconds(side.process) - used
        finally:
            load.close()
        return Cost(used / tally.answers * 1e6, tally.answers / tally.seconds)

    return run_in_loop(measured())


@dataclass(frozen=True, slots=True)
class FirstChunkDelay:
    """Milliseconds until the first chunk of a stream, for sequential requests."""

    p50: float
    p99: float


def measure_delay(port: int, request: bytes, case: Case, count: int, gap: float = 0.01) -> FirstChunkDelay:
    """Measure the latency of the first chunk. Raises BadAnswer."""
    run_in_loop(measure_first_chunks(port, request, case.expected, 10, gap))
    found = run_in_loop(measure_first_chunks(port, request, case.expected, count, gap))
    cuts = statistics.quantiles(found, n=100)
    return FirstChunkDelay(statistics.median(found) * 1e3, cuts[98] * 1e3)


@dataclass(frozen=True, slots=True)
class StreamFigures:
    """That many concurrent slow streams."""

    count: int
    complete: int
    wall: float  # ideal: upstream.CHUNKS times the gap
    rss_each: float  # kilobytes
    pss_each: float
    micros: float  # CPU time of a stream


IDEAL_SECONDS = upstream.CHUNKS * upstream.GAP_SECONDS


def measure_slow_streams(port: int, request: bytes, process: int | None, count: int) -> StreamFigures:
    """Measure slow streams. Memory is the maximum during the measurement minus the memory before; None without `process`."""

    async def measured() -> StreamFigures:
        load = LoadGenerator(port, request, SLOW_CASE.expected)
        before = read_memory(process) if process else MemoryUse(0, 0)
        seen = [before]
        await load.open(count)
        used = read_cpu_seconds(process) if process else 0.0
        tally = await run_and_watch(load, lambda: seen.append(read_memory(process)) if process else None, WATCH_SECONDS)
        used = read_cpu_seconds(process) - used if process else 0.0
        load.close()
        rss, pss = max(one.rss for one in seen) - before.rss, max(one.pss for one in seen) - before.pss
        return StreamFigures(count, tally.answers, tally.seconds, rss / count, pss / count, used / count * 1e6)

    return run_in_loop(measured())
