"""Durations and moments, as people write them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornado_gate.codec.durations import parse_duration, parse_moment

DAY = 86_400


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("5m", 300),
        ("2h", 7200),
        ("30d", 30 * DAY),
        ("1w", 7 * DAY),
        ("1.5h", 5400),
        (" 1D ", DAY),
        ("5 m", 300),
        ("0s", 0),
    ],
)
def test_durations_become_seconds(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    ["", "30", "d", "30 days", "-3d", "+3d", "1e3s", "5M", "1y", "3mo", "٣d", "1h30m", ".5h", "5.h", "9" * 10 + "s"],
)
def test_what_is_no_duration_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration such as 90s, 5m, 2h, 30d or 1w"):
        parse_duration(text)


def test_durations_and_dates_become_moments() -> None:
    assert parse_moment("30d", now=1000) == 1000 + 30 * DAY
    assert parse_moment("2w", now=0) == 14 * DAY
    assert parse_moment("2027-01-01", now=0) == 1_798_761_600
    assert parse_moment("2027-01-01T01:00:00+01:00", now=0) == 1_798_761_600


@pytest.mark.parametrize("text", ["", "30", "soon", "2027-13-01", "5M", "2027-01-01\x00", "x" * 10_000])
def test_what_is_neither_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match=r"neither a duration such as 90s, .* nor a date such as 2027-01-01") as caught:
        parse_moment(text)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(("text", "words"), [("0d", "not in the future"), ("2001-01-01", "not in the future")])
def test_a_moment_that_has_passed_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_moment(text)


def test_a_moment_after_the_last_date_is_refused() -> None:
    with pytest.raises(ValueError, match="after the year 9999"):
        parse_moment("999999999w")


@given(st.text(max_size=30))
def test_any_text_is_a_duration_or_a_value_error(text: str) -> None:
    try:
        seconds = parse_duration(text)
    except ValueError:
        return
    assert 0 <= seconds < math.inf


@given(st.one_of(st.text(max_size=30), st.dates().map(str), st.datetimes(timezones=st.timezones()).map(str)))
def test_any_text_is_a_moment_in_the_future_or_a_value_error(text: str) -> None:
    try:
        moment = parse_moment(text, now=1_700_000_000.0)
    except ValueError:
        return
    assert 1_700_000_000.0 < moment < 253_402_300_800.0
