"""Temporary overrides of bounds: until when they count, which of two counts, and what they change."""

from __future__ import annotations

from typing import Any

from tornado_gate.accounts.limit_overrides import Override
from tornado_gate.admission.bounds import make_bound
from tornado_gate.admission.overrides import NO_OVERRIDES, Overrides

NOW = 1000.0
OWN = (make_bound("team", "t", "requests_per_minute", 10), make_bound("team", "t", "usd_per_day", 1.5))


def make_override(**values: Any) -> Override:
    defaults = {"id": "o", "kind": "team", "subject": "t", "bound": "requests_per_minute", "created": 1.0}
    return Override(**{**defaults, "until": NOW + 1, "created_by": "a", **values})


def find(*overrides: Override, now: float = NOW) -> dict[str, float]:
    return dict(Overrides(overrides, now).find_values("team", "t", OWN))


def test_a_value_replaces_a_bound_and_a_factor_multiplies_it() -> None:
    assert find(make_override(value=3)) == {"requests_per_minute": 3}
    assert find(make_override(factor=2.0)) == {"requests_per_minute": 20}
    assert find(make_override(bound="usd_per_day", factor=2.0)) == {"usd_per_day": 3.0}, "dollars, not nano-dollars"
    assert find(make_override(bound="tokens_per_day", value=7)) == {"tokens_per_day": 7}, "conf has no such bound"
    assert find(make_override(bound="tokens_per_day", factor=2.0)) == {}, "there is nothing to multiply"


def test_of_two_for_one_bound_the_later_one_counts() -> None:
    earlier, later = make_override(value=3, created=1.0), make_override(value=5, created=2.0)
    assert find(earlier, later) == find(later, earlier) == {"requests_per_minute": 5}


def test_an_override_concerns_its_subject_only() -> None:
    overrides = Overrides([make_override(value=3)], NOW)
    assert overrides.find_values("team", "other", OWN) == {}
    assert overrides.find_values("user", "t", OWN) == {}
    assert NO_OVERRIDES.find_values("team", "t", OWN) == {}


def test_an_override_ends_at_its_exact_moment() -> None:
    override = make_override(value=3, until=NOW)
    assert find(override, now=NOW - 0.001) == {"requests_per_minute": 3}
    assert find(override, now=NOW) == {}


def test_the_next_end_is_that_of_an_override_that_counts() -> None:
    overrides = Overrides([make_override(value=3, until=until) for until in (NOW, NOW + 20, NOW + 10)], NOW)
    assert overrides.next_end == NOW + 10
    assert overrides.renew(NOW + 10).next_end == NOW + 20
    assert overrides.renew(NOW + 20).next_end is None
    assert overrides.renew(NOW + 20) == NO_OVERRIDES != overrides
