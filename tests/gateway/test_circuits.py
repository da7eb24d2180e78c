"""Circuits open, are probed by one request, and close; retries have a budget."""

from __future__ import annotations

from tornado_gate.config.model import Circuits
from tornado_gate.gateway.circuits import MAX_CIRCUITS, Health

RULES = Circuits(failures=3, open_seconds=10)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def failing(times: int) -> tuple[Health, Clock]:
    clock = Clock()
    health = Health(clock)
    for _ in range(times):
        health.failed("t", RULES)
    return health, clock


def test_a_target_is_left_alone_after_failures_in_a_row() -> None:
    health, _ = failing(2)
    assert health.allows("t")
    health.failed("t", RULES)
    assert not health.allows("t")
    assert health.allows("another")


def test_a_success_in_between_begins_the_count_again() -> None:
    health, _ = failing(2)
    health.succeeded("t")
    health.failed("t", RULES)
    assert health.allows("t")


def test_half_of_the_last_twenty_failing_opens_too() -> None:
    health, _ = failing(0)
    for _ in range(10):
        health.failed("t", RULES)
        health.succeeded("t")
    health.failed("t", RULES)
    assert not health.allows("t")


def test_one_request_probes_and_its_success_closes() -> None:
    health, clock = failing(3)
    clock.now += 10
    assert health.allows("t")
    assert not health.allows("t")
    health.succeeded("t")
    assert health.allows("t")
    assert health.allows("t")


def test_a_failed_probe_opens_again() -> None:
    health, clock = failing(3)
    clock.now += 10
    assert health.allows("t")
    health.failed("t", RULES)
    assert not health.allows("t")
    clock.now += 10
    assert health.allows("t")


def test_a_probe_whose_caller_left_gives_the_next_request_a_chance() -> None:
    health, clock = failing(3)
    clock.now += 10
    assert health.allows("t")
    health.released("t")
    assert health.allows("t")


def test_retries_end_when_their_budget_is_spent_and_requests_fill_it() -> None:
    health, _ = failing(0)
    granted = sum(health.may_retry() for _ in range(100))
    assert granted == 10
    for _ in range(6):
        health.request_began()
    assert health.may_retry()
    assert not health.may_retry()


def test_circuits_do_not_grow_without_bound() -> None:
    health, _ = failing(0)
    for number in range(MAX_CIRCUITS + 10):
        health.allows(number)
    assert len(health._circuits) == MAX_CIRCUITS
