"""The choice of the next target and key of a request: circuits, suspended keys, retries at the same target, and the last resort.

A request tries in this order:

1. the targets whose circuit is closed and that have a usable key. If a failure is about the key, the next key follows. If conf
   has retries, the same target is tried again
2. the targets whose keys are all suspended
3. the target that is due first, one request at a time, if all circuits are open and nothing was tried
"""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from tornado_gate.config.routing import RetriesConfig
from tornado_gate.errors import (
    GateError,
    Unavailable,
    UpstreamConnectTimeout,
    UpstreamError,
    UpstreamLost,
    UpstreamOverloaded,
    UpstreamRateLimited,
    UpstreamUnreachable,
)
from tornado_gate.targets.affinity import Session, rank_name
from tornado_gate.targets.configured_provider import ConfiguredProvider
from tornado_gate.targets.health import TargetHealth
from tornado_gate.targets.object_access import ObjectAccess
from tornado_gate.targets.provider_keys import ProviderKey
from tornado_gate.targets.table import Candidate, TargetTable
from tornado_gate.types import Call, Operation, Target
from tornado_gate.types.value import Value

MAX_KEYS_TRIED: Final = 10
"""The number of keys of one target that a request tries, so that a request that every key refuses does not suspend all keys."""

REPEATABLE: Final = (UpstreamUnreachable, UpstreamConnectTimeout, UpstreamLost, UpstreamOverloaded, UpstreamRateLimited)
"""Failures that may be over a moment later. An UpstreamError with the general code (status 500, 502, …) is another one."""


class Needs(Value, frozen=True):
    """The requirements of a request for its target. `session` is its conversation, for cache affinity.

    `access` are the upstream objects that it names, which limit the targets. `issuer` is the provider entry that issued the
    signatures or the encrypted reasoning in it. Only this entry can read them, so it comes first.
    """

    session: Session | None = None
    access: ObjectAccess | None = None
    issuer: str = ""

    @property
    def keepers(self) -> Collection[str]:
        """Return the provider entries that keep objects for the request. It may use them even if they are drained."""
        kept = self.access.list_keepers() if self.access is not None else ()
        return (*kept, self.issuer) if self.issuer else kept

    @property
    def key(self) -> str:
        """Return the fingerprint of the key that created an object of the request, or ""."""
        return self.access.find_key() if self.access is not None else ""


NO_NEEDS: Final = Needs()


def select_candidates(
    health: TargetHealth, table: TargetTable, call: Call, operations: tuple[Operation, ...], needs: Needs = NO_NEEDS
) -> list[Candidate]:
    """Return the targets of ``call.model`` for a request, in the order in which they are tried while all work.

    Raises the errors of `TargetTable.select_targets` and `ObjectAccess.select_targets`.
    """
    if needs is NO_NEEDS:
        return table.select_targets(call, operations)
    targets = table.select_targets(call, operations, needs.session, needs.keepers)
    if needs.session is not None:
        targets = _order_for_session(health, needs.session, targets)
    if needs.issuer:
        targets = sorted(targets, key=lambda candidate: candidate[0].provider != needs.issuer)
    return targets if needs.access is None else needs.access.select_targets(targets)


def _order_for_session(health: TargetHealth, session: Session, targets: list[Candidate]) -> list[Candidate]:
    """Return the targets; the one to which the conversation has moved comes first."""
    session.home = targets[0][0].place
    moved = health.moved_sessions
    name = moved.find_target(session, health.circuits.clock()) if len(moved) else None
    if name is None or name in session.full:
        return targets
    return sorted(targets, key=lambda candidate: candidate[0].place != name)


def note_place(health: TargetHealth, session: Session, target: Target) -> None:
    """Record that `target` served a conversation. If a target was full, the conversation has not moved."""
    if session.full:
        return
    name = target.place
    health.moved_sessions.record(session, name, health.circuits.clock(), is_first=name == session.home)


class Candidates:
    """The targets of one request, one after the other. Each step of the loop yields the next one after a retryable failure.

    The caller of the loop sets `failure` to the error of the last attempt, and waits `pause` seconds before the next one.
    """

    __slots__ = ("_account", "_ends_at", "_health", "_needs", "_table", "_targets", "failure", "pause")

    def __init__(
        self,
        health: TargetHealth,
        table: TargetTable,
        account: str,
        targets: Sequence[Candidate],
        needs: Needs = NO_NEEDS,
    ) -> None:
        self._health = health
        self._table = table
        self._account = account
        self._targets = targets
        self._needs = needs
        self.failure: GateError | None = None
        self.pause = 0.0
        self._ends_at = 0.0

    def __iter__(self) -> Iterator[Candidate]:
        account = self._account
        health, keys = self._health.circuits, self._health.keys
        retries = self._table.retries
        suspended: list[Candidate] = []
        has_tried = False
        for target, provider in self._targets:
            if keys.suspensions and self._get_wait((target, provider)) > 0:
                suspended.append((target, provider))
            elif health.allows(target, account):
                has_tried = True
                if provider.keys or target.model in retries:
                    yield from self._try_keys(target, provider)
                else:
                    yield target, provider
        for target, provider in sorted(suspended, key=self._get_wait) if suspended else ():
            if health.allows(target, account):
                has_tried = True
                yield self._apply_first_usable_key(target, provider), provider
        if not has_tried:
            yield from self._try_last_resort()

    def peek(self) -> Candidate | None:
        """Return the first candidate; None if every circuit is open. Reserves no probe and changes nothing."""
        suspended: list[Candidate] = []
        for target, provider in self._targets:
            if self._health.circuits.would_allow(target, self._account):
                if not self._health.keys.suspensions or not self._get_wait((target, provider)):
                    return self._apply_first_key(target, provider), provider
                suspended.append((target, provider))
        if not suspended:
            return None
        target, provider = min(suspended, key=self._get_wait)
        return self._apply_first_usable_key(target, provider), provider

    # Keys

    def _get_wait(self, candidate: Candidate) -> float:
        """Return the seconds until a key of the target may be used."""
        target, provider = candidate
        keys, now = self._health.keys, self._health.circuits.clock()
        if not provider.keys:
            return keys.get_wait(target, "", now)
        return min(keys.get_wait(target, key.fingerprint, now) for key in provider.keys)

    def _try_keys(self, target: Target, provider: ConfiguredProvider) -> Iterator[Candidate]:
        """Yield the target with each of its usable keys, until a failure is not about the key."""
        if not provider.keys:
            yield from self._repeat(target, provider)
            return
        health, clock = self._health.keys, self._health.circuits.clock
        for key in self._order_keys(target, provider)[:MAX_KEYS_TRIED]:
            yield from self._repeat(key.apply(target), provider)
            if not health.get_wait(target, key.fingerprint, clock()):
                return  # another key would fail too

    def _order_keys(
        self, target: Target, provider: ConfiguredProvider, *, take_turn: bool = True
    ) -> Sequence[ProviderKey]:
        """Return the usable keys: in the order of the conversation, or rotated by one for each request without a conversation.

        The key that created an object of the request comes first.
        """
        keys = provider.keys
        if self._health.keys.suspensions:
            now = self._health.circuits.clock()
            keys = tuple(key for key in keys if not self._health.keys.get_wait(target, key.fingerprint, now))
        session, object_key = self._needs.session, self._needs.key
        if session is not None:
            digest = session.digest
            keys = tuple(sorted(keys, key=lambda key: rank_name(digest, key.fingerprint)))
        else:
            turns, name = self._health.key_turns, provider.entry.name
            first = turns.get(name, 0) % len(keys)
            keys = keys[first:] + keys[:first]
            if take_turn:
                turns[name] = first + 1
        if object_key:
            return sorted(keys, key=lambda key: key.fingerprint != object_key)
        return keys

    def _apply_first_key(self, target: Target, provider: ConfiguredProvider) -> Target:
        if not provider.keys:
            return target
        keys = self._order_keys(target, provider, take_turn=False)
        return keys[0].apply(target) if keys else target

    def _apply_first_usable_key(self, target: Target, provider: ConfiguredProvider) -> Target:
        """Return the target with the key whose suspension ends first."""
        if not provider.keys:
            return target
        health, now = self._health.keys, self._health.circuits.clock()
        return min(provider.keys, key=lambda key: health.get_wait(target, key.fingerprint, now)).apply(target)

    # Retries

    def _repeat(self, target: Target, provider: ConfiguredProvider) -> Iterator[Candidate]:
        """Yield the target, and again after failures that may be over a moment later, within the budget of conf."""
        rules = self._table.retries.get(target.model)
        if rules is None:
            yield target, provider
            return
        if not self._ends_at:
            self._ends_at = self._health.circuits.clock() + target.timeouts.total
        load = self._table.loads.find_load(target)
        yield target, provider
        for number in range(rules.same_target):
            wait = self._find_retry_wait(target, rules, number)
            if wait is None or load.retries >= max(rules.budget.minimum, rules.budget.share * load.in_flight):
                return
            load.retries += 1
            self.pause = wait
            try:
                yield target, provider
            finally:
                load.retries -= 1
                self.pause = 0.0

    def _find_retry_wait(self, target: Target, rules: RetriesConfig, number: int) -> float | None:
        """Return the seconds before retry `number`; None if the last failure, the circuit or the time does not allow one."""
        failure, circuits = self.failure, self._health.circuits
        if failure is None or not is_repeatable(failure) or not circuits.would_allow(target, self._account):
            return None
        retry_after = failure.retry_after or 0.0
        if retry_after > rules.max_wait_seconds or (retry_after and target.key):  # another key need not wait
            return None
        backoff = min(rules.max_wait_seconds, rules.backoff_seconds * 2**number) * random.uniform(0.5, 1.0)
        wait = max(retry_after, backoff)
        return wait if circuits.clock() + wait < self._ends_at else None

    # The last resort

    def _try_last_resort(self) -> Iterator[Candidate]:
        circuits = self._health.circuits
        target = circuits.find_least_bad(target for target, _ in self._targets)
        if target is None or not circuits.take_last_resort(target):
            return
        provider = next(provider for candidate, provider in self._targets if candidate is target)
        yield self._apply_first_usable_key(target, provider), provider
        if self.failure is not None:
            self.failure = None  # the caller gets the error with the time at which a circuit allows a probe

    def find_last_resort(self) -> Candidate | None:
        """Return the target that would be the last resort. Reserves no probe."""
        target = self._health.circuits.find_least_bad(target for target, _ in self._targets)
        return next((candidate for candidate in self._targets if candidate[0] is target), None)


def choose_target(
    health: TargetHealth, table: TargetTable, call: Call, targets: Sequence[Candidate], needs: Needs = NO_NEEDS
) -> Candidate:
    """Return the target that a request would try first. Sends and counts nothing and changes no circuit.

    Used for video tasks, which start later. A task is not accepted as the last resort: raises Unavailable when every circuit is
    open.
    """
    candidate = Candidates(health, table, call.caller.account, targets, needs).peek()
    if candidate is None:
        raise make_unavailable(health, call, targets)
    return candidate


def is_repeatable(error: GateError) -> bool:
    """Return whether the same request may succeed at the same target a moment later."""
    return isinstance(error, REPEATABLE) or (type(error) is UpstreamError and error.code == UpstreamError.code)


def make_unavailable(health: TargetHealth, call: Call, targets: Sequence[Candidate]) -> Unavailable:
    """Return the error for a request whose targets all have an open circuit."""
    now, waits = health.circuits.clock(), []
    for target, _ in targets:
        circuit = health.circuits.find_circuit(target)
        if circuit is not None:
            waits.append(circuit.wait_seconds(call.caller.account, now))
    seconds = max(1, math.ceil(min(waits, default=0.0)))
    message = f"All targets of model '{call.model}' are unavailable. Retry after {seconds} s."
    return Unavailable(message, headers={"Retry-After": str(seconds)})
