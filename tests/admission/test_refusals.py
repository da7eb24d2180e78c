"""The error of a request that a bound refuses, and the headers with what remains."""

from __future__ import annotations

import pytest

from tornado_gate.admission.bounds import make_bound
from tornado_gate.admission.refusals import find_lowest, format_duration, make_refusal, render_headers
from tornado_gate.admission.store import Level
from tornado_gate.types import Bound, LimitLevel, LimitLevels

NOW = 1_764_288_000.0
"""2025-11-28T00:00:00Z"""
REQUESTS = make_bound("key", "k", "requests_per_minute", 10)
TOKENS = make_bound("team", "t", "tokens_per_minute", 100)
OPEN = make_bound("user", "u", "concurrent_requests", 2)
MONEY = make_bound("model", "m", "usd_per_day", 1.5)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0ms"),
        (0.0121, "13ms"),
        (0.999, "999ms"),
        (1.0, "1s"),
        (7.66, "7.66s"),
        (10.0, "10s"),
        (59.9999, "1m0s"),
        (60.0, "1m0s"),
        (360.0, "6m0s"),
        (3599.0, "59m59s"),
        (3600.0, "1h0m0s"),
        (3723.5, "1h2m3.5s"),
    ],
)
def test_a_duration_is_rounded_up_and_has_the_units_that_it_needs(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_the_limit_with_the_least_left_is_told() -> None:
    levels = [
        Level(REQUESTS, 4, reset=9.0),
        Level(make_bound("team", "t", "requests_per_minute", 5), 1, reset=8.0),
        Level(make_bound("user", "u", "requests_per_minute", 50), 1, reset=7.0),
        Level(TOKENS, 130, wait=6.0),
        Level(OPEN, 2),
        Level(MONEY, 1),
    ]
    lowest = find_lowest(levels)
    assert lowest == LimitLevels(LimitLevel(5, 4, 8.0), LimitLevel(100, 0, 6.0))
    assert find_lowest([Level(REQUESTS, 9, reset=9.0)], lowest) == LimitLevels(LimitLevel(10, 1, 9.0), lowest.tokens)
    assert find_lowest([Level(REQUESTS, 6, reset=9.0)], lowest) == lowest, "the same is left: the first is told"
    assert render_headers(lowest) == {
        "x-ratelimit-limit-requests": "5",
        "x-ratelimit-remaining-requests": "4",
        "x-ratelimit-reset-requests": "8s",
        "x-ratelimit-limit-tokens": "100",
        "x-ratelimit-remaining-tokens": "0",
        "x-ratelimit-reset-tokens": "6s",
    }
    assert render_headers(LimitLevels()) == {}


def refuse(*levels: Level, **amounts: int) -> tuple[str, str | None, float | None, bool]:
    """The message, code and wait of the error, and whether it says that repeating the request is useless."""
    amount_of: dict[Bound, int] = {level.bound: amounts.get(level.bound.name, 1) for level in levels}
    error = make_refusal(levels, amount_of, NOW)
    return error.message, error.code, error.retry_after, error.headers.get("x-should-retry") == "false"


def test_a_refusal_names_the_subject_the_bound_and_the_wait() -> None:
    assert refuse(Level(REQUESTS, 10, 2.1)) == (
        "The API key 'k' may use 10 requests per minute; 10 are used. Retry after 3 s.",
        "rate_limited",
        3,
        False,
    )
    assert refuse(Level(TOKENS, 70, 2.0), tokens_per_minute=31)[0] == (
        "The team 't' of this API key may use 100 tokens per minute; 70 are used, and the request may use 31. "
        "Retry after 2 s."
    )
    message, code, wait, _ = refuse(Level(OPEN, 2, 0.2))
    assert message.startswith("The user 'u' of this API key may have 2 concurrent requests; 2 are open")
    assert (code, wait) == ("too_many_concurrent", 1)


def test_a_budget_that_is_used_up_says_when_it_starts_again() -> None:
    message, code, wait, _ = refuse(Level(MONEY, 1_000_000_000, 3600.0), usd_per_day=600_000_000)
    assert message == (
        "The budget of the model 'm' does not allow this: usd_per_day is $1.5, $1 are used or in use, and the "
        "request may use $0.6. The budget starts again at 2025-11-28T01:00:00Z."
    )
    assert (code, wait) == ("budget_exceeded", 3600.0)


@pytest.mark.parametrize(("amount", "is_impossible"), [(100, False), (101, True)])
def test_only_a_request_above_the_whole_bound_is_told_not_to_come_back(amount: int, is_impossible: bool) -> None:
    message, *_, told_impossible = refuse(Level(TOKENS, 1, 2.0), tokens_per_minute=amount)
    assert told_impossible == is_impossible
    assert message.endswith("Send a smaller request." if is_impossible else "Retry after 2 s.")


def test_of_several_bounds_the_one_that_can_never_be_met_is_named_and_else_the_longest_wait() -> None:
    short, long = Level(REQUESTS, 10, 2.0), Level(TOKENS, 99, 50.0)
    assert "team 't'" in refuse(short, long, tokens_per_minute=5)[0]
    assert "API key 'k'" in refuse(short, long, requests_per_minute=11, tokens_per_minute=5)[0]
