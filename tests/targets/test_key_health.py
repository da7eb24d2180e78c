"""Suspended keys: for how long, for which models, and when the suspensions are removed."""

from __future__ import annotations

import pytest

from tornado_gate.config.routing import CircuitsConfig
from tornado_gate.errors import GateError, UpstreamKeyRefused, UpstreamRateLimited, UpstreamTimeout
from tornado_gate.targets.key_health import MAX_LIMITED_MODELS, MAX_SUSPENSION_SECONDS, KeyHealth, KeySuspension
from tornado_gate.types import Target

RULES = CircuitsConfig(refused_key_seconds=60.0, limited_key_seconds=10.0)
NOW = 1000.0


def make_target(model: str = "m", key: str = "k", provider: str = "p") -> Target:
    return Target(provider=provider, plugin="x", model="entry", upstream_model=model, key=key)


def limited(wait: int | None = None) -> UpstreamRateLimited:
    return UpstreamRateLimited("slow down", headers={} if wait is None else {"Retry-After": str(wait)})


def refused(status: int = 401) -> UpstreamKeyRefused:
    error = UpstreamKeyRefused("no")
    error.upstream_status = status
    return error


@pytest.fixture
def health() -> KeyHealth:
    return KeyHealth()


@pytest.mark.parametrize(
    ("error", "seconds", "seconds_of_other_model"),
    [
        (limited(), 10.0, 0.0),
        (limited(3), 3.0, 0.0),
        (limited(3600), MAX_SUSPENSION_SECONDS, 0.0),
        (limited(3601), MAX_SUSPENSION_SECONDS, 0.0),
        (limited(0), 0.0, 0.0),
        (refused(401), 60.0, 60.0),
        (refused(403), 60.0, 0.0),
        (UpstreamTimeout("late"), 0.0, 0.0),
    ],
)
def test_a_key_is_suspended_for_the_model_or_for_all(
    health: KeyHealth, error: GateError, seconds: float, seconds_of_other_model: float
) -> None:
    assert health.note_failure(make_target(), error, NOW, RULES) == seconds
    assert health.get_wait(make_target(), "k", NOW) == seconds
    assert health.get_wait(make_target("other"), "k", NOW) == seconds_of_other_model
    assert health.get_wait(make_target(), "another key", NOW) == 0.0
    assert health.get_wait(make_target(), "k", NOW + seconds) == 0.0
    assert bool(health.suspensions) == (seconds > 0)


def test_the_only_key_of_an_entry_is_suspended_only_as_long_as_its_upstream_says(health: KeyHealth) -> None:
    only = make_target(key="")
    assert health.note_failure(only, refused(), NOW, RULES) == 0.0
    assert health.note_failure(only, limited(), NOW, RULES) == 0.0
    assert health.note_failure(only, limited(3), NOW, RULES) == 3.0
    assert health.get_wait(only, "", NOW) == 3.0


def test_a_success_ends_the_suspension_of_the_key_and_of_its_model_and_tells_the_others(health: KeyHealth) -> None:
    changes: list[KeySuspension] = []
    for error, model in [(refused(), "m"), (limited(), "m"), (limited(), "other")]:
        health.note_failure(make_target(model), error, NOW, RULES)
    health.on_change = changes.append
    health.note_success(make_target())
    assert [(change.model, change.until) for change in changes] == [("", 0.0), ("m", 0.0)]
    assert health.get_wait(make_target(), "k", NOW) == 0.0
    assert health.get_wait(make_target("other"), "k", NOW) == 10.0
    health.note_success(make_target())
    health.note_success(make_target(key="unknown"))
    assert len(changes) == 2, "nothing has changed"
    health.note_success(make_target("other"))
    assert health.suspensions == {}


def test_a_suspension_that_has_ended_is_removed_when_another_key_fails(health: KeyHealth) -> None:
    health.note_failure(make_target(key="short"), limited(10), NOW, RULES)
    health.note_failure(make_target(key="long"), limited(20), NOW, RULES)
    health.note_failure(make_target(key="new"), limited(), NOW + 10.0, RULES)
    assert {key for _, key in health.suspensions} == {"long", "new"}


def test_the_models_of_a_key_are_bounded_and_the_oldest_leaves(health: KeyHealth) -> None:
    for number in range(MAX_LIMITED_MODELS):
        health.note_failure(make_target(str(number)), limited(), NOW, RULES)
    health.note_failure(make_target("0"), limited(), NOW, RULES)
    assert health.get_wait(make_target("1"), "k", NOW) > 0, "a model that is suspended again takes no room"
    health.note_failure(make_target("new"), limited(), NOW, RULES)
    suspensions = health.get_suspensions("p", "k")
    assert suspensions is not None
    assert len(suspensions.models) == MAX_LIMITED_MODELS
    assert [health.get_wait(make_target(name), "k", NOW) > 0 for name in ("0", "1", "2", "new")] == [
        *(True, False, True, True)
    ]


def test_another_process_tells_what_it_has_found(health: KeyHealth) -> None:
    other = KeyHealth()
    other.on_change = health.adopt
    for error in (refused(), limited()):
        other.note_failure(make_target(), error, NOW, RULES)
    suspensions = health.get_suspensions("p", "k")
    assert suspensions is not None
    assert (suspensions.until, suspensions.models, suspensions.since, suspensions.code) == (
        NOW + 60,
        {"m": NOW + 10},
        NOW,
        UpstreamRateLimited.code,
    )
    other.note_success(make_target())
    assert health.suspensions == {}
    health.adopt(KeySuspension("p", "unknown", "", 0.0, NOW, ""))
    assert health.suspensions == {}


def test_keys_that_conf_has_changed_or_removed_are_not_suspended(health: KeyHealth) -> None:
    for provider, key in [("p", "k"), ("p", "l"), ("q", "k")]:
        health.note_failure(make_target(key=key, provider=provider), limited(), NOW, RULES)
    health.remove_others([("p", "k"), ("q", "k"), ("r", "k")])
    assert set(health.suspensions) == {("p", "k"), ("q", "k")}
    health.remove_providers({"p"})
    assert set(health.suspensions) == {("q", "k")}
