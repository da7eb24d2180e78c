"""curl for the tests that run printed commands: the machine's own, else a stand-in that reads the same command lines."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

STAND_IN = Path(__file__).parent / "commands" / "curl"


def find_path_with_curl() -> str:
    """PATH, followed by the folder of the stand-in if there is no curl in it."""
    path = os.environ.get("PATH", os.defpath)
    return path if shutil.which("curl", path=path) else f"{path}{os.pathsep}{STAND_IN.parent}"
