"""Runs all measurements of this gateway and of the peers, and writes bench/RESULTS.md.

Usage: python -m bench.compare [--rounds 3] [--seconds 1.0] [--sides NAME ...] [--streams 1000] [--skip-growth]
[--output FILE]. The peers are those of bench/peers that `python -m bench.install` installed. Costs are measured alternately
(ours, peer, ours, the next peer …), so that ratios compare measurements close in time; a side that cannot be started, or rejects
a case, is listed in the results with the reason.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import time
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from statistics import median

from bench import growth, report
from bench.cases import CASES, CASES_BY_NAME, SLOW_CASE, Case
from bench.install import LOG
from bench.load import BadAnswer
from bench.measure import Cost, measure_cost, measure_delay, measure_slow_streams, prepare
from bench.meter import measure_folder_megabytes, read_memory
from bench.peers import ours as ours_facts
from bench.report import SideFindings
from bench.side import (
    PEERS,
    NotStarted,
    RunningSide,
    SideFacts,
    ask,
    fill_template,
    load_facts,
    make_search_path,
    make_template_values,
    run_side,
    run_upstream,
)

SIDE_NAMES = ("earlier", "reference", "forwarder", "nginx", "sglang", "smg", "portkey", "litellm")
SETTLE_SECONDS = 2.0
MAX_REPEATED_SECONDS = 15.0  # a measurement that takes longer is not repeated
DELAYS = 200
TWO_CORES = frozenset({0, 1})
RESULTS = Path(__file__).with_name("RESULTS.md")


def get_version(side: SideFacts) -> str:
    command = [fill_template(part, make_template_values()) for part in side.version]
    if not command:
        return "–"
    with contextlib.suppress(OSError):
        done = subprocess.run(command, capture_output=True, text=True, check=False, env={"PATH": make_search_path()})
        said = (done.stdout or done.stderr).strip()
        return said.split()[-1] if done.returncode == 0 and said else "–"
    return "–"


def measure_alone(found: SideFindings, upstream: int, options: argparse.Namespace) -> None:
    """Measurements during which no other side runs: start, memory, latency, streams."""
    folder = Path(fill_template(found.facts.size, make_template_values())) if found.facts.size else None
    if folder and folder.is_dir():
        found.installed = measure_folder_megabytes(folder)
    found.version = get_version(found.facts)
    try:
        with run_side(found.facts, upstream) as side:
            found.start = side.first_seconds
            time.sleep(SETTLE_SECONDS)
            found.idle = read_memory(side.process)
            stream = CASES_BY_NAME["stream"]
            with record_refusal(found, stream):
                ask(side.port, stream, side.headers)
                found.delay = measure_delay(side.port, side.request(stream), stream, DELAYS)
                found.streams = measure_slow_streams(side.port, side.request(SLOW_CASE), side.process, options.streams)
    except NotStarted as error:
        log = PEERS / found.facts.name / LOG
        found.fault = f"not installed: {log.read_text(encoding='utf-8')}" if log.exists() else str(error)


@contextlib.contextmanager
def record_refusal(found: SideFindings, case: Case) -> Iterator[None]:
    """Record a wrong response as the reason for a missing figure."""
    try:
        yield
    except (BadAnswer, OSError, HTTPException) as error:
        found.refusals[case.name] = str(error) or type(error).__name__


def measure_case_cost(found: SideFindings, side: RunningSide, case: Case, seconds: float) -> float | None:
    """Return CPU microseconds and record them; None if the side rejects the case, or is so slow that it is measured once."""
    if case.name in found.refusals or case.name in found.slow:
        return None
    started = time.perf_counter()
    with record_refusal(found, case):
        ask(side.port, case, side.headers)
        found.costs.setdefault(case.name, []).append(measure_cost(side, case, seconds))
        if time.perf_counter() - started > MAX_REPEATED_SECONDS:
            found.slow.add(case.name)
        return found.costs[case.name][-1].micros
    return None


def measure_costs(ours: SideFindings, peers: list[SideFindings], upstream: int, options: argparse.Namespace) -> None:
    """Measure the costs: all sides run, and this gateway is measured before each peer."""
    with contextlib.ExitStack() as up:
        here = up.enter_context(run_side(ours.facts, upstream))
        sides = []
        for one in (peer for peer in peers if not peer.fault):
            try:
                sides.append((one, up.enter_context(run_side(one.facts, upstream))))
            except NotStarted as error:
                one.fault = str(error)
        for case in CASES:
            for number in range(options.rounds):
                for found, side in sides:
                    own = measure_case_cost(ours, here, case, options.seconds)
                    theirs = measure_case_cost(found, side, case, options.seconds)
                    if own and theirs:
                        found.ratios.setdefault(case.name, []).append(theirs / own)
                print(f"{case.title}: round {number + 1} of {options.rounds}", flush=True)


def measure_two_processes(upstream: int, seconds: float, rounds: int) -> tuple[Cost, ...]:
    """Return the medians of one process on one core, and of two processes on two, measured alternately."""
    conf = ours_facts.CONF.replace("server: {", "server: {processes: 2, ")
    with (
        run_side(load_facts("ours"), upstream) as one,
        run_side(load_facts("ours"), upstream, cores=TWO_CORES, files={"gate.yaml": conf}) as two,
    ):
        found = [[measure_cost(side, CASES_BY_NAME["chat64"], seconds) for side in (one, two)] for _ in range(rounds)]
    rates = [
        Cost(median(each[n].micros for each in found), median(each[n].per_second for each in found)) for n in (0, 1)
    ]
    return rates[0], rates[1]


def main(options: argparse.Namespace) -> None:
    prepare()
    sides = [SideFindings(load_facts(name)) for name in ("ours", *options.sides)]
    started = time.time()
    with run_upstream() as upstream:
        stream = CASES_BY_NAME["stream"]
        direct = measure_delay(upstream, stream.request({}), stream, DELAYS)
        direct_streams = measure_slow_streams(upstream, SLOW_CASE.request({}), None, options.streams)
        for found in sides:
            measure_alone(found, upstream, options)
            print(f"{found.facts.title}: {found.fault or 'runs'}", flush=True)
        measure_costs(sides[0], sides[1:], upstream, options)
        pair = measure_two_processes(upstream, options.seconds, options.rounds)
        series = () if options.skip_growth else tuple(growth.measure_all_series(upstream, options.seconds))
    text = report.render_report(sides, direct, direct_streams, pair, series, report.Conditions.now(options, started))
    options.output.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Measure this gateway and its peers alternately.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0, help="duration of each cost measurement")
    parser.add_argument("--sides", nargs="*", default=list(SIDE_NAMES))
    parser.add_argument("--streams", type=int, default=1000, help="number of concurrent slow streams")
    parser.add_argument("--skip-growth", action="store_true")
    parser.add_argument("--output", type=Path, default=RESULTS)
    main(parser.parse_args())
