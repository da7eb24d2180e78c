"""Variants of a test: `make test` runs the first, `make qa` the others.

Both HTTP servers, both databases and both event loops do the same. Some files have all variants in `make test`, and so prove that
each works.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def vary(first: object, *others: object) -> list[Any]:
    """The parameters of a test or a fixture. Each is a value, or a tuple of values for several names."""
    return [first, *map(_mark_parameter, others)]


def choose(values: Iterable[object], first: Collection[object]) -> list[Any]:
    """The same, when `make test` runs the values of `first`."""
    chosen = [value if value in first else _mark_parameter(value) for value in values]
    assert len(first) == sum(value in first for value in chosen), f"not all of {first} are among the values"
    return chosen


def _mark_parameter(values: object) -> Any:
    return pytest.param(*(values if isinstance(values, tuple) else (values,)), marks=pytest.mark.qa)
