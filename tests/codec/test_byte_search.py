"""Long bytes are searched in slices: what lies across a border is found, and positions are those of the whole."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tornado_gate.codec import byte_search
from tornado_gate.codec.byte_search import contains_any, contains_quickly, find_in_slices, search


@pytest.fixture(autouse=True)
def short_slices() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(byte_search, "SLICE_BYTES", 10)
        yield


@pytest.mark.parametrize("place", range(45))
def test_a_mark_is_found_at_every_place(place: int) -> None:
    raw = b"." * place + b"mark" + b"." * 20 + b"mark"
    assert find_in_slices(raw, b"mark") == place
    assert find_in_slices(raw, b"mark", place + 1) == place + 24
    assert find_in_slices(raw, b"mark", place + 25) == -1


@pytest.mark.parametrize("place", range(25))
def test_a_pattern_is_found_where_only_its_beginning_occurs_before(place: int) -> None:
    raw = b"a0" + b"." * place + b"a1"
    assert find_in_slices(raw, b"a", pattern=re.compile(rb"a1")) == place + 2
    assert find_in_slices(raw, b"a", pattern=re.compile(rb"a2")) == -1


def test_one_of_several_marks_is_enough() -> None:
    assert contains_any(b"." * 30 + b"second", (b"first", b"second"))
    assert not contains_any(b"." * 30, (b"first", b"second"))
    assert not contains_any(b"", (b"first",))


@pytest.mark.parametrize("place", range(25))
def test_the_first_match_of_a_pattern_is_found_after_places_where_only_its_mark_is(place: int) -> None:
    raw = b"a0" + b"." * place + b"a12a3"
    found = search(raw, b"a", re.compile(rb"a([1-9]+)"))
    assert found is not None
    assert (found.start(), found[1]) == (place + 2, b"12")
    assert search(raw, b"a", re.compile(rb"a4")) is None
    assert search(raw, b"b", re.compile(rb"b")) is None


def test_a_mark_is_searched_by_its_rarest_byte() -> None:
    assert contains_quickly(b"." * 30 + b"mark=" + b"=" * 200, b"mark=", 4)
    assert contains_quickly(b"mark=", b"mark=", 4)
    assert contains_quickly(b"=mar" + b"k=" * 20 + b"mark", b"mark=", 4) is True
    assert contains_quickly(b"k=" * 20 + b"mark", b"mark=", 4) is False
    assert contains_quickly(b"k=mark", b"mark=", 4) is False  # it would be found if positions were counted from the end
    assert contains_quickly(b"", b"mark=", 4) is False


def test_a_search_that_would_take_long_has_no_result() -> None:
    assert contains_quickly(b"=" * 1000 + b"mark=", b"mark=", 4) is None
