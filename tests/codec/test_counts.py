"""Counts of upstreams: numbers that answers, metrics and the ledger can hold, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tornado_gate.codec.counts import MAX_COUNT, read_count


@pytest.mark.parametrize(("value", "count"), [(0, 0), (7, 7), (7.9, 7), (MAX_COUNT, MAX_COUNT), (0.0, 0)])
def test_numbers_are_counts(value: Any, count: int) -> None:
    assert read_count(value) == count


@given(st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.lists(st.integers())))
@example(1e308)  # found by qa/fuzz: no JSON text could be made of it
@example(float("inf"))
@example(float("nan"))
@example(True)
def test_any_value_is_a_count_or_none(value: Any) -> None:
    count = read_count(value)
    assert count is None or (type(count) is int and 0 <= count <= MAX_COUNT)
