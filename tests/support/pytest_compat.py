"""Lets pytest-tornado 0.8.1 start beside setuptools 82 and newer.

pytest-tornado imports `pkg_resources`, which setuptools 82 removed, and uses `parse_version` of it; without that module
not one test starts. Loaded with ``-p tests.support.pytest_compat``, which comes before any plugin's entry point; a
conftest would come too late.
"""

import importlib
import sys
import types
import warnings


def provide_pkg_resources() -> None:
    """Put a stand-in for `pkg_resources` in its place where the real one is missing."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the real one announces its end at its first import
            importlib.import_module("pkg_resources")
    except ImportError:
        from packaging.version import parse

        stand_in = types.ModuleType("pkg_resources", "A stand-in with the one name that pytest-tornado uses.")
        stand_in.__dict__["parse_version"] = parse
        sys.modules["pkg_resources"] = stand_in


provide_pkg_resources()
