"""Installs the peers in bench/.peers, each in its own environment; and this checkout, to measure its installed size.

Usage: python -m bench.install [NAME ...]. Existing installations are kept; --fresh installs them again. A peer that cannot be
installed is reported, here and in the results; the exit code is 0 nevertheless.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess

from bench.peers.ours import PLUGINS
from bench.side import PEERS, ROOT, SideFacts, fill_template, load_facts, make_search_path, make_template_values

INSTALLED = ("ours", "earlier", "sglang", "smg", "portkey", "litellm")
STAMP, LOG = "installed", "install.log"
WORDS = 300  # of the end of the installer's output


def copy_source() -> None:
    """Return a copy of the checkout, so that building the packages leaves no files in it."""
    target = PEERS / "source"
    shutil.rmtree(target, ignore_errors=True)
    leave = shutil.ignore_patterns("__pycache__", "*.egg-info", "build", "tests")
    for name in ("tornado_gate", "setup.py", "README.md"):
        one = ROOT / name
        if one.is_dir():
            shutil.copytree(one, target / "core" / name, ignore=leave)
        else:
            shutil.copy(one, target / "core" / name)
    shutil.copytree(ROOT / "plugins", target / "plugins", ignore=leave)


def make_commands(side: SideFacts) -> list[list[str]]:
    """Return the installation commands. Each plugin is a distribution of its own."""
    made = [[fill_template(part, make_template_values()) for part in command] for command in side.install]
    if side.name == "ours":
        copy_source()
        made[-1] += [str(PEERS / "source" / "plugins" / name) for name in PLUGINS]
    return made


def install(side: SideFacts, *, fresh: bool) -> str:
    """Install a peer; return the error message, "" on success."""
    folder = PEERS / side.name
    if fresh:
        shutil.rmtree(folder, ignore_errors=True)
    if (folder / STAMP).exists():
        return ""
    folder.mkdir(parents=True, exist_ok=True)
    environment = {
        **os.environ,
        "PATH": make_search_path(),
        "NODE_USE_SYSTEM_CA": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    for command in make_commands(side):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=folder)
        if done.returncode:
            fault = (done.stderr or done.stdout).strip()[-WORDS:]
            (folder / LOG).write_text(fault, encoding="utf-8")
            return fault
    (folder / LOG).unlink(missing_ok=True)
    (folder / STAMP).touch()
    return ""


def main(names: list[str], *, fresh: bool) -> None:
    for name in names:
        fault = install(load_facts(name), fresh=fresh)
        print(f"{name}: {'could not be installed: ' + fault if fault else 'installed'}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Install the gateways to compare with.")
    parser.add_argument("names", nargs="*", default=list(INSTALLED))
    parser.add_argument("--fresh", action="store_true")
    options = parser.parse_args()
    main(options.names, fresh=options.fresh)
