"""Profiles the gateway: one case under cProfile, then under a sampler.

Usage: python -m bench.profiling [CASE] [--seconds 5] [--top 30]. CASE is a name in bench/cases.py. Prints the functions with the
most own time, and a table by stage (module; builtins count for their callers), per request; from the sampler the innermost
functions, without cProfile's overhead per call. Writes to bench/var: CASE.prof for pstats, CASE.stages.txt, and CASE.collapsed
for a flame graph.
"""

from __future__ import annotations

import argparse
import os
import pstats
import re
import signal
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from bench.cases import CASES_BY_NAME, Case
from bench.load import LoadGenerator
from bench.measure import prepare, run_in_loop
from bench.side import load_facts, run_side, run_upstream

FOLDER = Path(__file__).parent / "var"
Function = tuple[str, int, str]  # file, line, name
Caller = tuple[int, int, float, float]
Row = tuple[
    int, int, float, float, Mapping[Function, Caller]
]  # primitive calls, calls, own seconds, cumulative seconds
WARM_SECONDS = 0.5
PACKAGE = re.compile(r".*/(?:site-packages|lib/python3\.\d+|plugins/[^/]+)/(.+?)(?:/__init__)?\.py$")
OWN_MODULE = re.compile(r".*/(tornado_gate/.+?)(?:/__init__)?\.py$")


def run_watched(case: Case, how: str, file: Path, seconds: float) -> int:
    """Return the number of requests answered under the profiler. Raises NotStarted or BadAnswer."""
    ours = load_facts("ours")
    command = ("$bin/python", "-m", "bench.profiled", how, str(file), "--", *ours.command[1:])
    with run_upstream() as upstream, run_side(replace(ours, command=command), upstream) as side:

        async def loaded() -> int:
            load = LoadGenerator(side.port, side.request(case), case.expected)
            await load.open(case.connections)
            (await load.run(WARM_SECONDS)).check()
            os.kill(side.process, signal.SIGRTMIN)
            answers = (await load.run(seconds)).check().answers
            load.close()
            return answers

        return run_in_loop(loaded())


def get_stage(function: Function) -> str:
    """Return the module of a function, with dots; for a builtin without callers the name of its kind."""
    path = function[0]
    found = OWN_MODULE.match(path) or PACKAGE.match(path)
    return found[1].replace("/", ".") if found else "builtins" if path == "~" else Path(path).stem


def sum_stages(found: Mapping[Function, Row]) -> dict[str, float]:
    """Return seconds of own time by module, the largest first."""
    table: defaultdict[str, float] = defaultdict(float)
    for function, (_, _, own, _, callers) in found.items():
        if function[0] != "~" or not callers:
            table[get_stage(function)] += own
            continue
        for caller, (_, _, part, _) in callers.items():
            table[get_stage(caller)] += part
    return dict(sorted(table.items(), key=lambda one: -one[1]))


def is_waiting(function: Function) -> bool:
    """Whether the function only waits for events."""
    return function[0] == "~" and "poll" in function[2]


def format_line(seconds: float, requests: int, whole: float, name: str) -> str:
    return f"{seconds / requests * 1e6:8.1f}{seconds / whole * 100:7.1f}  {name}"


def show(case: Case, file: Path, requests: int, top: int) -> None:
    """Print both tables; the second also to a file."""
    found = pstats.Stats(str(file)).stats  # type: ignore[attr-defined]
    work = {name: row for name, row in found.items() if not is_waiting(name)}
    print(f"{case.title}: {requests} requests under cProfile; µs and calls per request\n")
    print(f"{'own':>8}{'with all':>10}{'calls':>8}  function")
    for name, (_, calls, own, total, _) in sorted(work.items(), key=lambda one: -one[1][2])[:top]:
        place = "" if name[0] == "~" else f"{get_stage(name)}:{name[1]} "
        print(f"{own / requests * 1e6:8.1f}{total / requests * 1e6:10.1f}{calls / requests:8.1f}  {place}{name[2]}")
    table = sum_stages(work)
    whole = sum(table.values())
    lines = [format_line(each, requests, whole, name) for name, each in list(table.items())[:top]]
    text = "\n".join([f"{'µs':>8}{'%':>7}  stage", *lines, format_line(whole, requests, whole, "all")])
    file.with_suffix(".stages.txt").write_text(text + "\n", encoding="utf-8")
    print("\n" + text)


def show_samples(file: Path, requests: int, top: int) -> None:
    leaves: Counter[str] = Counter()
    for one in file.read_text(encoding="utf-8").splitlines():
        stack, _, count = one.rpartition(" ")
        leaves[stack.rpartition(";")[2]] += int(count)
    print(f"\n{requests} requests under the sampler: {leaves.total()} samples; %, innermost function")
    for name, times in leaves.most_common(top):
        print(f"{times / leaves.total() * 100:8.1f}  {name}")


def main(options: argparse.Namespace) -> None:
    prepare()
    FOLDER.mkdir(exist_ok=True)
    case = CASES_BY_NAME[options.case]
    profile, stacks = FOLDER / f"{case.name}.prof", FOLDER / f"{case.name}.collapsed"
    requests = run_watched(case, "cprofile", profile, options.seconds)
    show(case, profile, requests, options.top)
    requests = run_watched(case, "sample", stacks, options.seconds)
    show_samples(stacks, requests, options.top // 2)
    print("\nwritten to bench/var: " + ", ".join(sorted(one.name for one in FOLDER.glob(f"{case.name}.*"))))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Profile the CPU time of a request.")
    parser.add_argument("case", nargs="?", default="chat", choices=sorted(CASES_BY_NAME))
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--top", type=int, default=30)
    main(parser.parse_args())
