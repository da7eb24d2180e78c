"""Variants of a test: `make test` runs the first, `make qa` the others.

Both HTTP servers, both databases and both event loops do the same. Some files have all variants in `make test`, and so prove that
each works.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
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


def represent(values: Iterable[Any], kind_of: Callable[[Any], object]) -> list[Any]:
    """In `qa`: `make test` runs the first value of each kind, `make qa` the others."""
    kinds: set[object] = set()
    parameters = []
    for value in values:
        kind = kind_of(value)
        parameters.append(value if kind in kinds else _mark_parameter(value, pytest.mark.representative))
        kinds.add(kind)
    return parameters


def _mark_parameter(values: object, mark: pytest.MarkDecorator = pytest.mark.qa) -> Any:
    return pytest.param(*(values if isinstance(values, tuple) else (values,)), marks=mark)
