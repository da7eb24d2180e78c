"""Circuit breakers: which targets may be called now. No I/O; the clock is a parameter.

A circuit belongs to a provider entry and an upstream model, whichever names callers use for it. It opens after several failures
in a row, or when half of the recent requests failed (conf may change the numbers); while it is open the target gets no requests,
and after that time one request probes the target. When all circuits of a request are open, one request at a time still goes to
the target that is due first.

A caller can make requests that fail at will: a prompt on which the upstream times out, a body on which it crashes. So failures of
one account open the circuit for this account only; failures of two accounts open it for everybody.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import Protocol

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

    `blocked` is the account for which the circuit is open, EVERYBODY for all, None while it is closed. `opened_at` is when it
    opened, `probing_until` when a probe ends at the latest, and `last_failure` the time and the error code of the last failure;
    times are those of the clock.
    """

    __slots__ = (
        "_failed_in_a_row",
        "_open_until",
        "_outcomes",
        "_probe_seconds",
        "blocked",
        "creator",
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
        """Names of conf for metrics: the provider entry, and the model entry that was requested first."""
        self.blocked: str | None = None
        self.opened_at: float | None = None
        self.last_failure: tuple[float, str] | None = None
        self._outcomes: deque[str | None] = deque(maxlen=rules.window)  # the account of a failure, None for a success
        self._failed_in_a_row: Counter[str] = Counter()
        self._open_until = self.probing_until = 0.0
        self._probe_seconds = rules.probe_seconds

    def allows(self, account: str, now: float) -> bool:
        """Whether a request may go to the target now. True for an open circuit reserves the probe: the next call is False."""
        if not self.blocks(account):
            return True
        if not self.would_allow(account, now):
            return False
        self.probing_until = now + self._probe_seconds
        return True

    def take_last_resort(self, now: float) -> bool:
        """Whether a request may go to the target although the circuit is open: True reserves the probe, as `allows` does."""
        if now < self.probing_until:
            return False
        self.probing_until = now + self._probe_seconds
        return True

    @property
    def due_at(self) -> float:
        """When the circuit allows a probe."""
        return self._open_until

    def is_probed(self, now: float) -> bool:
        """Whether a request is probing the target now."""
        return now < self.probing_until

    def expect_recovery(self, now: float) -> None:
        """Something else shows that the target may work again: the next request probes it."""
        self._open_until = min(self._open_until, now)

    def would_allow(self, account: str, now: float) -> bool:
        """What `allows` would return, without reserving the probe."""
        return not self.blocks(account) or (now >= self._open_until and now >= self.probing_until)

    def blocks(self, account: str) -> bool:
        """Whether the circuit is open for an account."""
        return self.blocked is not None and self.blocked in (EVERYBODY, account)

    def is_due(self, now: float) -> bool:
        """Whether the circuit is closed, or its open time is over."""
        return self.blocked is None or now >= self._open_until

    def wait_seconds(self, account: str, now: float) -> float:
        """Seconds until the circuit allows a probe. 0 while a probe runs, because its duration is unknown."""
        return max(0.0, self._open_until - now) if self.blocks(account) else 0.0

    def state(self, account: str, now: float) -> str:
        """``closed``, ``open``, or ``half-open`` when the next request is the probe."""
        if not self.blocks(account):
            return "closed"
        return "half-open" if self.would_allow(account, now) else "open"

    def record_start(self, account: str) -> None:
        """A response has begun. This closes an open circuit; if the response fails later, one failure opens it again."""
        if self.blocks(account):
            self.close()

    def close(self) -> None:
        """Forget the failures: the target works."""
        self._outcomes.clear()
        self.blocked = self.opened_at = None
        self.probing_until = 0.0

    def open(self, blocked: str, until: float, now: float, code: str) -> None:
        """Another process has opened it; if for another account, it is open for everybody."""
        self.blocked = blocked if self.blocked in (None, blocked) else EVERYBODY
        self._open_until = until
        self.probing_until = 0.0
        self.last_failure = (now, code)
        if self.opened_at is None:
            self.opened_at = now

    def record_success(self, account: str) -> None:
        """A response is complete."""
        self.record_start(account)
        self._outcomes.append(None)
        self._failed_in_a_row.clear()

    def record_failure(self, account: str, now: float, rules: CircuitsConfig, code: str = "") -> None:
        """A request of `account` has failed with the error `code`."""
        self.last_failure = (now, code)
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
        """The accounts whose failures open the circuit; empty if there are too few failures."""
        if self._failed_in_a_row.total() >= rules.failures:
            return set(self._failed_in_a_row)
        failures = [account for account in self._outcomes if account is not None]
        size = self._outcomes.maxlen or 0
        if len(self._outcomes) == size and len(failures) >= rules.failure_share * size:
            return set(failures)
        return set()

    def release_probe(self) -> bool:
        """The probe, if there was one, ended without an outcome: the caller left, or its request was refused."""
        was_probed, self.probing_until = self.probing_until > 0, 0.0
        return was_probed


class CircuitBreakers:
    """The circuits of targets that have failed; a target without a failure has none.

    Failures of one account create at most MAX_CIRCUITS_PER_ACCOUNT circuits, and no circuit replaces one that is open.
    `on_forget` gets a circuit that was replaced. `down` are the provider entries whose health checks fail; their circuits only
    let one request at a time through as the last resort. `probes` asks the other processes before a probe.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.rules = DEFAULT_RULES
        self.down: dict[str, Circuit] = {}
        self.on_forget: Callable[[Circuit], None] = lambda _circuit: None
        self.probes: Probes | None = None
        self._circuits: dict[Name, Circuit] = {}
        self._created: Counter[str] = Counter()

    def find(self, target: Target) -> Circuit | None:
        """The circuit of a target; None if it has not failed."""
        return self._circuits.get(target.place) if self._circuits else None

    def is_clear(self, target: Target) -> bool:
        """Return whether nothing is known against a target: it has not failed recently, and no health check has failed."""
        return not (
            (self.down and target.provider in self.down) or (self._circuits and target.place in self._circuits)
        )

    def allows(self, target: Target, account: str) -> bool:
        """Whether a request may go to a target now. True for an open circuit reserves the probe."""
        if self.down and target.provider in self.down:
            return False
        circuit = self.find(target)
        if circuit is None or not circuit.blocks(account):
            return True
        now = self.clock()
        return circuit.allows(account, now) and self._confirm_probe(target.place, circuit, now)

    def _confirm_probe(self, name: Name, circuit: Circuit, now: float) -> bool:
        """Whether no other process probes the target. If one does, the probe that this one has reserved is released."""
        if self.probes is None or self.probes.take_probe(name, now, circuit.probing_until):
            return True
        circuit.release_probe()
        return False

    def would_allow(self, target: Target, account: str) -> bool:
        """What `allows` would return, without reserving the probe."""
        if self.down and target.provider in self.down:
            return False
        circuit = self.find(target)
        return circuit is None or circuit.would_allow(account, self.clock())

    def find_least_bad(self, targets: Iterable[Target]) -> Target | None:
        """Of targets whose circuits are open, the one that is due first; None if each is being probed."""
        now, found = self.clock(), []
        for target in targets:
            down, circuit = self.down.get(target.provider), self.find(target)
            blocking = down or circuit
            if blocking is None or not blocking.is_probed(now):
                found.append((down is not None, 0.0 if circuit is None else circuit.due_at, target))
        return min(found, key=lambda each: each[:2])[2] if found else None

    def take_last_resort(self, target: Target) -> bool:
        """Whether a request may go to a target although its circuit is open; True reserves the probe."""
        down, now = self.down.get(target.provider), self.clock()
        blocking = down or self.find(target)
        if blocking is None:
            return True
        name = target.place if down is None else (target.provider, "")
        return blocking.take_last_resort(now) and self._confirm_probe(name, blocking, now)

    def release_probe(self, target: Target) -> None:
        """An attempt at the target has ended: the next request may probe it."""
        down, circuit = self.down.get(target.provider) if self.down else None, self.find(target)
        for each in (down, circuit):
            if each is not None and each.release_probe() and self.probes is not None:
                self.probes.release_probe(target.place if each is circuit else (target.provider, ""))

    def mark_down(self, provider: str) -> None:
        """The health checks of a provider entry fail."""
        self.down.setdefault(provider, Circuit())

    def mark_up(self, provider: str) -> None:
        """The health checks of a provider entry succeed: its open circuits are due for a probe."""
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
        """Another process has opened the circuit of a target, or has closed it (`blocked` None)."""
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
        """The circuits by provider entry and upstream model."""
        return dict(self._circuits)

    def find_or_create(self, target: Target, account: str) -> Circuit | None:
        """The circuit of a target that `account` saw fail; None if there is no room for a new one."""
        found = self.find(target)
        if found is None and self._make_room(account):
            labels = target.provider, target.model
            found = self._add(target.place, Circuit(account, labels, self.rules))
        return found

    def _add(self, name: Name, circuit: Circuit) -> Circuit:
        self._circuits[name] = circuit
        self._created[circuit.creator] += 1
        return circuit

    def _make_room(self, account: str) -> bool:
        """Forget a circuit that is not open if there are too many, one of `account` if it has too many. False if all are open."""
        has_too_many = self._created[account] >= MAX_CIRCUITS_PER_ACCOUNT
        if not has_too_many and len(self._circuits) < MAX_CIRCUITS:
            return True
        now = self.clock()
        for name, circuit in self._circuits.items():
            if circuit.is_due(now) and (circuit.creator == account or not has_too_many):
                self._forget(name, circuit)
                return True
        return False

    def _forget(self, name: Name, circuit: Circuit) -> None:
        del self._circuits[name]
        self._created[circuit.creator] -= 1
        if not self._created[circuit.creator]:
            del self._created[circuit.creator]
        self.on_forget(circuit)
