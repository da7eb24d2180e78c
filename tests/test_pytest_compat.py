"""pytest-tornado starts whether or not setuptools still brings pkg_resources."""

from __future__ import annotations

import subprocess
import sys

import pytest

WITHOUT = "import sys; sys.modules['pkg_resources'] = None; import tests.support.pytest_compat; "
WITH = (
    "import sys, types; sys.modules['pkg_resources'] = types.ModuleType('real'); import tests.support.pytest_compat; "
)


@pytest.mark.parametrize(
    ("start", "proof"),
    [
        (WITHOUT, "import pkg_resources as p; assert p.parse_version('9.10') > p.parse_version('9.9')"),
        (WITHOUT, "import pytest_tornado.plugin"),
        (WITH, "import pkg_resources as p; assert p.__name__ == 'real'"),
    ],
    ids=["stand-in compares versions", "pytest-tornado imports", "the real one stays"],
)
def test_pkg_resources_is_there_for_pytest_tornado(start: str, proof: str) -> None:
    subprocess.run([sys.executable, "-c", start + proof], check=True, timeout=30)
