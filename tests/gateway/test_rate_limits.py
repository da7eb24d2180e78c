"""A key's requests and tokens per minute."""

from __future__ import annotations

import pytest

from tornado_gate import types
from tornado_gate.errors import RateLimited
from tornado_gate.gateway.rate_limits import MAX_KEYS, RateLimits, compute_tokens, estimate_prompt_tokens
from tornado_gate.types import Caller, Limits, Usage


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def limits(clock: Clock) -> RateLimits:
    return RateLimits(clock)


def caller(id: str = "k", **limits: int) -> Caller:
    return Caller(id=id, account="a", **limits)


def refused(limits: RateLimits, who: Caller) -> RateLimited:
    with pytest.raises(RateLimited) as caught:
        limits.admit(who)
    return caught.value


def test_requests_up_to_the_limit_pass_and_the_next_is_refused(limits: RateLimits) -> None:
    who = caller(requests_per_minute=3)
    left = [limits.admit(who)["x-ratelimit-remaining-requests"] for _ in range(3)]
    assert left == ["2", "1", "0"]
    error = refused(limits, who)
    assert (error.status, error.code) == (429, "rate_limited")
    assert error.headers["x-ratelimit-limit-requests"] == "3"
    assert "3 requests per minute" in error.message


def test_the_time_told_is_the_time_after_which_it_works(limits: RateLimits, clock: Clock) -> None:
    who = caller(requests_per_minute=4)
    for _ in range(4):
        limits.admit(who)
    clock.now += 20
    for _ in range(5):
        wait = float(refused(limits, who).headers["Retry-After"])
        clock.now += wait + 1
        limits.admit(who)


def test_no_minute_holds_more_than_the_limit(limits: RateLimits, clock: Clock) -> None:
    who, times = caller(requests_per_minute=10), []
    for _ in range(3000):
        clock.now += 0.1
        try:
            limits.admit(who)
        except RateLimited:
            continue
        times.append(clock.now)
    for began in times:
        assert sum(began <= at < began + 60 for at in times) <= 15
    assert len(times) >= 45


def test_tokens_count_when_they_are_known(limits: RateLimits, clock: Clock) -> None:
    who = caller(tokens_per_minute=100)
    limits.admit(who)
    limits.count_tokens(who, 250)
    assert "100 tokens per minute" in refused(limits, who).message
    clock.now += 121
    limits.admit(who)


CHAT = types.Meter(estimate_prompt=lambda: 100)
LEFT = types.replace(CHAT, produced_frames=10, produced_bytes=2400, frame_bytes=200)


@pytest.mark.parametrize(
    ("meter", "tokens"),
    [
        (types.replace(CHAT, usage=Usage(input_tokens=7, output_tokens=5), finish_reason="stop"), 12),
        (types.replace(LEFT, usage=Usage(input_tokens=7, output_tokens=5), finish_reason="stop"), 12),
        (CHAT, 0),  # nothing was produced
        (LEFT, 100 + 400 // 4),
        (types.replace(LEFT, produced_bytes=2000), 100 + 10),  # a frame has a token at least
        (types.replace(LEFT, finish_reason="stop"), 100 + 100),  # left before the usage
        (types.replace(LEFT, usage=Usage(input_tokens=7, output_tokens=1)), 7 + 100),
        (types.replace(LEFT, usage=Usage(input_tokens=7, output_tokens=900)), 7 + 900),
        (types.replace(LEFT, estimate_prompt=None), 0),  # no chat
        (types.Meter(usage=Usage(input_tokens=9)), 9),
    ],
)
def test_a_response_costs_its_usage_or_what_was_produced(meter: types.Meter, tokens: int) -> None:
    assert compute_tokens(meter) == tokens


def test_a_prompt_is_estimated_by_its_text_and_a_file_as_one_image() -> None:
    texts = estimate_prompt_tokens({"messages": [{"role": "user", "content": "word " * 4000}]})
    assert 4900 < texts < 5100
    picture = "data:image/png;base64," + "A" * 4_000_000
    assert 1000 <= estimate_prompt_tokens({"messages": [{"content": [{"image_url": {"url": picture}}]}]}) < 1100


def test_keys_are_counted_apart_and_those_without_a_limit_not_at_all(limits: RateLimits) -> None:
    one, two, free = caller("1", requests_per_minute=1), caller("2", requests_per_minute=1), caller("3")
    limits.admit(one)
    limits.admit(two)
    refused(limits, one)
    assert all(limits.admit(free) == {} for _ in range(100))
    limits.count_tokens(free, 10**9)


def test_windows_do_not_grow_without_bound(limits: RateLimits) -> None:
    for number in range(MAX_KEYS + 5):
        limits.admit(caller(str(number), requests_per_minute=1))
    assert len(limits._windows) == MAX_KEYS


def test_a_key_that_is_in_use_keeps_its_counts_when_others_are_pushed_out(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tornado_gate.gateway.rate_limits.MAX_KEYS", 2)
    limits = RateLimits(clock)
    busy = caller("busy", requests_per_minute=2)
    limits.admit(busy)
    limits.admit(caller("second", requests_per_minute=1))
    limits.admit(busy)
    limits.admit(caller("third", requests_per_minute=1))
    refused(limits, busy)


def test_the_keys_of_a_team_share_its_limits_and_the_lowest_limit_wins(limits: RateLimits, clock: Clock) -> None:
    of_team = Limits(requests_per_minute=3, tokens_per_minute=100)
    one, other = (Caller(id=name, account=name, team="t", team_limits=of_team) for name in "ab")
    narrow = Caller(id="c", account="c", team="t", team_limits=of_team, requests_per_minute=1)
    assert limits.admit(one)["x-ratelimit-remaining-requests"] == "2"
    headers = limits.admit(narrow)
    assert (headers["x-ratelimit-limit-requests"], headers["x-ratelimit-remaining-requests"]) == ("1", "0")
    assert headers["x-ratelimit-limit-tokens"] == "100"
    assert "The limit of this API key is 1 requests per minute" in refused(limits, narrow).message
    limits.admit(other)
    assert "The limit of the team of this API key is 3 requests per minute; 3 are used" in refused(limits, one).message
    assert limits.get_remaining(other)["requests"] == {"limit": 3, "remaining": 0}
    clock.now += 130
    limits.count_tokens(one, 100)
    assert "The limit of the team of this API key is 100 tokens per minute" in refused(limits, other).message
    clock.now += 130
    limits.admit(other)


def test_tokens_are_counted_for_a_team_only_if_it_limits_them(limits: RateLimits) -> None:
    who = Caller(id="a", account="a", team="t", team_limits=Limits(tokens_per_minute=10))
    limits.charge(who, types.Meter(usage=Usage(input_tokens=4, output_tokens=6), finish_reason="stop"))
    assert "team of this API key is 10 tokens per minute; 10 are used" in refused(limits, who).message
