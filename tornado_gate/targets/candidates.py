"""Which target and key a request tries next: circuits, keys at rest, retries at the same target, and the last resort.

In this order:

1. the targets whose circuit is closed and of which a key is not at rest, each with one key after the other while failures are
   about the key, and again if conf has retries
2. targets all of whose keys are at rest
3. if nothing was tried, because all circuits are open: the target that is due first, one request at a time
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
"""The number of keys of one target that a request tries: a request that every key refuses must not use all of them up."""

REPEATABLE: Final = (UpstreamUnreachable, UpstreamConnectTimeout, UpstreamLost, UpstreamOverloaded, UpstreamRateLimited)
"""Failures that may be over a moment later, besides an UpstreamError without a code of its own (status 500, 502, …)."""


class Needs(Value, frozen=True):
    """What a request asks of its target. `session`: the conversation that it belongs to, for cache affinity.

    `access`: the upstream objects that it names, which limit the targets. `issuer`: the provider entry that issued signatures or
    encrypted reasoning in it, which only that one can read: it comes first.
    """

    session: Session | None = None
    access: ObjectAccess | None = None
    issuer: str = ""

    @property
    def keepers(self) -> Collection[str]:
        """The provider entries that keep what the request needs: it may go there although they are drained."""
        kept = self.access.list_keepers() if self.access is not None else ()
        return (*kept, self.issuer) if self.issuer else kept

    @property
    def key(self) -> str:
        """The fingerprint of the key with which an object was created that the request names, or ""."""
        return self.access.find_key() if self.access is not None else ""


NO_NEEDS: Final = Needs()


def select_candidates(
    health: TargetHealth, table: TargetTable, call: Call, operations: tuple[Operation, ...], needs: Needs = NO_NEEDS
) -> list[Candidate]:
    """The targets of ``call.model`` for a request, in the order in which they are tried while all work.

    Raises as `TargetTable.select_targets` and `ObjectAccess.select_targets`.
    """
    if needs is NO_NEEDS:
        return table.select_targets(call, operations)
    targets = table.select_targets(call, operations, needs.session, needs.keepers)
    if needs.session is not None:
        targets = _order_for_session(health, needs.session, targets)
    if needs.issuer:
        targets = sorted(targets, key=lambda each: each[0].provider != needs.issuer)
    return targets if needs.access is None else needs.access.select_targets(targets)


def _order_for_session(health: TargetHealth, session: Session, targets: list[Candidate]) -> list[Candidate]:
    """The targets with the one first to which the conversation moved."""
    session.home = targets[0][0].place
    place = health.moved_sessions.find(session, health.circuits.clock()) if len(health.moved_sessions) else None
    if place is None or place in session.full:
        return targets
    return sorted(targets, key=lambda each: each[0].place != place)


def note_place(health: TargetHealth, session: Session, target: Target) -> None:
    """A conversation was served at `target`: remember it if that is not the first of its order, unless that was full."""
    if session.full:
        return
    place = target.place
    health.moved_sessions.note(session, place, health.circuits.clock(), is_first=place == session.home)


class Candidates:
    """The targets of one request, one after the other. Iterating asks for the next one after a retryable failure.

    The loop sets `failure` to the error of the last attempt, and waits `pause` seconds before the next one.
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
        at_rest: list[Candidate] = []
        has_tried = False
        for target, provider in self._targets:
            if keys.rests and self._get_rest((target, provider)) > 0:
                at_rest.append((target, provider))
            elif health.allows(target, account):
                has_tried = True
                if provider.keys or target.model in retries:
                    yield from self._try_keys(target, provider)
                else:
                    yield target, provider
        for target, provider in sorted(at_rest, key=self._get_rest) if at_rest else ():
            if health.allows(target, account):
                has_tried = True
                yield self._choose_rested(target, provider), provider
        if not has_tried:
            yield from self._try_last_resort()

    def peek(self) -> Candidate | None:
        """The first candidate, without reserving a probe or changing anything; None if every circuit is open."""
        at_rest: list[Candidate] = []
        for target, provider in self._targets:
            if self._health.circuits.would_allow(target, self._account):
                if not self._health.keys.rests or not self._get_rest((target, provider)):
                    return self._apply_first_key(target, provider), provider
                at_rest.append((target, provider))
        if not at_rest:
            return None
        target, provider = min(at_rest, key=self._get_rest)
        return self._choose_rested(target, provider), provider

    # Keys

    def _get_rest(self, candidate: Candidate) -> float:
        """Seconds until a key of the target may be used."""
        target, provider = candidate
        rests, now = self._health.keys, self._health.circuits.clock()
        if not provider.keys:
            return rests.get_wait(target, "", now)
        return min(rests.get_wait(target, key.fingerprint, now) for key in provider.keys)

    def _try_keys(self, target: Target, provider: ConfiguredProvider) -> Iterator[Candidate]:
        """The target with each of its keys that are not at rest, until a failure is not about the key."""
        if not provider.keys:
            yield from self._repeat(target, provider)
            return
        rests, clock = self._health.keys, self._health.circuits.clock
        for key in self._order_keys(target, provider)[:MAX_KEYS_TRIED]:
            yield from self._repeat(key.apply(target), provider)
            if not rests.get_wait(target, key.fingerprint, clock()):
                return  # another key would fail too

    def _order_keys(
        self, target: Target, provider: ConfiguredProvider, *, take_turn: bool = True
    ) -> Sequence[ProviderKey]:
        """The keys not at rest, in the order of the conversation, else in turns; the one that is bound comes first."""
        keys = provider.keys
        if self._health.keys.rests:
            now = self._health.circuits.clock()
            keys = tuple(key for key in keys if not self._health.keys.get_wait(target, key.fingerprint, now))
        session, bound_key = self._needs.session, self._needs.key
        if session is not None:
            digest = session.digest
            keys = tuple(sorted(keys, key=lambda key: rank_name(digest, key.fingerprint)))
        else:
            turns, name = self._health.key_turns, provider.entry.name
            first = turns.get(name, 0) % len(keys)
            keys = keys[first:] + keys[:first]
            if take_turn:
                turns[name] = first + 1
        if bound_key:
            return sorted(keys, key=lambda key: key.fingerprint != bound_key)
        return keys

    def _apply_first_key(self, target: Target, provider: ConfiguredProvider) -> Target:
        if not provider.keys:
            return target
        keys = self._order_keys(target, provider, take_turn=False)
        return keys[0].apply(target) if keys else target

    def _choose_rested(self, target: Target, provider: ConfiguredProvider) -> Target:
        """The target with the key whose rest ends first."""
        if not provider.keys:
            return target
        rests, now = self._health.keys, self._health.circuits.clock()
        return min(provider.keys, key=lambda key: rests.get_wait(target, key.fingerprint, now)).apply(target)

    # Retries

    def _repeat(self, target: Target, provider: ConfiguredProvider) -> Iterator[Candidate]:
        """The target, and again after failures that may be over a moment later, as far as conf and the budget allow."""
        rules = self._table.retries.get(target.model)
        if rules is None:
            yield target, provider
            return
        if not self._ends_at:
            self._ends_at = self._health.circuits.clock() + target.timeouts.total
        load = self._table.loads.find(target)
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
        """Seconds before retry `number`; None if the last failure, the circuit or the time does not allow one."""
        failure, circuits = self.failure, self._health.circuits
        if failure is None or not is_repeatable(failure) or not circuits.would_allow(target, self._account):
            return None
        asked = failure.retry_after or 0.0
        if asked > rules.max_wait_seconds or (asked and target.key):  # another key need not wait
            return None
        usual = min(rules.max_wait_seconds, rules.backoff_seconds * 2**number) * random.uniform(0.5, 1.0)
        wait = max(asked, usual)
        return wait if circuits.clock() + wait < self._ends_at else None

    # The last resort

    def _try_last_resort(self) -> Iterator[Candidate]:
        circuits = self._health.circuits
        target = circuits.find_least_bad(target for target, _ in self._targets)
        if target is None or not circuits.take_last_resort(target):
            return
        provider = next(provider for each, provider in self._targets if each is target)
        yield self._choose_rested(target, provider), provider
        if self.failure is not None:
            self.failure = None  # the circuits tell the caller when to try again

    def find_last_resort(self) -> Candidate | None:
        """The target that would be the last resort, without reserving the probe."""
        target = self._health.circuits.find_least_bad(target for target, _ in self._targets)
        return next((each for each in self._targets if each[0] is target), None)


def choose_target(
    health: TargetHealth, table: TargetTable, call: Call, targets: Sequence[Candidate], needs: Needs = NO_NEEDS
) -> Candidate:
    """The target that a request would try first. Sends and counts nothing and changes no circuit.

    For video tasks, which start later: a task is not accepted as the last resort. Raises Unavailable when every circuit is open.
    """
    found = Candidates(health, table, call.caller.account, targets, needs).peek()
    if found is None:
        raise make_unavailable(health, call, targets)
    return found


def is_repeatable(error: GateError) -> bool:
    """Whether the same request may succeed at the same target a moment later."""
    return isinstance(error, REPEATABLE) or (type(error) is UpstreamError and error.code == UpstreamError.code)


def make_unavailable(health: TargetHealth, call: Call, targets: Sequence[Candidate]) -> Unavailable:
    """The error for a request all of whose circuits are open."""
    now, waits = health.circuits.clock(), []
    for target, _ in targets:
        circuit = health.circuits.find(target)
        if circuit is not None:
            waits.append(circuit.wait_seconds(call.caller.account, now))
    seconds = max(1, math.ceil(min(waits, default=0.0)))
    message = f"All targets of model '{call.model}' are unavailable. Retry after {seconds} s."
    return Unavailable(message, headers={"Retry-After": str(seconds)})
