"""Make pytest-tornado 0.8.1 work with setuptools 82 and newer.

pytest-tornado imports `pkg_resources`, which setuptools 82 removed, and uses its `parse_version`; without that module
no test starts. Loaded with ``-p tests.support.pytest_compat``, before any plugin's entry point; a conftest would be
loaded too late.
"""

import importlib
import sys
import types
import warnings


def provide_pkg_resources() -> None:
    """Install a replacement for `pkg_resources` when the real module is missing."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the real module warns about its deprecation when it is imported
            importlib.import_module("pkg_resources")
    except ImportError:
        from packaging.version import parse

        stand_in = types.ModuleType("pkg_resources", "A stand-in with the one name that pytest-tornado uses.")
        stand_in.__dict__["parse_version"] = parse
        sys.modules["pkg_resources"] = stand_in


provide_pkg_resources()
