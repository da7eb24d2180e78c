"""Circuit breakers: which targets may be called now. No I/O; the clock is a parameter.

A circuit belongs to a provider entry and an upstream model, independent of the names that callers use for it. It opens after
several failures in a row, or when half of the recent requests failed (conf may change the numbers). While it is open the target
gets no requests. After that time one request probes the target. When all circuits of a request are open, one request at a time
still goes to the target that is due first.

A caller can send requests that fail on purpose: a prompt on which the upstream times out, a body on which it crashes. So failures
of one account open the circuit for this account only; failures of two accounts open it for all.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from tornado_gate.config.routing import CircuitsConfig
from tornado_gate.types import Target

MAX_CIRCUITS = 10_000
MAX_CIRCUITS_PER_ACCOUNT = 500
"""The number of circuits that one account's failures can create: a wildcard entry accepts any name of a model."""
EVERYBODY = ""
DEFAULT_RULES = CircuitsConfig()

Name = tuple[str, str]
"""A provider entry and an upstream model."""


class Probes(Protocol):
    """Lets one process of the machine probe a target."""

    def take_probe(self, name: Name, now: float, until: float) -> bool: ...
    def release_probe(self, name: Name) -> None: ...


class Circuit:
    """The recent outcomes of one target, and whether an account may call it. `creator` is the account that failed first.

    `blocked` is the account for which the circuit is open, EVERYBODY for all, None while it is closed. `opened_at` is the time at
    which it opened, and `probing_until` the latest end of a probe. `last_failure` is the time and the error code of the last
    failure. `is_failing`: no request has succeeded since then. All times are seconds of the clock.
    """

    __slots__ = (
        "_failed_in_a_row",
        "_open_until",
        "_outcomes",
        "_probe_seconds",
        "blocked",
        "creator",
        "is_failing",
        "labels",
        "last_failure",
        "opened_at",
        "probing_until",
    )

    def __init__(
        self, creator: str = "", labels: tuple[str, str] = ("", ""), rules: CircuitsConfig = DEFAULT_RULES
    ) -> None:
        self.creator = creator
        self.labels = labels
        """Names of conf for metrics: the provider entry, and the model entry of the first request that failed."""
        self.blocked: str | None = None
        self.opened_at: float | None = None
        self.last_failure: tuple[float, str] | None = None
        self.is_failing = False
        self._outcomes: deque[str | None] = deque(maxlen=rules.window)  # the account of a failure, None for a success
        self._failed_in_a_row: Counter[str] = Counter()
        self._open_until = self.probing_until = 0.0
        self._probe_seconds = rules.probe_seconds

    def allows(self, account: str, now: float) -> bool:
        """Return whether a request may go to the target now. For an open circuit, True reserves the probe: the next call returns
        False.
        """
        if not self.blocks(account):
            return True
        if not self.would_allow(account, now):
            return False
        self.probing_until = now + self._probe_seconds
        return True

    def take_last_resort(self, now: float) -> bool:
        """Return whether a request may go to the target although the circuit is open. True reserves the probe, like `allows`."""
        if now < self.probing_until:
            return False
        self.probing_until = now + self._probe_seconds
        return True

    @property
    def due_at(self) -> float:
        """Return the time at which the circuit allows a probe."""
        return self._open_until

    def is_probed(self, now: float) -> bool:
        """Return whether a request is probing the target now."""
        return now < self.probing_until

    def expect_recovery(self, now: float) -> None:
        """Let the next request probe the target, because a health check shows that it may work again."""
        self._open_until = min(self._open_until, now)

    def would_allow(self, account: str, now: float) -> bool:
        """Return the result of `allows`, without reserving the probe."""
        return not self.blocks(account) or (now >= self._open_until and now >= self.probing_until)

    def blocks(self, account: str) -> bool:
        """Return whether the circuit is open for an account."""
        return self.blocked is not None and self.blocked in (EVERYBODY, account)

    def is_due(self, now: float) -> bool:
        """Return whether the circuit is closed, or its open time is over."""
        return self.blocked is None or now >= self._open_until

    def wait_seconds(self, account: str, now: float) -> float:
        """Return the seconds until the circuit allows a probe; 0 while a probe runs, because its duration is unknown."""
        return max(0.0, self._open_until - now) if self.blocks(account) else 0.0

    def state(self, account: str, now: float) -> str:
        """Return ``closed``, ``open``, or ``half-open`` when the next request is the probe."""
        if not self.blocks(account):
            return "closed"
        return "half-open" if self.would_allow(account, now) else "open"

    def record_start(self, account: str) -> None:
        """Record that a response has begun. This closes an open circuit."""
        if self.blocks(account):
            self.close()

    def close(self) -> None:
        """Close the circuit and delete its failures, because the target works."""
        self._outcomes.clear()
        self.blocked = self.opened_at = None
        self.is_failing = False
        self.probing_until = 0.0

    def open(self, blocked: str, until: float, now: float, code: str) -> None:
        """Open the circuit, because another process has. If it did so for another account, the circuit is open for all."""
        self.blocked = blocked if self.blocked in (None, blocked) else EVERYBODY
        self._open_until = until
        self.probing_until = 0.0
        self.last_failure = (now, code)
        self.is_failing = True
        if self.opened_at is None:
            self.opened_at = now

    def record_success(self, account: str) -> None:
        """Record that a response is complete."""
        self.record_start(account)
        self._outcomes.append(None)
        self._failed_in_a_row.clear()
        self.is_failing = False

    def record_failure(self, account: str, now: float, rules: CircuitsConfig, code: str = "") -> None:
        """Record that a request of `account` has failed with the error `code`."""
        self.last_failure = (now, code)
        self.is_failing = True
        self._outcomes.append(account)
        self._failed_in_a_row[account] += 1
        culprits = self._find_culprits(rules)
        if culprits:
            only = self.blocked != EVERYBODY and len(culprits) == 1
            self.blocked = account if only else EVERYBODY
            self._open_until = now + rules.open_seconds
            if self.opened_at is None:
                self.opened_at = now
        self.probing_until = 0.0

    def _find_culprits(self, rules: CircuitsConfig) -> set[str]:
        """Return the accounts whose failures open the circuit; empty if there are too few failures."""
        if self._failed_in_a_row.total() >= rules.failures:
            return set(self._failed_in_a_row)
        failures = [account for account in self._outcomes if account is not None]
        size = self._outcomes.maxlen or 0
        if len(self._outcomes) == size and len(failures) >= rules.failure_share * size:
            return set(failures)
        return set()

    def release_probe(self) -> bool:
        """Release the probe, which ended without an outcome, and return whether there was one.

        A probe has no outcome if its caller disconnected or the upstream rejected its request.
        """
        was_probed, self.probing_until = self.probing_until > 0, 0.0
        return was_probed


class CircuitBreakers:
    """The circuits of targets that have failed.

    Failures of one account create at most MAX_CIRCUITS_PER_ACCOUNT circuits. An open circuit is never removed for a new one.
    `on_forget` is called with a circuit that was replaced. `down` are the provider entries whose health checks fail; their
    circuits only allow one request at a time, as the last resort. `probes` prevents a probe while another process probes.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.rules = DEFAULT_RULES
        self.down: dict[str, Circuit] = {}
        self.on_forget: Callable[[Circuit], None] = lambda _circuit: None
        self.probes: Probes | None = None
        self._circuits: dict[Name, Circuit] = {}
        self._created: Counter[str] = Counter()

    def find_circuit(self, target: Target) -> Circuit | None:
        """Return the circuit of a target; None if it has not failed."""
        return self._circuits.get(target.place) if self._circuits else None

    def is_clear(self, target: Target) -> bool:
        """Return whether nothing is known against a target: it has not failed recently, and no health check has failed."""
        return not ((self.down and target.provider in self.down) or (self._circuits and target.place in self._circuits))

    def are_clear(self, candidates: Iterable[tuple[Target, Any]]) -> bool:
        """Return whether `is_clear` holds for the targets of all candidates."""
        return not (self.down or self._circuits) or all(self.is_clear(target) for target, _ in candidates)

    def allows(self, target: Target, account: str) -> bool:
        """Return whether a request may go to a target now. For an open circuit, True reserves the probe."""
        if self.down and target.provider in self.down:
            return False
        circuit = self.find_circuit(target)
        if circuit is None or not circuit.blocks(account):
            return True
        now = self.clock()
        return circuit.allows(account, now) and self._confirm_probe(target.place, circuit, now)

    def _confirm_probe(self, name: Name, circuit: Circuit, now: float) -> bool:
        """Return whether no other process probes the target. If another does, release this process's reservation."""
        if self.probes is None or self.probes.take_probe(name, now, circuit.probing_until):
            return True
        circuit.release_probe()
        return False

    def would_allow(self, target: Target, account: str) -> bool:
        """Return the result of `allows`, without reserving the probe."""
        if self.down and target.provider in self.down:
            return False
        circuit = self.find_circuit(target)
        return circuit is None or circuit.would_allow(account, self.clock())

    def find_least_bad(self, targets: Iterable[Target]) -> Target | None:
        """Return the target that is due first, of targets with open circuits; None if all are being probed."""
        now, available = self.clock(), []
        for target in targets:
            down, circuit = self.down.get(target.provider), self.find_circuit(target)
            blocking = down or circuit
            if blocking is None or not blocking.is_probed(now):
                available.append((down is not None, 0.0 if circuit is None else circuit.due_at, target))
        return min(available, key=lambda entry: entry[:2])[2] if available else None

    def take_last_resort(self, target: Target) -> bool:
        """Return whether a request may go to a target although its circuit is open. True reserves the probe."""
        down, now = self.down.get(target.provider), self.clock()
        blocking = down or self.find_circuit(target)
        if blocking is None:
            return True
        name = target.place if down is None else (target.provider, "")
        return blocking.take_last_resort(now) and self._confirm_probe(name, blocking, now)

    def release_probe(self, target: Target) -> None:
        """Release the probe of an attempt that has ended, so that the next request may probe the target."""
        down, circuit = self.down.get(target.provider) if self.down else None, self.find_circuit(target)
        for each in (down, circuit):
            if each is not None and each.release_probe() and self.probes is not None:
                self.probes.release_probe(target.place if each is circuit else (target.provider, ""))

    def mark_down(self, provider: str) -> None:
        """Mark a provider entry whose health checks fail."""
        self.down.setdefault(provider, Circuit())

    def mark_up(self, provider: str) -> None:
        """Unmark a provider entry whose health checks succeed, and make its open circuits due for a probe."""
        self.down.pop(provider, None)
        now = self.clock()
        for (name, _), circuit in self._circuits.items():
            if name == provider:
                circuit.expect_recovery(now)

    def is_open(self, name: Name) -> bool:
        circuit = self._circuits.get(name)
        return circuit is not None and circuit.blocked is not None

    def adopt(
        self,
        name: Name,
        labels: tuple[str, str],
        creator: str,
        blocked: str | None,
        until: float,
        code: str,
        now: float,
    ) -> None:
        """Open the circuit of a target, or close it (`blocked` None), as another process has done."""
        circuit = self._circuits.get(name)
        if blocked is None:
            if circuit is not None:
                circuit.close()
            return
        if circuit is None and self._make_room(creator):
            circuit = self._add(name, Circuit(creator, labels, self.rules))
        if circuit is not None:
            circuit.open(blocked, min(until, now + self.rules.open_seconds), now, code)

    def list_all(self) -> dict[Name, Circuit]:
        """Return the circuits by provider entry and upstream model."""
        return dict(self._circuits)

    def find_or_create(self, target: Target, account: str) -> Circuit | None:
        """Return the circuit of a target at which a request of `account` failed; None if there is no room for a new one."""
        circuit = self.find_circuit(target)
        if circuit is None and self._make_room(account):
            labels = target.provider, target.model
            circuit = self._add(target.place, Circuit(account, labels, self.rules))
        return circuit

    def _add(self, name: Name, circuit: Circuit) -> Circuit:
        self._circuits[name] = circuit
        self._created[circuit.creator] += 1
        return circuit

    def _make_room(self, account: str) -> bool:
        """Make room for a circuit of `account`, and return whether there is room.

        If there are too many circuits, a circuit that is not open is removed; a circuit of the account, if it has too many.
        """
        has_too_many = self._created[account] >= MAX_CIRCUITS_PER_ACCOUNT
        if not has_too_many and len(self._circuits) < MAX_CIRCUITS:
            return True
        now = self.clock()
        for name, circuit in self._circuits.items():
            if circuit.is_due(now) and (circuit.creator == account or not has_too_many):
                self._remove(name, circuit)
                return True
        return False

    def _remove(self, name: Name, circuit: Circuit) -> None:
        del self._circuits[name]
        self._created[circuit.creator] -= 1
        if not self._created[circuit.creator]:
            del self._created[circuit.creator]
        self.on_forget(circuit)
