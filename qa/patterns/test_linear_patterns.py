"""No regular expression takes more than linear time on foreign text: each is tried with the worst texts of 64 KiB.

`qa/patterns` finds every call of `re` in the core and the first-party plugins, derives the texts from each pattern, and has a
table of what is bounded or reads no foreign text. `python -m qa.patterns` prints the times.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from qa.patterns.collect import ROOT

LIMIT_MILLISECONDS = 250.0
"""CPU time of 64 KiB: the slowest linear pattern takes a quarter of it, and a quadratic one some seconds."""
FIRST = "http/"
"""Every byte of a caller meets the patterns of this package first: they are measured for the test of the tables, too."""


def measure_patterns(*arguments: str) -> dict[str, Any]:
    """Measure in a process of its own: the patterns are seen while their modules are imported."""
    command = [sys.executable, "-m", "qa.patterns", "--json", *arguments]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    assert run.returncode == 0, run.stderr
    result: dict[str, Any] = json.loads(run.stdout)
    return result


@pytest.fixture(scope="module")
def measured_first() -> dict[str, Any]:
    return measure_patterns(FIRST)


def find_slow_patterns(measured: dict[str, Any]) -> list[str]:
    return [
        f"{row['name']}: {row['milliseconds']} ms for {row['length']} of {row['bound']} characters: {row['text']}"
        for row in measured["rows"]
        if row["milliseconds"] > LIMIT_MILLISECONDS or row["length"] < row["bound"]
    ]


def test_patterns_of_http_are_linear(measured_first: dict[str, Any]) -> None:
    slow = find_slow_patterns(measured_first)
    assert not slow, "\n".join(slow)
    assert len(measured_first["rows"]) > 10, "the patterns were not found"


def test_the_tables_name_patterns_that_exist_and_every_function_that_compiles_one(
    measured_first: dict[str, Any],
) -> None:
    in_functions, named = set(measured_first["in_functions"]), set(measured_first["named"])
    assert named <= set(measured_first["names"]) | in_functions
    assert in_functions <= named, "add an example to qa/patterns/exceptions.py"


@pytest.mark.timeout(600)
def test_every_pattern_that_meets_foreign_text_is_linear() -> None:
    measured = measure_patterns()
    slow = find_slow_patterns(measured)
    assert not slow, "\n".join(slow)
    assert len(measured["rows"]) > 400, "the patterns were not found"
