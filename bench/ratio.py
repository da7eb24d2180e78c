"""Prints the CPU time per request, also as a multiple of a frozen relay's (bench/reference.py). Information without a verdict.

Usage: python -m bench.ratio [--rounds 10] [--seconds 0.4]. Ratios are comparable between machines. Both sides are measured
alternately, so that other load affects both. Lower quartiles are shown, because other load only adds time. They differ by 10 %
between runs on a busy machine, so `bench.costs` decides whether a request became more expensive.
"""

from __future__ import annotations

import argparse
import sys
from statistics import quantiles

from bench.cases import CASES_BY_NAME
from bench.load import BadAnswer
from bench.measure import measure_cost, prepare
from bench.side import NotStarted, RunningSide, load_facts, run_side, run_upstream

COMPARED_CASES = ("chat", "long", "stream", "burst", "messages")
FLOOR_CASE = "chat"  # the only case for which the forwarder is shown


def compute_lower_quartile(values: list[float]) -> float:
    return quantiles(values, n=4, method="inclusive")[0]


def print_ratio(ours: RunningSide, reference: RunningSide, name: str, options: argparse.Namespace) -> None:
    """Print the line of a case. Raises BadAnswer."""
    case, mine, theirs = CASES_BY_NAME[name], [], []
    for _ in range(options.rounds):
        mine.append(measure_cost(ours, case, options.seconds))
        theirs.append(measure_cost(reference, case, options.seconds))
    costs = [cost.micros for cost in mine]
    cost, unit = compute_lower_quartile(costs), compute_lower_quartile([cost.micros for cost in theirs])
    rate = max(cost.per_second for cost in mine)
    spread = f"{min(costs):.0f} - {max(costs):.0f}"
    print(f"{case.title:22}{cost:8.0f}{spread:>16}{unit:11.0f}{cost / unit:8.2f}{rate:8.0f}", flush=True)


def print_ratios(options: argparse.Namespace) -> None:
    """Print the table. Raises NotStarted or BadAnswer."""
    with (
        run_upstream() as upstream,
        run_side(load_facts("forwarder"), upstream) as floor,
        run_side(load_facts("reference"), upstream) as reference,
        run_side(load_facts("ours"), upstream) as ours,
    ):
        print(f"{'CPU us per request':22}{'ours':>8}{'least - most':>16}{'reference':>11}{'ratio':>8}{'per s':>8}")
        for name in COMPARED_CASES:
            print_ratio(ours, reference, name, options)
        case = CASES_BY_NAME[FLOOR_CASE]
        print(f"floor, {case.title}: {measure_cost(floor, case, options.seconds).micros:.0f} us")


def main(options: argparse.Namespace) -> int:
    prepare()
    try:
        print_ratios(options)
    except (NotStarted, BadAnswer) as error:
        print(f"measurement failed: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Print the CPU time of requests as a multiple of a frozen relay's.")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=0.4, help="duration of each measurement")
    sys.exit(main(parser.parse_args()))
