"""One run: traffic at a rate, a table row for each interval, and a verdict at the end."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from bench.soak.bounded import check_limits
from bench.soak.callers import Callers
from bench.soak.chaos import Chaos
from bench.soak.kinds import KINDS
from bench.soak.ledger import check_ledger
from bench.soak.records import FAULTS, Journal, Request, find_percentile
from bench.soak.site import MOST_TAPES, STEADY, Site, Usage, measure
from tornado_gate.tapes import store

MAX_OPEN = 400
END_SECONDS = 150.0
GROWTH = 1.05
MEASUREMENTS, MEASUREMENT_GAP = 6, 0.5
POOLED_THREADS = 24
"""Of one process: its own threads, 4 of libuv, and pools of 6, 4, 2 and 8 threads, which start when they are needed."""
SHOWN_NOTES = 40
WARM_SECONDS = 590.0
SPREAD = {"rss_mb": 0, "files": 3, "threads": 3, "stored": 1000}
"""Differences between two moments that are not growth. Files of expired videos are deleted every ten minutes."""
LONG_SECONDS = 590.0
"""Growth is a verdict of runs that take at least so long."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The gateway's resources at a moment of the run, in seconds from its start."""

    at: float
    usage: Usage
    tasks: int


@dataclass(slots=True)
class Verdict:
    """The result of a run."""

    journal: Journal
    seconds: float
    samples: list[Sample] = field(default_factory=list)
    injected: Counter[str] = field(default_factory=Counter)
    disturbed: Counter[str] = field(default_factory=Counter)
    ledger: dict[str, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class Run:
    """Sends traffic to a running site."""

    def __init__(self, site: Site, seconds: float, rate: float, interval: float, seed: int) -> None:
        self._site, self._seconds, self._rate, self._interval = site, seconds, rate, interval
        self._random = random.Random(seed)
        self._seed = seed
        self.journal = Journal()
        self._open: set[asyncio.Task[Request]] = set()
        self._skipped = 0
        self._samples: list[Sample] = []
        self._seen = 0

    async def run(self, chaos: Chaos | None = None) -> Verdict:
        """Run for the time, wait for what is open, stop the gateway, and judge."""
        callers = Callers(self._site.url, self.journal, self._site.steady.told, self._seed, self._site.cookie)
        started = time.time()
        until = started + self._seconds
        print(HEAD, flush=True)
        helpers = [asyncio.create_task(self._report(callers, started, until))]
        if chaos is not None:
            helpers.append(asyncio.create_task(chaos.run(until)))
        await self._send(callers, until)
        await asyncio.gather(*helpers)
        if self._open:
            await asyncio.wait(self._open, timeout=END_SECONDS)
        for task in self._open:
            task.cancel()
        await callers.close()
        await asyncio.to_thread(self._site.stop_gateway)
        return self._judge(time.time() - started, chaos)

    async def _send(self, callers: Callers, until: float) -> None:
        """Requests arrive at random moments, at the rate, whether or not earlier ones have been answered."""
        kinds, weights = list(KINDS), [plan.weight for plan in KINDS.values()]
        due = time.time()
        while (due := due + self._random.expovariate(self._rate)) < until:
            await asyncio.sleep(max(0.0, due - time.time()))
            if len(self._open) >= MAX_OPEN:
                self._skipped += 1
                continue
            kind = self._random.choices(kinds, weights)[0]
            plan = KINDS[kind]
            task = asyncio.create_task(callers.call(kind, plan.choose_model(self._random), plan.act))
            self._open.add(task)
            task.add_done_callback(self._open.discard)

    async def _report(self, callers: Callers, started: float, until: float) -> None:
        """A row for each interval. The first sample is taken before the traffic."""
        due = started
        while True:
            self._samples.append(Sample(time.time() - started, await self._measure(), await callers.count_tasks()))
            print(self._describe(), flush=True)
            if due >= until:
                return
            due = min(until, due + self._interval)
            await asyncio.sleep(max(0.0, due - time.time()))

    async def _measure(self) -> Usage:
        """Memory now; files and threads as the least of some measurements, because open requests have some for a moment."""
        site = (self._site.process, self._site.data_dir)
        found = [await asyncio.to_thread(measure, *site)]
        for _ in range(MEASUREMENTS - 1):
            await asyncio.sleep(MEASUREMENT_GAP)
            found.append(await asyncio.to_thread(measure, *site))
        least = [min(getattr(one, name) for one in found) for name in ("files", "threads", "stored")]
        return Usage(found[0].rss_mb, *least)

    def _describe(self) -> str:
        self.journal.settle()
        sample, fresh = self._samples[-1], self.journal.requests[self._seen :]
        self._seen = len(self.journal.requests)
        counts = self.journal.count()
        p50, p99 = (find_percentile(list_seconds(fresh), share) * 1000 for share in (0.5, 0.99))
        usage = sample.usage
        return ROW.format(
            at=sample.at, requests=self._seen, right=counts["right"], errors=counts["error"], left=counts["left"],
            cut=counts["cut"], wrong=sum(counts[one] for one in FAULTS if one != "OPEN"), open=len(self._open),
            p50=p50, p99=p99, rss=usage.rss_mb, files=usage.files, threads=usage.threads, stored=usage.stored,
            tasks=sample.tasks,
        )  # fmt: skip

    def _judge(self, seconds: float, chaos: Chaos | None) -> Verdict:
        journal, site = self.journal, self._site
        journal.settle()
        verdict = Verdict(journal, seconds, self._samples)
        for line in site.steady.told.read_text(encoding="ascii").splitlines():
            verdict.injected[line.partition(" ")[2]] += 1
        verdict.faults += [
            f"{one.outcome}: {one.id} {one.kind} {one.model} after {one.seconds:.2f} s, status {one.status}: {one.detail}"
            + journal.describe_time(one.started, one.ended)
            for one in journal.list_faults()
        ]
        missing, verdict.ledger = check_ledger(journal, site.data_dir, site.database)
        verdict.faults += missing
        verdict.faults += check_limits(journal)
        verdict.faults += check_tapes(site.data_dir, MOST_TAPES + site.processes)
        if self._skipped:
            verdict.notes.append(f"{self._skipped} requests were not sent: {MAX_OPEN} were open")
        if chaos is not None:
            verdict.disturbed = chaos.counts
            verdict.faults += chaos.faults
            if chaos.downtimes:
                verdict.notes.append(f"restarts took {', '.join(f'{one:.1f}' for one in chaos.downtimes)} s")
        elif self._seconds >= LONG_SECONDS:
            verdict.faults += find_growth(self._samples, POOLED_THREADS * site.processes)
        verdict.notes += [line[:200] for line in site.output.splitlines() if "store of limits" in line][:SHOWN_NOTES]
        verdict.faults += [f"the log says: {line}" for line in find_tracebacks(site.output)]
        return verdict


def list_seconds(requests: list[Request]) -> list[float]:
    """The durations of whole answers of steady models."""
    return [one.seconds for one in requests if one.kind == "chat" and one.model.startswith(STEADY) and one.ended]


def find_growth(samples: list[Sample], pooled_threads: int = 0) -> list[str]:
    """Growth of what must not grow, after the middle of the run, or after ten minutes: until then threads and caches come.

    Threads up to `pooled_threads` are not growth: pools fill when the load first needs them.
    """
    end = samples[-1]
    begin = next(one for one in samples if one.at >= min(WARM_SECONDS, end.at / 2))
    faults = []
    for name, spread in SPREAD.items():
        before, after = getattr(begin.usage, name), getattr(end.usage, name)
        if name == "threads" and after <= pooled_threads:
            continue
        if after > before * GROWTH + spread:
            faults.append(f"{name} grew from {before:.0f} after {begin.at:.0f} s to {after:.0f} after {end.at:.0f} s")
    return faults


def check_tapes(data_dir: Path, most: int) -> list[str]:
    """Requests were recorded, and at most `most` tapes remain."""
    count = len(list((data_dir / store.FOLDER).glob("*.jsonl")))
    return [] if 0 < count <= most else [f"{count} tapes remain instead of 1 to {most}"]


def find_tracebacks(output: str) -> list[str]:
    """Lines of the gateway's log that report a defect: unexpected errors."""
    return [line[:1000] for line in output.splitlines() if "unexpected error" in line or "Traceback" in line][:20]


COLUMNS = (
    ("at", "s", "7.0f"), ("requests", "requests", "9d"), ("right", "right", "7d"), ("errors", "errors", "7d"),
    ("left", "left", "6d"), ("cut", "cut", "5d"), ("wrong", "WRONG", "6d"), ("open", "open", "5d"),
    ("p50", "p50 ms", "7.1f"), ("p99", "p99 ms", "8.1f"), ("rss", "RSS MB", "7.1f"), ("files", "files", "6d"),
    ("threads", "threads", "8d"), ("stored", "stored", "7d"), ("tasks", "tasks", "6d"),
)  # fmt: skip
HEAD = " ".join(f"{title:>{int(width.split('.')[0].rstrip('fd'))}}" for _, title, width in COLUMNS)
ROW = " ".join(f"{{{name}:{width}}}" for name, _, width in COLUMNS)
