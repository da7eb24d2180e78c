"""The files of a release agree: one version, requirements that are locked with hashes, a list of their licences."""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.test_packaging import read_setup

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements.lock"


@pytest.fixture(scope="module")
def versions_tool() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "tools" / "set_version.py"))


@pytest.fixture(scope="module")
def licences_tool() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "tools" / "list_licences.py"))


def test_all_distributions_and_the_chart_have_one_version(versions_tool: dict[str, Any]) -> None:
    found = versions_tool["read_versions"]()
    assert {
        ROOT / "plugins" / folder.name / "setup.py" for folder in (ROOT / "plugins").iterdir() if folder.is_dir()
    } < set(found)
    assert len({version for versions in found.values() for version in versions}) == 1, found
    assert all(found.values()), found


def list_requirements(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Requirement]]:
    """Yield the requirements of what tools/runtime.in names, with their distributions."""
    for line in (ROOT / "tools" / "runtime.in").read_text().splitlines():
        if not line.startswith("-e "):
            continue
        folder, _, extras = line.removeprefix("-e ").rstrip("]").partition("[")
        arguments = read_setup(ROOT / folder / "setup.py", monkeypatch)
        wanted = list(arguments.get("install_requires", ()))
        wanted += [each for extra in extras.split(",") if extra for each in arguments["extras_require"][extra]]
        yield from ((arguments["name"], Requirement(each)) for each in wanted)


def test_the_lock_file_satisfies_the_requirements_of_all_distributions(
    licences_tool: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = licences_tool["list_locked"]()
    faults = []
    for distribution, requirement in list_requirements(monkeypatch):
        name = canonicalize_name(requirement.name)
        if not name.startswith("tornado-gate") and not requirement.specifier.contains(
            locked.get(name, "0"), prereleases=True
        ):
            faults.append(
                f"{distribution} needs {requirement}; requirements.lock has {locked.get(name, 'none')}; run make lock"
            )
    assert faults == []


def test_the_lock_names_each_plugin_except_the_one_with_gpl_parts() -> None:
    named = {
        line.rpartition("/")[2]
        for line in (ROOT / "tools" / "runtime.in").read_text().splitlines()
        if "plugins/" in line
    }
    assert {folder.name for folder in (ROOT / "plugins").iterdir() if folder.is_dir()} - named == {"demo-media"}


@pytest.mark.parametrize("file", [LOCK, ROOT / "requirements-build.lock"], ids=lambda path: path.name)
def test_lock_files_have_a_hash_for_each_version_and_name_no_server(file: Path) -> None:
    text = file.read_text()
    entries = re.split(r"\n(?=\S)", text.strip())
    assert all(re.match(r"[a-z0-9.-]+==\S+", entry) and "--hash=sha256:" in entry for entry in entries)
    assert "://" not in text
    assert "--index" not in text


def test_the_page_of_licences_lists_what_is_locked(licences_tool: dict[str, Any]) -> None:
    page, rendered = licences_tool["PAGE"].read_text(), licences_tool["render"]()
    rows = [dict(re.findall(r"^\| (\S+) \| (.*) \|$", text, re.MULTILINE)) for text in (page, rendered)]
    assert list(rows[0]) == list(rows[1])
    assert [name for name, licence in rows[0].items() if licence and rows[1][name] not in ("", licence)] == []
