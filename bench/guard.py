"""Compares the CPU time per request with the baseline, as a multiple of a frozen relay's (bench/reference.py).

Usage: python -m bench.guard [--update] [--rounds 10] [--seconds 0.4]. Prints a table, compares with bench/baseline.json and ends
with exit code 1 if a ratio is more than 15 % above it; 2 if a measurement failed. --update writes the baseline.
Ratios instead of times, so that a baseline is valid on other machines; measured alternately, so that other load affects both;
lower quartiles, because other load only adds time. A case above the limit is measured once more before it is reported.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import quantiles

from bench.cases import CASES_BY_NAME
from bench.load import BadAnswer
from bench.measure import measure_cost, prepare
from bench.side import NotStarted, RunningSide, load_facts, run_side, run_upstream

BASELINE = Path(__file__).with_name("baseline.json")
GUARDED_CASES = ("chat", "long", "stream", "burst", "messages")
ALLOWED_RATIO = 1.15
FLOOR_CASE = "chat"  # the only case for which the forwarder is shown


def compute_lower_quartile(values: list[float]) -> float:
    """Return the lower quartile."""
    return quantiles(values, n=4, method="inclusive")[0]


def measure_ratio(ours: RunningSide, reference: RunningSide, name: str, options: argparse.Namespace) -> float:
    """Return the ratio of the gateway to the reference; prints a line of the table. Raises BadAnswer."""
    case, mine, theirs = CASES_BY_NAME[name], [], []
    for _ in range(options.rounds):
        mine.append(measure_cost(ours, case, options.seconds))
        theirs.append(measure_cost(reference, case, options.seconds))
    costs, measures = [one.micros for one in mine], [one.micros for one in theirs]
    found = round(compute_lower_quartile(costs) / compute_lower_quartile(measures), 3)
    rate = max(one.per_second for one in mine)
    spread = f"{min(costs):.0f} - {max(costs):.0f}"
    print(
        f"{case.title:22}{compute_lower_quartile(costs):8.0f}{spread:>16}{compute_lower_quartile(measures):11.0f}{found:8.2f}{rate:8.0f}",
        flush=True,
    )
    return found


def measure_ratios(options: argparse.Namespace, baseline: Mapping[str, float]) -> dict[str, float]:
    """Return the ratio of each guarded case; prints the table. Raises NotStarted or BadAnswer."""
    found = {}
    with (
        run_upstream() as upstream,
        run_side(load_facts("forwarder"), upstream) as floor,
        run_side(load_facts("reference"), upstream) as reference,
        run_side(load_facts("ours"), upstream) as ours,
    ):
        print(f"{'CPU us per request':22}{'ours':>8}{'least - most':>16}{'reference':>11}{'ratio':>8}{'per s':>8}")
        for name in GUARDED_CASES:
            found[name] = measure_ratio(ours, reference, name, options)
            if find_regressions({name: found[name]}, baseline):
                found[name] = min(found[name], measure_ratio(ours, reference, name, options))
        floor_case = CASES_BY_NAME[FLOOR_CASE]
        print(f"floor, {floor_case.title}: {measure_cost(floor, floor_case, options.seconds).micros:.0f} us")
    return found


def find_regressions(found: Mapping[str, float], baseline: Mapping[str, float]) -> list[str]:
    """Return a message for each case above the limit."""
    return [
        f"{CASES_BY_NAME[name].title}: {found[name]:.2f} times the reference, was {baseline[name]:.2f}: "
        f"{(found[name] / baseline[name] - 1) * 100:.0f} % more expensive, at most {(ALLOWED_RATIO - 1) * 100:.0f} % are allowed"
        for name in found
        if name in baseline and found[name] > baseline[name] * ALLOWED_RATIO
    ]


def main(options: argparse.Namespace) -> int:
    prepare()
    kept = json.loads(BASELINE.read_text(encoding="utf-8")) if BASELINE.is_file() else {}
    baseline = {} if options.update else kept
    try:
        found = measure_ratios(options, baseline)
    except (NotStarted, BadAnswer) as error:
        print(f"measurement failed: {error}", file=sys.stderr)
        return 2
    if options.update:
        BASELINE.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
        print(f"{BASELINE.name} written")
        return 0
    if not baseline:
        print(f"{BASELINE.name} does not exist; create it with --update")
    faults = find_regressions(found, baseline)
    for fault in faults:
        print(f"MORE EXPENSIVE: {fault}", file=sys.stderr)
    if baseline and not faults:
        changes = (f"{name} {(found[name] / baseline[name] - 1) * 100:+.0f} %" for name in found if name in baseline)
        print("within the limits of the baseline:  " + ", ".join(changes))
    return 1 if faults else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Compare the CPU time of requests with the baseline.")
    parser.add_argument("--update", action="store_true", help="write the baseline")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=0.4, help="duration of each measurement")
    sys.exit(main(parser.parse_args()))
