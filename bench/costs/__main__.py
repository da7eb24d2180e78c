"""Prints what one request executes on the gateway's main thread, and compares it with bench/costs.json.

Usage: python -m bench.costs [--update] [CASE ...]. The exit code is 1 if a count is above its number, or 1 % below; 2 if a
measurement failed. `--update` writes lower numbers; it never raises one. docs/costs.md has the rules.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping

from bench.costs.cases import CASES, CASES_BY_NAME, CostCase
from bench.costs.measure import COUNTS, count_cases
from bench.costs.record import (
    BadRecord,
    Numbers,
    Record,
    check_record,
    compare,
    find_environment,
    read_raises,
    read_record,
    update,
    write_record,
)
from bench.load import BadAnswer
from bench.side import NotStarted


def count_and_print(cases: list[CostCase]) -> dict[str, Numbers]:
    """Return the counts of each case; prints a line of the table for each. Raises NotStarted or BadAnswer."""
    print(f"{'':12}" + "".join(f"{name:>12}" for name in (*COUNTS, "mean")))
    found = {}
    for case, cost in count_cases(cases):
        print(f"{case.name:12}" + "".join(f"{figure:12,}" for figure in (*cost.counts, cost.mean)), flush=True)
        found[case.name] = cost.counts
    return found


def report(found: Mapping[str, Numbers], record: Record) -> int:
    """Print each difference to the record; return the exit code."""
    environment = find_environment()
    faults = [fault for name, counts in found.items() for fault in compare(name, counts, record, environment)]
    faults += check_record(record, read_raises())
    print("\n".join(faults) or "No count is above its number in bench/costs.json.")
    return 1 if faults else 0


def main(options: argparse.Namespace) -> int:
    try:
        found = count_and_print([CASES_BY_NAME[name] for name in options.cases] or list(CASES))
        record = read_record()
        if options.update:
            record = update(record, found, find_environment())
            write_record(record)
        return report(found, record)
    except (NotStarted, BadAnswer, BadRecord) as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Count what one request executes on the gateway's main thread.")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES_BY_NAME))
    parser.add_argument("--update", action="store_true", help="write lower numbers to bench/costs.json")
    sys.exit(main(parser.parse_args()))
