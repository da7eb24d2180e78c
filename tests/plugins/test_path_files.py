"""Files that run code at each start of Python: which are reported, and which belong to packaging tools."""

from __future__ import annotations

from pathlib import Path

from tests.support.distributions import write_distribution
from tornado_gate.plugins.path_files import find_path_files

SETUPTOOLS = (
    "import os; var = 'SETUPTOOLS_USE_DISTUTILS'; enabled = os.environ.get(var, 'local') == 'local'; "
    "enabled and __import__('_distutils_hack').add_shim(); "
)
ATTACK = 'import os, subprocess, sys; subprocess.Popen([sys.executable, "-c", "steal()"])'


def test_files_that_run_code_or_have_no_owner_are_reported_and_no_others(tmp_path: Path) -> None:
    finder = "__editable___acme_1_0_finder"
    editable = {"__editable__.acme-1.0.pth": f"import {finder}; {finder}.install()", f"{finder}.py": ""}
    write_distribution(tmp_path, "acme", editable, editable=True)
    write_distribution(tmp_path, "hatch", {"_hatch.pth": "/src/hatch", "_hatch.py": ""}, editable=True)
    write_distribution(tmp_path, "setuptools", {"distutils-precedence.pth": SETUPTOOLS})
    write_distribution(tmp_path, "litellm", {"litellm_init.pth": ATTACK, "litellm/__init__.py": ""})
    copied = {"__editable__.copied-1.0.pth": f"import {finder}; {finder}.install()"}  # the finder of somebody else
    write_distribution(tmp_path, "copied", copied, editable=True)
    shown = {"__editable__.shown-1.0.pth": "import shown_finder; shown_finder.install()", "shown_finder.py": ""}
    write_distribution(tmp_path, "shown", shown)  # no editable install, so no need for a finder
    for name, text in {
        "_virtualenv.pth": "import _virtualenv",
        "distutils-like.pth": SETUPTOOLS + "steal()",
        "dropped.pth": "# a comment\n/somewhere/else\n",
        "dropped-code.pth": f"/somewhere\n{ATTACK}\n",
        "tab.pth": "import\tsteal",
        "bom.pth": "\ufeffimport steal",
        "empty.pth": "\n",
        "text.txt": ATTACK,
    }.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    found = {one.path.name: one for one in find_path_files([str(tmp_path), str(tmp_path / "none")])}
    assert {name: one.distribution for name, one in found.items()} == {
        "litellm_init.pth": "litellm",
        "__editable__.copied-1.0.pth": "copied",
        "__editable__.shown-1.0.pth": "shown",
        "distutils-like.pth": "",
        "dropped.pth": "",
        "dropped-code.pth": "",
        "tab.pth": "",
        "bom.pth": "",
    }
    described = found["litellm_init.pth"].describe()
    assert str(tmp_path / "litellm_init.pth") in described
    assert "of litellm runs code at each start of Python: 'import os, subprocess" in described
    assert "adds folders to Python's search path" in found["dropped.pth"].describe()


def test_this_environment_has_no_false_alarm() -> None:
    """It consists of editable installs and the usual tools; `tornado-gate check` is quiet about them."""
    assert [one.describe() for one in find_path_files()] == []
