"""Circuits open, are probed by one request, and close."""

from __future__ import annotations

from tornado_gate.config.model import CircuitsConfig
from tornado_gate.gateway.circuits import MAX_CIRCUITS, Circuit, CircuitBreakers

RULES = CircuitsConfig(failures=3, open_seconds=10)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def failing(times: int) -> tuple[Circuit, Clock]:
    circuit, clock = Circuit(), Clock()
    for _ in range(times):
        circuit.record_failure(clock(), RULES)
    return circuit, clock


def test_a_target_is_left_alone_after_failures_in_a_row() -> None:
    circuit, clock = failing(2)
    assert circuit.allows(clock())
    circuit.record_failure(clock(), RULES)
    assert not circuit.allows(clock())


def test_each_target_has_its_own_circuit() -> None:
    health = CircuitBreakers(Clock())
    for _ in range(3):
        health.get_circuit("t").record_failure(health.clock(), RULES)
    assert not health.get_circuit("t").allows(health.clock())
    assert health.get_circuit("another").allows(health.clock())


def test_a_success_in_between_begins_the_count_again() -> None:
    circuit, clock = failing(2)
    circuit.record_success()
    circuit.record_failure(clock(), RULES)
    assert circuit.allows(clock())


def test_half_of_the_last_twenty_failing_opens_too() -> None:
    circuit, clock = failing(0)
    for _ in range(10):
        circuit.record_failure(clock(), RULES)
        circuit.record_success()
    circuit.record_failure(clock(), RULES)
    assert not circuit.allows(clock())


def test_one_request_probes_and_its_success_closes() -> None:
    circuit, clock = failing(3)
    clock.now += 10
    assert circuit.allows(clock())
    assert not circuit.allows(clock())
    circuit.record_success()
    assert circuit.allows(clock())
    assert circuit.allows(clock())


def test_a_failed_probe_opens_again() -> None:
    circuit, clock = failing(3)
    clock.now += 10
    assert circuit.allows(clock())
    circuit.record_failure(clock(), RULES)
    assert not circuit.allows(clock())
    clock.now += 10
    assert circuit.allows(clock())


def test_a_probe_whose_caller_left_gives_the_next_request_a_chance() -> None:
    circuit, clock = failing(3)
    clock.now += 10
    assert circuit.allows(clock())
    circuit.release_probe()
    assert circuit.allows(clock())


def test_looking_at_a_circuit_takes_no_probe() -> None:
    circuit, clock = failing(3)
    assert not circuit.would_allow(clock())
    clock.now += 10
    assert [circuit.would_allow(clock()) for _ in range(3)] == [True] * 3
    assert circuit.allows(clock())
    assert not circuit.would_allow(clock())


def test_the_state_and_the_wait_follow_the_clock() -> None:
    circuit, clock = failing(0)
    assert (circuit.state(clock()), circuit.wait_seconds(clock())) == ("closed", 0)
    circuit, clock = failing(3)
    clock.now += 4
    assert (circuit.state(clock()), circuit.wait_seconds(clock())) == ("open", 6)
    clock.now += 6
    assert (circuit.state(clock()), circuit.wait_seconds(clock())) == ("half-open", 0)
    circuit.allows(clock())
    assert (circuit.state(clock()), circuit.wait_seconds(clock())) == ("open", 0)


def test_circuits_do_not_grow_without_bound() -> None:
    health = CircuitBreakers()
    for number in range(MAX_CIRCUITS + 10):
        health.get_circuit(number)
    assert len(health._circuits) == MAX_CIRCUITS
