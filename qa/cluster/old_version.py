"""The code of an earlier version of this project, as it is in git: a test runs it beside the code of today."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.support.process import REPOSITORY
from tornado_gate.database.opening import FOLDER, list_revisions


def write_old_version(folder: Path, steps: int) -> str:
    """Write the last code whose newest schema is `steps` before that of today to `folder`; return that schema's name.

    Raises AssertionError if the checkout has no history.
    """
    revision, successor = list_revisions()[-steps - 1], list_revisions()[-steps]
    commit = _find_commit_before(FOLDER / "versions" / f"{successor}.py")
    folder.mkdir()
    archive = folder / "code.tar"
    _run_git("archive", "--output", str(archive), commit, "tornado_gate", "plugins")
    subprocess.run(["tar", "-xf", str(archive), "-C", str(folder)], check=True)
    archive.unlink()
    newest = max(path.stem for path in (folder / "tornado_gate/database/migrations/versions").glob("[0-9]*.py"))
    assert newest == revision, f"{commit} has the schema {newest}, and not {revision}"
    return revision


def make_environment(folder: Path) -> dict[str, str]:
    """Return an environment in which the installed command runs the code in `folder`, with the installed libraries."""
    parts = [folder, *sorted(path for path in (folder / "plugins").iterdir() if path.is_dir())]
    return {"PYTHONPATH": os.pathsep.join(map(str, parts))}


def _find_commit_before(migration: Path) -> str:
    """Return the last commit without this file: the parent of the one that has added it, or the newest one."""
    path = str(migration.relative_to(REPOSITORY))
    added = _run_git("log", "--first-parent", "--diff-filter=A", "--format=%H", "-1", "--", path)
    return _run_git("rev-parse", "--verify", f"{added}^1" if added else "HEAD")


def _run_git(*arguments: str) -> str:
    finished = subprocess.run(["git", *arguments], cwd=REPOSITORY, check=False, capture_output=True, text=True)
    assert finished.returncode == 0, (
        f"the code of an earlier version cannot be read; this test needs git and a checkout with its history "
        f"(git fetch --unshallow):\n{finished.stderr}"
    )
    return finished.stdout.strip()
