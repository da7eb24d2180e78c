"""The sliding window against a list of all requests: never more than the limit in any 60 seconds, and never more than needed."""

from __future__ import annotations

from array import array

from hypothesis import given, settings
from hypothesis import strategies as st

from tornado_gate.admission import counters

STEPS = st.lists(
    st.tuples(
        st.one_of(st.sampled_from([0, 1, 2, 499, 500, 501, 30_000, 59_999, 60_000, 60_500]), st.integers(0, 70_000)),
        st.integers(1, 5),
        st.booleans(),
    ),
    max_size=120,
)
WINDOW, BUCKET = 60_000, counters.BUCKET_MS


def make_slot() -> memoryview:
    return memoryview(array("q", [0] * counters.WORDS))


@settings(max_examples=150, deadline=None)
@given(start=st.integers(0, 10**9), limit=st.integers(1, 20), steps=STEPS)
def test_no_60_seconds_have_more_than_the_limit(start: int, limit: int, steps: list[tuple[int, int, bool]]) -> None:
    words, now, admitted = make_slot(), start, []
    for pause, amount, returns in steps:
        now += pause
        used = counters.advance_window(words, 0, now)
        still = sum(size for moment, size in admitted if now - moment <= WINDOW)
        late = sum(size for moment, size in admitted if now - moment <= WINDOW + BUCKET)
        assert still <= used <= late
        if used + amount > limit:
            check_wait(words, now, used + amount - limit, limit, amount)
            continue
        counters.add_to_window(words, 0, now, amount)
        admitted.append((now, amount))
        if returns:
            counters.take_from_window(words, 0, now, 1)
            admitted[-1] = now, amount - 1
    for moment, _ in admitted:
        assert sum(size for other, size in admitted if moment - WINDOW <= other <= moment) <= limit


def check_wait(words: memoryview, now: int, excess: int, limit: int, amount: int) -> None:
    """What a refused caller is told is at most 60 s, and true: after it the request is admitted if nothing else was."""
    wait = counters.find_wait(words, 0, now, excess)
    assert 0 < wait <= 60
    if amount <= limit:
        later = memoryview(array("q", words.tolist()))
        assert counters.advance_window(later, 0, now + round(wait * 1000) + 1) + amount <= limit
        earlier = memoryview(array("q", words.tolist()))
        assert counters.advance_window(earlier, 0, now + round(wait * 1000) - 2) + amount > limit


def test_a_burst_may_be_repeated_after_60_seconds_and_the_error_says_so() -> None:
    words = make_slot()
    counters.advance_window(words, 0, 1_000_250)
    counters.add_to_window(words, 0, 1_000_250, 3)
    counters.advance_window(words, 0, 1_000_251)
    assert counters.find_wait(words, 0, 1_000_251, 1) == 60.0
    assert counters.advance_window(words, 0, 1_060_250) == 3
    assert counters.advance_window(words, 0, 1_060_251) == 0


def test_a_clock_that_restarted_with_the_machine_begins_a_new_window() -> None:
    words = make_slot()
    counters.advance_window(words, 0, 10**9)
    counters.add_to_window(words, 0, 10**9, 7)
    assert counters.advance_window(words, 0, 5_000) == 0


def test_sums_are_computed_again_after_a_process_died_in_the_middle_of_a_change() -> None:
    words = make_slot()
    words[counters.KIND] = counters.WINDOW
    counters.advance_window(words, 0, 5_000)
    counters.add_to_window(words, 0, 5_000, 7)
    words[counters.TOTAL] = 99
    counters.repair(words, iter([0]))
    assert words[counters.TOTAL] == 7


def test_a_process_that_reads_an_earlier_clock_removes_nothing_until_the_clock_is_a_window_behind() -> None:
    words, now = make_slot(), 1_000_500
    counters.advance_window(words, 0, now)
    counters.add_to_window(words, 0, now, 3)
    assert counters.advance_window(words, 0, now - 1) == 3, "another process was a moment faster"
    assert counters.advance_window(words, 0, now - (counters.RING - 1) * BUCKET) == 3
    assert counters.advance_window(words, 0, now) == 3, "the earlier readings changed nothing"
    assert counters.advance_window(words, 0, now - counters.RING * BUCKET) == 0, "the machine was restarted"


def test_an_amount_counted_by_an_earlier_clock_leaves_with_the_newest_bucket() -> None:
    words, now = make_slot(), 1_000_500
    counters.advance_window(words, 0, now)
    counters.add_to_window(words, 0, now, 3)
    counters.add_to_window(words, 0, now - 1, 2)
    assert counters.advance_window(words, 0, now + WINDOW) == 5
    assert counters.advance_window(words, 0, now + WINDOW + 1) == 0


def test_an_amount_is_taken_back_from_the_oldest_bucket_and_not_from_the_one_before_it() -> None:
    words, now = make_slot(), 1_000_500
    counters.advance_window(words, 0, now)
    counters.add_to_window(words, 0, now, 3)
    last = now + (counters.RING - 1) * BUCKET
    words[counters.NEWEST] = last // BUCKET
    counters.take_from_window(words, 0, now - BUCKET, 1)
    assert words[counters.TOTAL] == 3
    counters.take_from_window(words, 0, now, 1)
    assert words[counters.TOTAL] == 2
