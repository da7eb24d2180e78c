"""Runs all property tests with new examples for a stated time, then schemathesis: ``python -m tests.fuzz --seconds 600``.

Rounds of all property tests follow each other, each with another seed. What fails is printed as an `@example` for its test.
Failing inputs stay in .hypothesis/ and are tried first in the next run. The last fifth of the time is schemathesis against a
running gateway. The exit code is 1 if anything failed.
"""

from __future__ import annotations

import argparse
import os
import re
import secrets
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.conformance import described_api

ROOT = Path(__file__).parents[2]
SCHEMATHESIS_SHARE = 0.2
_FALSIFYING = re.compile(r"^E?\s*(?:Falsifying example|Failing test case): (\w+)\((.*?)^E?\s*\)$", re.S | re.M)
_COUNTS = re.compile(r"(\d+) (passed|failed)")


def find_property_tests() -> list[str]:
    """The files with property tests."""
    files = [path for path in (ROOT / "tests").rglob("test_*.py") if "node_modules" not in path.parts]
    return sorted(str(path.relative_to(ROOT)) for path in files if "from hypothesis import" in path.read_text("utf-8"))


def find_examples(output: str) -> list[str]:
    """The failing examples in the output of pytest, as decorators to put above their tests."""
    found = []
    for name, arguments in _FALSIFYING.findall(output):
        lines = [re.sub(r"^E?\s*", "", line).rstrip() for line in arguments.strip().splitlines()]
        own = [line for line in lines if line and not line.startswith(("self=", "tmp_path="))]
        found.append(f"{name}:\n    @example({' '.join(own).rstrip(', ')})")
    return list(dict.fromkeys(found))


def run_round(files: list[str], factor: int, seconds: float, selected: list[str]) -> tuple[int, int, str]:
    """(passed, failed, output) of one round with a new seed; a round that takes longer ends early."""
    seed = secrets.randbelow(2**32)
    command = [sys.executable, "-m", "pytest", "-m", "hypothesis", "-q", "--tb=short", "-p", "no:cacheprovider", *files]
    command += [
        f"--hypothesis-seed={seed}",
        "--timeout=0",
        "-n",
        "auto",
        "--maxprocesses=4",
        "--dist=loadfile",
        *selected,
    ]
    child = subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, "FUZZ_FACTOR": str(factor)}, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        output, _ = child.communicate(timeout=max(1.0, seconds))
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, 2)  # pytest then reports what has failed so far
        output, _ = child.communicate()
    counts = {word: int(number) for number, word in _COUNTS.findall(output[-2000:])}
    return counts.get("passed", 0), counts.get("failed", 0), output


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument(
        "--factor", type=int, default=10, help="examples of a round, as a multiple of those of `make test`"
    )
    parser.add_argument(
        "--only", default="", help="an expression that selects tests, as pytest's -k; then without schemathesis"
    )
    options = parser.parse_args(arguments)
    started, files, examples, rounds, failed = time.monotonic(), find_property_tests(), [], 0, 0
    share = 1.0 if options.only else 1.0 - SCHEMATHESIS_SHARE
    while (left := options.seconds * share - (time.monotonic() - started)) > 0:
        passed, wrong, output = run_round(files, options.factor, left, ["-k", options.only] if options.only else [])
        rounds, failed, examples = rounds + 1, failed + wrong, examples + find_examples(output)
        print(f"round {rounds}: {passed} property tests passed, {wrong} failed", flush=True)
        if wrong or not passed:
            print(output[-20_000:], flush=True)
        if not passed:
            return 1
    for one in dict.fromkeys(examples):
        print(f"\nadd to {one}")
    if not options.only:
        with tempfile.TemporaryDirectory(prefix="gate-fuzz-") as folder:
            failed += described_api.run(Path(folder), seconds=options.seconds * SCHEMATHESIS_SHARE)
    print(f"\n{len(files)} files with property tests, {rounds} rounds, {failed} failures")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
