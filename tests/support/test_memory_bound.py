"""A test that would fill the memory of the machine fails, and the tests after it run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.fork_server import REPOSITORY

TESTS = """
import subprocess, sys

def test_that_reads_an_endless_device():
    open("/dev/zero", "rb").read()

def test_whose_child_reads_an_endless_device():
    child = subprocess.run([sys.executable, "-c", "open('/dev/zero', 'rb').read()"], capture_output=True, text=True)
    assert "MemoryError" in child.stderr

def test_after_it():
    pass
"""


def test_a_test_that_reads_without_end_fails_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "test_endless.py").write_text(TESTS, encoding="utf-8")
    plugins = [part for name in ("tests.support.memory_bound", "no:cacheprovider") for part in ("-p", name)]
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-c", "/dev/null", *plugins, "--memory-bound=300", str(tmp_path)],
        cwd=REPOSITORY,
        env={"COLUMNS": "200", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert "1 failed, 2 passed" in result.stdout
    assert "test_that_reads_an_endless_device - MemoryError: more than 300 MB" in result.stdout
