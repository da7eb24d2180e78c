"""Runs all property tests with new examples for a stated time, then schemathesis: ``python -m qa.fuzz --seconds 600``.

The files are run in a random order until the time is over, each time with another seed. What fails is printed as an `@example`
for its test. Failing inputs stay in .hypothesis/ and are tried first in the next run. The last fifth of the time is schemathesis
against a running gateway. The exit code is 1 if anything failed.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import re
import secrets
import subprocess
import sys
import tempfile
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

from qa.conformance import described_api

ROOT = Path(__file__).parents[2]
SCHEMATHESIS_SHARE = 0.2
NO_TESTS = 5
"""The exit code of pytest if it selected no test."""
_FALSIFYING = re.compile(r"^E?\s*(?:Falsifying example|Failing test case): (\w+)\((.*?)^E?\s*\)", re.S | re.M)
_COUNTS = re.compile(r"(\d+) (passed|failed)")


def find_property_tests() -> list[str]:
    """The files with property tests."""
    paths = [path for folder in ("tests", "qa", "plugins") for path in (ROOT / folder).rglob("test_*.py")]
    files = [path for path in paths if "node_modules" not in path.parts]
    return sorted(str(path.relative_to(ROOT)) for path in files if "from hypothesis import" in path.read_text("utf-8"))


def find_examples(output: str) -> list[str]:
    """The failing examples in the output of pytest, as decorators to put above their tests."""
    found = []
    for name, arguments in _FALSIFYING.findall(output):
        lines = [re.sub(r"^E?\s*", "", line).rstrip() for line in arguments.strip().splitlines()]
        own = [line for line in lines if line and not line.startswith(("self=", "tmp_path="))]
        found.append(f"{name}:\n    @example({' '.join(own).rstrip(', ')})")
    return list(dict.fromkeys(found))


def run_file(file: str, factor: int) -> tuple[int, int, str]:
    """(passed, failed, output) of the property tests of a file, with a new seed."""
    seed = secrets.randbelow(2**32)
    command = [sys.executable, "-m", "pytest", "-m", "hypothesis", "-q", "--tb=short", "-p", "no:cacheprovider", file]
    command += [f"--hypothesis-seed={seed}", "--timeout=0"]
    environment = {**os.environ, "FUZZ_FACTOR": str(factor)}
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    counts = {word: int(number) for number, word in _COUNTS.findall(ended.stdout[-2000:])}
    wrong = counts.get("failed", 0) or int(ended.returncode not in (0, NO_TESTS))
    return counts.get("passed", 0), wrong, ended.stdout + ended.stderr


def run_files(files: list[str], factor: int, until: float) -> tuple[int, int, list[str]]:
    """Run the files in a random order, again and again, until the time; one at a time on each core.

    Returns the number of files that were run, of failures, and the failing examples.
    """
    order = itertools.chain.from_iterable(random.sample(files, len(files)) for _ in itertools.count())
    done = failed = 0
    examples: list[str] = []
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        running: set[Future[tuple[int, int, str]]] = set()
        while running or time.monotonic() < until:
            while len(running) < (os.cpu_count() or 1) and time.monotonic() < until:
                running.add(pool.submit(run_file, next(order), factor))
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            for passed, wrong, output in (one.result() for one in ended):
                done, failed, examples = done + 1, failed + wrong, examples + find_examples(output)
                print(f"{done} files: {passed} property tests passed, {wrong} failed", flush=True)
                if wrong:
                    print(output[-20_000:], flush=True)
    return done, failed, list(dict.fromkeys(examples))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m qa.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--factor", type=int, default=10, help="how many times the examples of `make test`")
    parser.add_argument("--only", default="", help="files whose path contains this; then without schemathesis")
    options = parser.parse_args(arguments)
    files = [file for file in find_property_tests() if options.only in file]
    share = 1.0 if options.only else 1.0 - SCHEMATHESIS_SHARE
    done, failed, examples = run_files(files, options.factor, time.monotonic() + options.seconds * share)
    for one in examples:
        print(f"\nadd to {one}")
    if not options.only:
        with tempfile.TemporaryDirectory(prefix="gate-fuzz-") as folder:
            failed += described_api.run(Path(folder), seconds=options.seconds * SCHEMATHESIS_SHARE)
    print(f"\n{done} runs of {len(files)} files with property tests, {failed} failures")
    return 1 if failed or not done else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
