"""What bench/compare.py found, as Markdown. No names of hosts, no paths."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from bench.cases import CASES, Case
from bench.growth import Series
from bench.measure import IDEAL_SECONDS, Cost, Delay, Streams
from bench.meter import Memory
from bench.side import Facts

LIBRARIES = ("tornado", "aiohttp", "orjson", "uvloop", "httptools", "marshmallow", "pluggy")
NONE = "–"
WORDS = 140  # of a reason


@dataclass(slots=True)
class Found:
    """What was found of one side. Costs by case; refusals say why there is none."""

    facts: Facts
    version: str = "–"
    fault: str = ""
    slow: set[str] = field(default_factory=set)  # cases of which one measurement must do
    costs: dict[str, list[Cost]] = field(default_factory=dict)
    ratios: dict[str, list[float]] = field(default_factory=dict)
    refusals: dict[str, str] = field(default_factory=dict)
    idle: Memory | None = None
    start: float | None = None
    installed: float | None = None
    delay: Delay | None = None
    streams: Streams | None = None


@dataclass(frozen=True, slots=True)
class Conditions:
    """Where and how it was measured."""

    lines: tuple[str, ...]

    @classmethod
    def now(cls, options: argparse.Namespace, started: float) -> Conditions:
        processor = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
        versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in LIBRARIES)
        cores = f"{os.cpu_count()} cores" + (f" ({processor[1]})" if processor else "")
        return cls(
            (
                time.strftime("Measured on %Y-%m-%d", time.gmtime(started))
                + f" in {(time.time() - started) / 60:.0f} minutes; load average at the end {os.getloadavg()[0]:.1f}.",
                f"{cores}, Linux {platform.release().split('-')[0]}, Python {sys.version.split()[0]}, {versions}.",
                f"{options.rounds} rounds of {options.seconds:g} s, medians; loopback, one worker, the gateway alone on core 0; "
                "the mock upstream and the load on core 1.",
            )
        )


def table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    heads = list(columns)
    yield "| " + " | ".join(heads) + " |"
    yield "|" + "---|" * len(heads)
    for row in rows:
        yield "| " + " | ".join(one.replace("|", "/") for one in row) + " |"


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def per_case(found: Found, figure: Callable[[Case], str]) -> list[str]:
    return ["refused" if case.name in found.refusals else figure(case) for case in CASES]


def costs(found: Found) -> list[str]:
    def figure(case: Case) -> str:
        if case.name not in found.costs:
            return NONE
        return number(median(one.micros for one in found.costs[case.name]))

    return [found.facts.title, *per_case(found, figure)]


def ratios(found: Found) -> list[str]:
    def figure(case: Case) -> str:
        return f"{median(found.ratios[case.name]):.2f}" if case.name in found.ratios else NONE

    return [found.facts.title, *per_case(found, figure)]


def rates(found: Found) -> list[str]:
    def figure(case: Case) -> str:
        if case.name not in found.costs:
            return NONE
        return number(median(one.per_second for one in found.costs[case.name]))

    return [found.facts.title, *per_case(found, figure)]


def footprint(found: Found) -> list[str]:
    idle, streams = found.idle, found.streams
    return [
        found.facts.title,
        found.version,
        f"{found.start:.2f}" if found.start is not None else NONE,
        f"{idle.rss / 1e3:.0f} / {idle.pss / 1e3:.0f}" if idle else NONE,
        f"{found.installed:.0f}" if found.installed else NONE,
        *(slow(streams) if streams else [NONE] * 4),
    ]


def slow(streams: Streams) -> list[str]:
    return [
        f"{streams.complete:,} of {streams.count:,}",
        f"{streams.wall:.1f}",
        f"{streams.rss_each:.0f} / {streams.pss_each:.0f}",
        number(streams.micros),
    ]


def waits(found: Found, direct: Delay) -> list[str]:
    if found.delay is None:
        return [found.facts.title, NONE, NONE]
    return [found.facts.title, f"{found.delay.p50 - direct.p50:.2f}", f"{found.delay.p99 - direct.p99:.2f}"]


def reasons(sides: list[Found]) -> Iterator[str]:
    """Who is missing, and who refused what."""
    for found in sides:
        if found.fault:
            yield f"- {found.facts.title}: not measured: {said(found.fault)}"
        why: dict[str, list[str]] = {}
        for name, reason in found.refusals.items():
            why.setdefault(said(reason), []).append(next((case.title for case in CASES if case.name == name), name))
        for reason, cases in why.items():
            yield f"- {found.facts.title}, {'; '.join(cases)}: {reason}"


def said(reason: str) -> str:
    """One line, without paths."""
    return re.sub(r"(?<![\w:/.])(/[\w.-]+){2,}", "…", " ".join(reason.split()))[:WORDS].replace("|", "/")


def written(
    sides: list[Found],
    direct: Delay,
    direct_streams: Streams,
    pair: tuple[Cost, ...],
    series: tuple[Series, ...],
    conditions: Conditions,
) -> str:
    """The whole file."""
    up, titles = [one for one in sides if not one.fault], [case.title for case in CASES]
    lines = [
        "# What a request costs: results",
        "",
        "Written by `make bench`; what the figures mean stands in README.md.",
        "",
    ]
    lines += [*conditions.lines, ""]
    lines += ["The work is not equal:", "", *(f"- {one.facts.title}: {one.facts.work}" for one in sides), ""]
    lines += ["## CPU µs per request", "", *table(["", *titles], map(costs, up)), ""]
    lines += ["## As multiples of ours", "", *table(["", *titles], map(ratios, up[1:])), ""]
    lines += ["## Requests per second, of one core", "", *table(["", *titles], map(rates, up)), ""]
    lines += ["## First chunk of a stream: milliseconds added to the direct way", ""]
    lines += [f"One at a time. Direct: {direct.p50:.2f} (p50), {direct.p99:.2f} (p99).", ""]
    lines += [*table(["", "p50", "p99"], (waits(one, direct) for one in up)), ""]
    count = f"{direct_streams.count:,} slow streams"
    lines += ["## Size, start, slow streams", ""]
    lines += [
        f"{count} of 50 chunks, 20 ms apart: ideal {IDEAL_SECONDS:.1f} s, direct {direct_streams.wall:.1f} s.",
        "",
    ]
    heads = ["", "version", "start to first 200, s", "idle RSS / PSS, MB", "installed, MB", f"{count}: complete"]
    heads += ["wall, s", "RSS / PSS KB each", "CPU µs each"]
    lines += [*table(heads, map(footprint, up)), ""]
    one, two = pair
    lines += ["## Two processes of ours", "", "c64, by turns; load and mock take part of the second core.", ""]
    rows = [
        ["one, on one core", *both(one), "1.00"],
        ["two, on two", *both(two), f"{two.per_second / one.per_second:.2f}"],
    ]
    lines += [*table(["", "CPU µs", "per s", "ratio"], rows), ""]
    for each in series:
        lines += [
            f"## Growth: {each.title}",
            "",
            *table(each.columns, ([said(one) for one in row] for row in each.rows)),
            "",
        ]
    lines += ["## Missing", "", *(list(reasons(sides)) or ["Nothing."]), ""]
    return "\n".join(lines)


def both(cost: Cost) -> list[str]:
    return [number(cost.micros), number(cost.per_second)]
