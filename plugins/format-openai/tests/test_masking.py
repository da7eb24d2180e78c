"""The target's key never passes, whole or in pieces."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornado_gate_format_openai.masking import SHORT_BYTES, KeyMask, without

KEYS = st.text("ab-1", min_size=1, max_size=6)


@given(KEYS, st.text("ab-1", max_size=60), st.lists(st.integers(0, 60), max_size=8))
def test_pieces_are_masked_as_the_whole_is(key: str, text: str, cuts: list[int]) -> None:
    raw = text.encode()
    mask = KeyMask(key)
    borders = [0, *sorted(min(cut, len(raw)) for cut in cuts), len(raw)]
    passed = b"".join(mask.feed(raw[a:b]) for a, b in pairwise(borders)) + mask.finish()
    assert passed == KeyMask(key).masked(raw) == raw.replace(key.encode(), b"***")


@pytest.mark.parametrize("key", ["sk-0123-abc", "0123456789", "aaaa", "é-ü"])
@pytest.mark.parametrize("filling", [b"0.123,-4e5,", b"iVBORw0KGgo/+", b"some words, sk- and more \xc3\xa9", b""])
def test_a_long_piece_is_masked_whatever_else_is_in_it(key: str, filling: bytes) -> None:
    around = filling * SHORT_BYTES
    assert KeyMask(key).masked(around + key.encode() + around) == around + b"***" + around
    assert KeyMask(key).masked(around) is around


@given(KEYS | st.just(""), st.text("ab-1", max_size=30), st.sampled_from([0, SHORT_BYTES]))
def test_a_whole_answer_is_masked_as_a_piece_is(key: str, text: str, filling: int) -> None:
    raw = b"-" * filling + text.encode()
    assert without(key, raw) == KeyMask(key).masked(raw)


def test_without_a_key_everything_passes() -> None:
    mask = KeyMask("")
    assert (mask.masked(b"abc"), mask.feed(b"abc"), mask.finish()) == (b"abc", b"abc", b"")


def test_a_key_that_begins_at_the_second_of_two_likely_places_is_found() -> None:
    mask = KeyMask("ab1-")
    assert [mask.feed(b"xaab"), mask.feed(b"1-y"), mask.finish()] == [b"xa", b"***y", b""]
