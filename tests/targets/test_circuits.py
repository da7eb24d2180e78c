"""Circuits open, are probed by one request, and close; what one account causes closes nothing to others."""

from __future__ import annotations

import pytest

from tornado_gate.config.routing import CircuitsConfig
from tornado_gate.targets import circuits
from tornado_gate.targets.circuits import EVERYBODY, Circuit, CircuitBreakers
from tornado_gate.types import Target

RULES = CircuitsConfig(failures=3, open_seconds=10)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def failing(times: int, *accounts: str) -> tuple[Circuit, Clock]:
    circuit, clock = Circuit(), Clock()
    for number in range(times):
        circuit.record_failure((accounts or ("a",))[number % len(accounts or "a")], clock(), RULES)
    return circuit, clock


def target(model: str = "m", provider: str = "p", entry: str = "entry") -> Target:
    return Target(provider=provider, plugin="x", model=entry, upstream_model=model)


def test_a_circuit_opens_after_several_failures_in_a_row() -> None:
    circuit, clock = failing(2)
    assert circuit.allows("a", clock())
    circuit.record_failure("a", clock(), RULES)
    assert not circuit.allows("a", clock())


def test_a_success_resets_the_count_of_failures() -> None:
    circuit, clock = failing(2)
    circuit.record_success("a")
    circuit.record_failure("a", clock(), RULES)
    assert circuit.allows("a", clock())


def test_a_circuit_opens_when_half_of_the_last_twenty_requests_failed() -> None:
    circuit, clock = failing(0)
    for _ in range(10):
        circuit.record_failure("a", clock(), RULES)
        circuit.record_success("a")
    circuit.record_failure("a", clock(), RULES)
    assert not circuit.allows("a", clock())


def test_one_request_probes_and_its_success_closes_the_circuit() -> None:
    circuit, clock = failing(3)
    clock.now += 10
    assert circuit.allows("a", clock())
    assert not circuit.allows("a", clock())
    circuit.record_success("a")
    assert circuit.allows("a", clock())
    assert circuit.allows("a", clock())


def test_a_failed_probe_opens_the_circuit_again() -> None:
    circuit, clock = failing(3)
    clock.now += 10
    assert circuit.allows("a", clock())
    circuit.record_failure("a", clock(), RULES)
    assert not circuit.allows("a", clock())
    clock.now += 10
    assert circuit.allows("a", clock())


def test_the_begin_of_a_response_closes_the_circuit_and_its_late_failure_opens_it_again() -> None:
    circuit, clock = failing(3)
    clock.now += 10
    assert circuit.allows("a", clock())
    circuit.record_start("a")
    assert circuit.allows("a", clock())
    circuit.record_failure("a", clock(), RULES)
    assert not circuit.allows("a", clock())


def test_responses_that_fail_after_their_begin_open_the_circuit() -> None:
    circuit, clock = failing(0)
    for _ in range(3):
        assert circuit.allows("a", clock())
        circuit.record_start("a")
        circuit.record_failure("a", clock(), RULES)
    assert not circuit.allows("a", clock())


def test_the_next_request_probes_after_the_caller_of_a_probe_disconnected() -> None:
    circuit, clock = failing(3)
    clock.now += 10
    assert circuit.allows("a", clock())
    circuit.release_probe()
    assert circuit.allows("a", clock())


def test_reading_the_state_of_a_circuit_reserves_no_probe() -> None:
    circuit, clock = failing(3)
    assert not circuit.would_allow("a", clock())
    clock.now += 10
    assert [circuit.would_allow("a", clock()) for _ in range(3)] == [True] * 3
    assert circuit.allows("a", clock())
    assert not circuit.would_allow("a", clock())


def test_the_state_and_the_wait_follow_the_clock() -> None:
    circuit, clock = failing(0)
    assert (circuit.state("a", clock()), circuit.wait_seconds("a", clock())) == ("closed", 0)
    circuit, clock = failing(3)
    clock.now += 4
    assert (circuit.state("a", clock()), circuit.wait_seconds("a", clock())) == ("open", 6)
    clock.now += 6
    assert (circuit.state("a", clock()), circuit.wait_seconds("a", clock())) == ("half-open", 0)
    circuit.allows("a", clock())
    assert (circuit.state("a", clock()), circuit.wait_seconds("a", clock())) == ("open", 0)


# Accounts


def test_failures_of_one_account_open_the_circuit_for_this_account_only() -> None:
    circuit, clock = failing(30, "a")
    assert not circuit.allows("a", clock())
    assert all(circuit.allows("b", clock()) for _ in range(5))
    assert (circuit.state("b", clock()), circuit.wait_seconds("b", clock())) == ("closed", 0)


def test_failures_of_two_accounts_open_the_circuit_for_all() -> None:
    circuit, clock = failing(3, "a", "b")
    assert circuit.blocked == EVERYBODY
    assert not any(circuit.allows(account, clock()) for account in "abc")


def test_the_first_failure_of_a_second_account_opens_the_circuit_for_all() -> None:
    circuit, clock = failing(3, "a")
    circuit.record_failure("b", clock(), RULES)
    assert not circuit.allows("c", clock())


def test_successes_of_others_do_not_close_the_circuit_of_an_account_that_fails_half_of_the_time() -> None:
    circuit, clock = failing(0)
    for _ in range(11):
        circuit.record_failure("a", clock(), RULES)
        circuit.record_success("b")
    assert not circuit.allows("a", clock())
    circuit.record_success("b")
    assert not circuit.allows("a", clock())
    assert circuit.allows("b", clock())


def test_a_failed_probe_of_one_account_keeps_the_circuit_open_for_all() -> None:
    circuit, clock = failing(4, "a", "b")
    clock.now += 10
    assert circuit.allows("a", clock())
    circuit.record_failure("a", clock(), RULES)
    assert not circuit.allows("b", clock())


# Many circuits


def test_a_circuit_belongs_to_an_upstream_model_of_a_provider_entry() -> None:
    health = CircuitBreakers(Clock())
    circuit = health.find_or_create(target("m"), "a")
    assert circuit is not None
    assert health.find_circuit(target("m", entry="another name of it")) is circuit
    assert health.find_circuit(target("n")) is None
    assert health.find_circuit(target("m", provider="q")) is None


def open_circuit(health: CircuitBreakers, name: str, *accounts: str) -> Circuit:
    circuit = health.find_or_create(target(name), accounts[0])
    assert circuit is not None
    for number in range(4):
        circuit.record_failure(accounts[number % len(accounts)], health.clock(), RULES)
    return circuit


@pytest.mark.parametrize("limit", ["MAX_CIRCUITS", "MAX_CIRCUITS_PER_ACCOUNT"])
def test_the_number_of_circuits_is_limited(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setattr(circuits, limit, 10)
    health = CircuitBreakers(Clock())
    for number in range(30):
        assert health.find_or_create(target(str(number)), "a") is not None
    assert [health.find_circuit(target(str(number))) is None for number in range(30)] == [True] * 20 + [False] * 10


def test_names_that_an_account_invents_evict_only_its_own_circuits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(circuits, "MAX_CIRCUITS_PER_ACCOUNT", 10)
    health = CircuitBreakers(Clock())
    health.find_or_create(target("of b"), "b")
    for number in range(30):
        health.find_or_create(target(str(number)), "a")
    assert health.find_circuit(target("of b")) is not None


def test_an_open_circuit_is_never_evicted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(circuits, "MAX_CIRCUITS", 3)
    clock = Clock()
    health = CircuitBreakers(clock)
    gone: list[Circuit] = []
    health.on_forget = gone.append
    opened = [open_circuit(health, name, "a", "b") for name in "xyz"]
    assert health.find_or_create(target("new"), "c") is None
    assert [health.find_circuit(target(name)) for name in "xyz"] == opened
    clock.now += 10
    assert health.find_or_create(target("new"), "c") is not None
    assert gone == opened[:1]


class SharedProbes:
    """The probes of all processes: records what this one gives back."""

    def __init__(self, *, is_free: bool) -> None:
        self.is_free = is_free
        self.released: list[tuple[str, str]] = []

    def take_probe(self, name: tuple[str, str], now: float, until: float) -> bool:
        return self.is_free

    def release_probe(self, name: tuple[str, str]) -> None:
        self.released.append(name)


@pytest.mark.parametrize("is_free", [True, False])
def test_a_process_gives_back_only_a_probe_that_it_has(is_free: bool) -> None:
    clock = Clock()
    breakers = CircuitBreakers(clock)
    breakers.rules = RULES
    breakers.probes = probes = SharedProbes(is_free=is_free)
    circuit = breakers.find_or_create(target(), "a")
    assert circuit is not None
    for _ in range(3):
        circuit.record_failure("a", clock(), RULES)
    breakers.release_probe(target())
    assert probes.released == [], "no probe was begun"
    clock.now += 10
    assert breakers.allows(target(), "a") == is_free
    assert probes.released == []
    for _ in range(2):
        breakers.release_probe(target())
        assert probes.released == ([("p", "m")] if is_free else []), "the other process still probes"


def test_a_circuit_says_since_when_it_is_open() -> None:
    circuit, clock = failing(2)
    assert circuit.opened_at is None
    circuit.record_failure("a", clock(), RULES)
    assert circuit.opened_at == 1000.0
    clock.now += 10
    assert circuit.allows("a", clock())
    circuit.record_failure("a", clock(), RULES, "timeout")
    assert (circuit.opened_at, circuit.last_failure) == (1000.0, (1010.0, "timeout")), (
        "a failed probe is no new beginning"
    )
    circuit.open(EVERYBODY, 1030.0, 1020.0, "lost")
    assert (circuit.opened_at, circuit.last_failure) == (1000.0, (1020.0, "lost"))
    circuit.record_success("a")
    assert circuit.opened_at is None
    circuit.open("a", 1050.0, 1040.0, "lost")
    assert circuit.opened_at == 1040.0
