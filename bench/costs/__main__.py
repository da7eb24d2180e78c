"""Prints what one request executes on the gateway's main thread. Usage: python -m bench.costs [CASE ...]."""

from __future__ import annotations

import argparse
import sys

from bench.costs.cases import CASES, CASES_BY_NAME
from bench.costs.measure import COUNTS, count_cases
from bench.load import BadAnswer
from bench.side import NotStarted


def main(options: argparse.Namespace) -> int:
    cases = [CASES_BY_NAME[name] for name in options.cases] or list(CASES)
    print(f"{'':12}" + "".join(f"{name:>12}" for name in (*COUNTS, "mean")))
    try:
        for case, cost in count_cases(cases):
            figures = (*cost.counts.values(), cost.mean)
            print(f"{case.name:12}" + "".join(f"{figure:12,}" for figure in figures), flush=True)
    except (NotStarted, BadAnswer) as error:
        print(f"measurement failed: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Count what one request executes on the gateway's main thread.")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES_BY_NAME))
    sys.exit(main(parser.parse_args()))
