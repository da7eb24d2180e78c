"""Renders the results of bench/compare.py as Markdown. Contains no host names and no paths."""

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
from bench.growth import SeriesTable
from bench.measure import IDEAL_SECONDS, Cost, FirstChunkDelay, StreamFigures
from bench.meter import MemoryUse
from bench.side import SideFacts

LIBRARIES = ("tornado", "aiohttp", "orjson", "uvloop", "httptools", "marshmallow", "pluggy")
NO_FIGURE = "–"
WORDS = 140  # maximum length of a reason


@dataclass(slots=True)
class SideFindings:
    """The results of one side. Costs by case; refusals say why a cost is missing."""

    facts: SideFacts
    version: str = "–"
    fault: str = ""
    slow: set[str] = field(default_factory=set)  # cases that are measured only once
    costs: dict[str, list[Cost]] = field(default_factory=dict)
    ratios: dict[str, list[float]] = field(default_factory=dict)
    refusals: dict[str, str] = field(default_factory=dict)
    idle: MemoryUse | None = None
    start: float | None = None
    installed: float | None = None
    delay: FirstChunkDelay | None = None
    streams: StreamFigures | None = None


@dataclass(frozen=True, slots=True)
class Conditions:
    """Place and conditions of the measurement."""

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


def format_table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    heads = list(columns)
    yield "| " + " | ".join(heads) + " |"
    yield "|" + "---|" * len(heads)
    for row in rows:
        yield "| " + " | ".join(one.replace("|", "/") for one in row) + " |"


def format_number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def format_per_case(found: SideFindings, figure: Callable[[Case], str]) -> list[str]:
    return ["refused" if case.name in found.refusals else figure(case) for case in CASES]


def format_costs(found: SideFindings) -> list[str]:
    def figure(case: Case) -> str:
        if case.name not in found.costs:
            return NO_FIGURE
        return format_number(median(one.micros for one in found.costs[case.name]))

    return [found.facts.title, *format_per_case(found, figure)]


def format_ratios(found: SideFindings) -> list[str]:
    def figure(case: Case) -> str:
        return f"{median(found.ratios[case.name]):.2f}" if case.name in found.ratios else NO_FIGURE

    return [found.facts.title, *format_per_case(found, figure)]


def format_rates(found: SideFindings) -> list[str]:
    def figure(case: Case) -> str:
        if case.name not in found.costs:
            return NO_FIGURE
        return format_number(median(one.per_second for one in found.costs[case.name]))

    return [found.facts.title, *format_per_case(found, figure)]


def format_footprint(found: SideFindings) -> list[str]:
    idle, streams = found.idle, found.streams
    return [
        found.facts.title,
        found.version,
        f"{found.start:.2f}" if found.start is not None else NO_FIGURE,
        f"{idle.rss / 1e3:.0f} / {idle.pss / 1e3:.0f}" if idle else NO_FIGURE,
        f"{found.installed:.0f}" if found.installed else NO_FIGURE,
        *(format_slow_streams(streams) if streams else [NO_FIGURE] * 4),
    ]


def format_slow_streams(streams: StreamFigures) -> list[str]:
    return [
        f"{streams.complete:,} of {streams.count:,}",
        f"{streams.wall:.1f}",
        f"{streams.rss_each:.0f} / {streams.pss_each:.0f}",
        format_number(streams.micros),
    ]


def format_delays(found: SideFindings, direct: FirstChunkDelay) -> list[str]:
    if found.delay is None:
        return [found.facts.title, NO_FIGURE, NO_FIGURE]
    return [found.facts.title, f"{found.delay.p50 - direct.p50:.2f}", f"{found.delay.p99 - direct.p99:.2f}"]


def list_reasons(sides: list[SideFindings]) -> Iterator[str]:
    """Yield the sides that were not measured, and the cases that were rejected."""
    for found in sides:
        if found.fault:
            yield f"- {found.facts.title}: not measured: {clean_reason(found.fault)}"
        why: dict[str, list[str]] = {}
        for name, reason in found.refusals.items():
            why.setdefault(clean_reason(reason), []).append(
                next((case.title for case in CASES if case.name == name), name)
            )
        for reason, cases in why.items():
            yield f"- {found.facts.title}, {'; '.join(cases)}: {reason}"


def clean_reason(reason: str) -> str:
    """Return the reason as one line without paths."""
    return re.sub(r"(?<![\w:/.])(/[\w.-]+){2,}", "…", " ".join(reason.split()))[:WORDS].replace("|", "/")


def render_report(
    sides: list[SideFindings],
    direct: FirstChunkDelay,
    direct_streams: StreamFigures,
    pair: tuple[Cost, ...],
    series: tuple[SeriesTable, ...],
    conditions: Conditions,
) -> str:
    """Return the whole file."""
    up, titles = [one for one in sides if not one.fault], [case.title for case in CASES]
    lines = [
        "# What a request costs: results",
        "",
        "Written by `make bench`; README.md describes the figures.",
        "",
    ]
    lines += [*conditions.lines, ""]
    lines += ["The gateways do different work:", "", *(f"- {one.facts.title}: {one.facts.work}" for one in sides), ""]
    lines += ["## CPU µs per request", "", *format_table(["", *titles], map(format_costs, up)), ""]
    lines += ["## As multiples of ours", "", *format_table(["", *titles], map(format_ratios, up[1:])), ""]
    lines += ["## Requests per second, of one core", "", *format_table(["", *titles], map(format_rates, up)), ""]
    lines += ["## First chunk of a stream: milliseconds added to the direct way", ""]
    lines += [f"One at a time. Direct: {direct.p50:.2f} (p50), {direct.p99:.2f} (p99).", ""]
    lines += [*format_table(["", "p50", "p99"], (format_delays(one, direct) for one in up)), ""]
    count = f"{direct_streams.count:,} slow streams"
    lines += ["## Size, start, slow streams", ""]
    lines += [
        f"{count} of 50 chunks, 20 ms apart: ideal {IDEAL_SECONDS:.1f} s, direct {direct_streams.wall:.1f} s.",
        "",
    ]
    heads = ["", "version", "start to first 200, s", "idle RSS / PSS, MB", "installed, MB", f"{count}: complete"]
    heads += ["wall, s", "RSS / PSS KB each", "CPU µs each"]
    lines += [*format_table(heads, map(format_footprint, up)), ""]
    one, two = pair
    lines += [
        "## Two processes of ours",
        "",
        "c64, measured alternately; load and mock take part of the second core.",
        "",
    ]
    rows = [
        ["one, on one core", *format_both(one), "1.00"],
        ["two, on two", *format_both(two), f"{two.per_second / one.per_second:.2f}"],
    ]
    lines += [*format_table(["", "CPU µs", "per s", "ratio"], rows), ""]
    for each in series:
        lines += [
            f"## Growth: {each.title}",
            "",
            *format_table(each.columns, ([clean_reason(one) for one in row] for row in each.rows)),
            "",
        ]
    lines += ["## Missing", "", *(list(list_reasons(sides)) or ["Nothing."]), ""]
    return "\n".join(lines)


def format_both(cost: Cost) -> list[str]:
    return [format_number(cost.micros), format_number(cost.per_second)]
