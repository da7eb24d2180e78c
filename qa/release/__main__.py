"""Install the wheels of `dist/` beside the locked requirements, serve with them, and upgrade the data of the version before.

``python -m qa.release [--from REF]``. REF is by default the last tag, or without tags the last commit with an older database.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
from pathlib import Path

from qa.release.served import Served

ROOT = Path(__file__).resolve().parents[2]
DIST = ROOT / "dist"
LOCK = ROOT / "requirements.lock"
BUILD_TOOLS = {"pip", "setuptools", "wheel"}
UNLOCKED = "tornado_gate_demo_media"
"""The distribution whose requirements are not locked: it has parts under the GPL, and no image contains it."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m qa.release", description=__doc__)
    parser.add_argument("--from", dest="ref", default="", metavar="REF", help="the version to upgrade from")
    ref = parser.parse_args().ref or find_previous_version()
    with tempfile.TemporaryDirectory(prefix="gate-release-", dir="/tmp") as name:
        folder = Path(name)
        wheels = [str(wheel) for wheel in DIST.glob("*.whl") if UNLOCKED not in wheel.name]
        assert wheels, "dist/ has no wheels; run make dist"
        new = install(folder / "new", *wheels)
        check_first_start(new, folder / "first")
        check_components(new)
        old = install(folder / "old", *extract_source(ref, folder / "source"))
        check_upgrade(old, new, folder / "upgrade")
        print(f"release-check: the wheels work, and the data of {ref} is kept")


def find_previous_version() -> str:
    """Return the last tag, or without tags the commit before the newest migration of the database."""
    tags = _git("tag", "--list", "v*", "--sort=-version:refname", "--merged", "HEAD").split()
    if tags:
        return tags[0]
    newest = _git("log", "-1", "--diff-filter=A", "--format=%H", "--", "tornado_gate/database/migrations/versions")
    return _git("rev-parse", "--short", f"{newest}^")


def extract_source(ref: str, folder: Path) -> list[str]:
    """Extract another version below `folder`. Return the options of pip that install its distributions from there."""
    folder.mkdir()
    archive = folder / "source.tar"
    _git("archive", "--output", str(archive), ref)
    _run("tar", "-xf", str(archive), "-C", str(folder))
    plugins = [path for path in sorted(folder.glob("plugins/*/")) if path.name != "demo-media"]
    return [option for path in (folder, *plugins) for option in ("-e", str(path))]


def install(folder: Path, *distributions: str) -> Path:
    """Make an empty virtual environment with the locked requirements and the distributions. Return its ``bin``."""
    _run("sh", str(ROOT / "tools" / "make_venv.sh"), str(folder))
    pip = [str(folder / "bin" / "python"), "-m", "pip"]
    for lock in (LOCK, ROOT / "requirements-build.lock"):
        _run(*pip, "install", "-qq", "--only-binary", ":all:", "--require-hashes", "-r", str(lock))
    _run(*pip, "install", "-qq", "--no-deps", "--no-build-isolation", *distributions)
    _run(*pip, "check")
    return folder / "bin"


def check_first_start(program: Path, folder: Path) -> None:
    """Serve without a configuration file but the embedded one: a chat, a stream, the console."""
    folder.mkdir()
    with Served(program, folder) as served:
        served.use_first_key()
        served.chat()
        served.stream_chat()
        served.open_console()


def check_components(program: Path) -> None:
    """Check that dist/sbom.cdx.json names every installed distribution with its version. It needs no build tools."""
    listed = json.loads((DIST / "sbom.cdx.json").read_text(encoding="utf-8"))["components"]
    components = {normalize(each["name"]): each for each in listed}
    installed = json.loads(_run(str(program / "python"), "-m", "pip", "list", "--format=json"))
    for each in installed:
        if each["name"] in BUILD_TOOLS:
            continue
        component = components.get(normalize(each["name"]), {})
        assert component.get("version") == each["version"], (
            f"the list of components lacks {each['name']} {each['version']}"
        )


def check_upgrade(old: Path, new: Path, folder: Path) -> None:
    """Make keys and usage with the old version; serve them with the new one."""
    folder.mkdir()
    with Served(old, folder) as served:
        served.use_first_key()
        served.chat()
        served.chat()
    before = served.key
    with Served(new, folder) as served:
        served.key = before
        served.chat()
        served.stream_chat()
    counts = served.count_requests()
    assert counts == 4, f"the usage has {counts} requests instead of 4"


def normalize(name: str) -> str:
    """Return the normalized name of a distribution (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _git(*words: str) -> str:
    return _run("git", "-C", str(ROOT), *words).strip()


def _run(*command: str) -> str:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{result.stdout}{result.stderr}")
    return result.stdout


if __name__ == "__main__":
    main()
