"""`make fuzz`: it makes new examples, keeps them apart from those of `make test`, and prints those that fail."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from qa import fuzz
from qa.fuzz.__main__ import ROOT, find_examples, find_property_tests

FAILING = """
from hypothesis import given, settings, strategies as st

@given(number=st.integers(0, 10**6))
@settings(max_examples=20)
def test_small(number):
    with open("seen", "a") as seen:
        seen.write(f"{number}\\n")
    assert number < 1000
"""


def run(folder: Path, factor: str) -> tuple[str, list[str]]:
    """The output of a property test that fails, and the numbers that it has seen."""
    (folder / "test_small.py").write_text(FAILING)
    (folder / "conftest.py").write_text((ROOT / "conftest.py").read_text(encoding="utf-8"))
    (folder / "seen").unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:schemathesis", "test_small.py"]
    environment = {**os.environ, "FUZZ_FACTOR": factor}
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 1, ended.stdout
    return ended.stdout, (folder / "seen").read_text().split()


def test_a_failing_example_is_printed_ready_to_be_added(tmp_path: Path) -> None:
    output, _ = run(tmp_path, "2")
    assert find_examples(output) == ["test_small:\n    @example(number=1000)"]
    assert (tmp_path / ".hypothesis").is_dir(), "the next run tries it first"


def test_the_tests_see_the_same_examples_each_time(tmp_path: Path) -> None:
    assert run(tmp_path, "0")[1] == run(tmp_path, "0")[1]


def test_every_file_with_property_tests_is_found() -> None:
    files = find_property_tests()
    assert str(Path(fuzz.__file__).parent.relative_to(ROOT) / "test_more_parsers.py") in files
    assert len(files) > 60
