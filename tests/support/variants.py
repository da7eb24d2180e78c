"""Variants of a test: `make test` runs the first, `make qa` the others.

Both HTTP servers, both databases and both event loops do the same. A file about one of these kinds names all as plain parameters,
and is what `make test` knows of it.
"""

from __future__ import annotations

from typing import Any

import pytest


def vary(first: object, *others: object) -> list[Any]:
    """The parameters of a test or a fixture. Each is a value, or a tuple of values for several names."""
    return [first, *(_mark_parameter(other) for other in others)]


def _mark_parameter(values: object) -> Any:
    return pytest.param(*(values if isinstance(values, tuple) else (values,)), marks=pytest.mark.qa)
