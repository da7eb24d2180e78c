"""Usage: python -m bench.soak [--chaos] [--seconds 600] [--rate 20] [--interval 60] [--processes 2] [--postgres] [--valkey] …

Starts a gateway with several processes and two upstreams, one of which fails on purpose, and sends mixed traffic whose every
answer is checked. `--chaos` also kills, restarts and reloads. Prints a table, what was injected, and every fault; the exit code
is 1 if an answer was wrong, mixed or lost, or a request is not in the ledger once. docs/contributing/testing.md describes it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from bench.soak.chaos import Chaos
from bench.soak.records import Outcome, find_percentile
from bench.soak.run import Run, Verdict, list_seconds
from bench.soak.site import Site
from tests.support.postgres import PostgresServer
from tests.support.valkey import Valkey

SHOWN_FAULTS = 40


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--chaos", action="store_true", help="kill, restart and reload meanwhile")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--rate", type=float, default=20.0, help="requests per second")
    parser.add_argument("--interval", type=float, default=60.0, help="seconds between two rows of the table")
    parser.add_argument("--gap", type=float, default=5.0, help="seconds between two disturbances")
    parser.add_argument("--share", type=float, default=0.25, help="share of faults at the shaky upstream")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--postgres", action="store_true", help="accounts and ledger in PostgreSQL, which chaos restarts"
    )
    parser.add_argument("--valkey", action="store_true", help="limits in Valkey, which chaos kills and stops")
    return parser.parse_args(arguments)


@contextlib.contextmanager
def run_postgres(wanted: bool) -> Iterator[PostgresServer | None]:
    if not wanted:
        yield None
        return
    server = PostgresServer()
    try:
        yield server
    finally:
        server.close()


@contextlib.contextmanager
def run_valkey(wanted: bool) -> Iterator[Valkey | None]:
    if not wanted:
        yield None
        return
    server = Valkey()
    try:
        yield server
    finally:
        server.kill()


def run(options: argparse.Namespace) -> Verdict:
    with (
        tempfile.TemporaryDirectory(prefix="gate-soak-") as folder,
        run_postgres(options.postgres) as postgres,
        run_valkey(options.valkey) as valkey,
    ):
        address, store = postgres.create("soak") if postgres else "", valkey.url if valkey else ""
        site = Site(Path(folder), options.processes, options.share, options.seed, address, store)
        try:
            site.start()
            run = Run(site, options.seconds, options.rate, options.interval, options.seed)
            chaos = Chaos(site, run.journal, options.gap, postgres, valkey) if options.chaos else None
            return asyncio.run(run.run(chaos))
        finally:
            site.close()


def print_verdict(verdict: Verdict) -> None:
    journal = verdict.journal
    print(
        f"\n{len(journal.requests)} requests in {verdict.seconds:.0f} s, load of the machine {os.getloadavg()[1]:.1f}\n"
    )
    outcomes: tuple[Outcome, ...] = ("right", "error", "left", "cut", "WRONG", "MIXED", "LOST", "OPEN")
    print(f"{'kind of request':<26}" + "".join(f"{name:>8}" for name in outcomes))
    for kind in sorted({one.kind for one in journal.requests}):
        counts = journal.count([one for one in journal.requests if one.kind == kind])
        print(f"{kind:<26}" + "".join(f"{counts[name]:>8}" for name in outcomes))
    print_counts("faults injected by the upstream", verdict.injected)
    print_counts("disturbances", verdict.disturbed)
    errors = [one for one in journal.requests if one.outcome == "error"]
    print_counts("errors of callers", Counter(f"{one.model.partition('-')[0]} {one.status}" for one in errors))
    print_counts("ledger", Counter(verdict.ledger))
    p50, p99 = (find_percentile(list_seconds(journal.requests), share) * 1000 for share in (0.5, 0.99))
    print(f"\nwhole answers of steady models: p50 {p50:.0f} ms, p99 {p99:.0f} ms")
    for note in verdict.notes:
        print(note)
    print(f"\n{len(verdict.faults)} faults" + (":" if verdict.faults else ""))
    for fault in verdict.faults[:SHOWN_FAULTS]:
        print(f"  {fault}")


def print_counts(title: str, counts: Counter[str]) -> None:
    if counts:
        print(f"\n{title}: " + ", ".join(f"{name} {count}" for name, count in sorted(counts.items())))


def main(arguments: list[str]) -> int:
    verdict = run(parse_arguments(arguments))
    print_verdict(verdict)
    return 1 if verdict.faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
