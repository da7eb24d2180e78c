"""Counts the instructions that the gateway's main thread executes for a request, with valgrind's callgrind.

Usage: python -m bench.instructions [--keep] [CASE ...]. `--keep` stores the counts of this machine in .venv; later runs compare
with them. The exit code is 1 if a case executes more than 2 % more instructions, and 2 if nothing could be counted.

Bytecodes and calls (bench/costs.py) do not show C code that becomes slower. Instructions do, but their number depends on how
Python, its libraries and the C library were compiled. So they are compared on one machine only, and no number is in the project.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from bench.costs.cases import CASES_BY_NAME, PLAIN, CostCase
from bench.costs.measure import CountedConnection
from bench.load import BadAnswer
from bench.side import CORES, NotStarted, RunningSide, load_facts, run_side, run_upstream

CASES = ("chat", "a2o", "40kb", "stream")
"""The cases that are counted if none is named."""
KEPT = Path(sys.prefix) / "instructions.json"
WARM_UPS = 10
ROUNDS = 5
REQUESTS = 200
"""The requests of a round, without a pause, so that the timers that fire meanwhile are few. The cheapest round counts."""
START_SECONDS = 300.0
"""The time for the start: valgrind takes fifty times as long as the processor."""
TOLERANCE = 0.02
Counts = Mapping[str, int]


class NotCounted(Exception):
    """An error: valgrind is missing, or has failed; the message says what to do."""


def count_cases(cases: Sequence[CostCase]) -> Iterator[tuple[str, int]]:
    """Yield the name of each case and the instructions of one request. Raises NotCounted, NotStarted or BadAnswer."""
    if shutil.which("callgrind_control") is None:
        raise NotCounted("valgrind is not installed. Install your system's package 'valgrind'.")
    ours = load_facts("ours")
    with run_upstream() as upstream, tempfile.TemporaryDirectory() as folder:
        callgrind = ("--tool=callgrind", "--instr-atstart=no", "--separate-threads=yes", "--combine-dumps=no")
        side = replace(
            ours,
            command=("valgrind", *callgrind, f"--callgrind-out-file={folder}/out", "$bin/python", *ours.command),
            environment={"PYTHONHASHSEED": "0"},
            start_seconds=START_SECONDS,
        )
        with run_side(side, upstream, cores=CORES, files={"gate.yaml": PLAIN}) as gateway:
            for case in cases:
                yield case.name, count_case(gateway, case, Path(folder))


def count_case(gateway: RunningSide, case: CostCase, folder: Path) -> int:
    """Return the instructions of one request of the case, on the main thread."""
    connection = CountedConnection(gateway, case)
    rounds = []
    try:
        for _ in range(WARM_UPS):
            connection.ask()
        for _ in range(ROUNDS):
            control(gateway.process, "--instr=on")
            for _ in range(REQUESTS):
                connection.exchange()
            control(gateway.process, "--instr=off")
            for file in folder.iterdir():
                file.unlink()
            control(gateway.process, "--dump")
            rounds.append(read_main_thread(folder))
    finally:
        connection.close()
    return min(rounds) // REQUESTS


def control(process: int, command: str) -> None:
    """Give callgrind a command, and wait until it is done. Raises NotCounted."""
    done = subprocess.run(
        ["callgrind_control", command, str(process)], capture_output=True, text=True, check=False, timeout=START_SECONDS
    )
    if done.returncode or "Error" in done.stdout:
        raise NotCounted(f"callgrind_control {command} failed: {done.stdout.strip()} {done.stderr.strip()}")


def read_main_thread(folder: Path) -> int:
    """Return the instructions in the dump of the main thread, which is the first. A dump begins to count again.

    Raises NotCounted.
    """
    for file in folder.glob("out*-01"):
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("totals:"):
                return int(line.partition(":")[2])
    raise NotCounted(f"callgrind has written no dump of the main thread in {folder}")


def describe_machine() -> dict[str, str]:
    """Return what a number of instructions depends on besides the gateway."""
    return {"python": sys.version, "machine": platform.machine(), "system": " ".join(platform.libc_ver())}


def read_kept(path: Path = KEPT) -> Counts:
    """Return the counts that were kept on this machine with this Python; {} without any."""
    if not path.exists():
        return {}
    kept = json.loads(path.read_text(encoding="utf-8"))
    return kept["counts"] if kept["of"] == describe_machine() else {}


def keep(found: Counts, path: Path = KEPT) -> None:
    """Store the counts, beside those of other cases."""
    counts = {**read_kept(path), **found}
    path.write_text(json.dumps({"of": describe_machine(), "counts": counts}, indent=2) + "\n", encoding="utf-8")


def compare(found: Counts, kept: Counts) -> Iterator[str]:
    """Yield a message for each case that executes clearly more instructions than the kept number."""
    for name, number in found.items():
        before = kept.get(name)
        if before is not None and number > before * (1 + TOLERANCE):
            share = number / before - 1
            yield f"{name}: {number:,} instructions instead of {before:,} ({share:+.1%}; {TOLERANCE:.0%} are allowed)"


def main(options: argparse.Namespace) -> int:
    kept, found = read_kept(), {}
    try:
        for name, number in count_cases([CASES_BY_NAME[name] for name in options.cases or CASES]):
            before = kept.get(name)
            print(f"{name:12}{number:12,}" + (f"{number / before - 1:+8.1%}" if before else ""), flush=True)
            found[name] = number
    except (NotCounted, NotStarted, BadAnswer) as error:
        print(error, file=sys.stderr)
        return 2
    if options.keep:
        keep(found)
    elif not kept:
        print("Nothing to compare with: `--keep` stores these counts, for example before a change.")
    faults = list(compare(found, kept))
    print("\n".join(faults) or "No case executes more instructions than the kept ones.")
    return 1 if faults and not options.keep else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Count the CPU instructions of one request with valgrind.")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES_BY_NAME))
    parser.add_argument("--keep", action="store_true", help="store the counts on this machine, for later comparisons")
    sys.exit(main(parser.parse_args()))
