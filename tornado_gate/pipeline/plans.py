"""Plans for all requests of a route for one model, computed once for each configuration and scope of keys.

A plan lists the steps of a request. A feature that is off, or does not concern the key and the model, has no cost. A model with
several targets or keys has a plan for each, and a `TargetChoice`. Requests without a plan run all steps of `pipeline.answer`:
their model has retries, or a guard, a wrapper or a limit must wait. Plans are dropped with their snapshot. They depend on the
permissions of a key, not on the key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from tornado_gate.http.server.response_head import make_header_text
from tornado_gate.http.upstream import Pool
from tornado_gate.pipeline import auth
from tornado_gate.pipeline.calls import make_question
from tornado_gate.pipeline.provider_pools import ProviderPools
from tornado_gate.pipeline.snapshot import Snapshot
from tornado_gate.plugins.lanes import FormatLane, ProviderLane
from tornado_gate.streams.timer_wheel import TimerWheel, get_wheel
from tornado_gate.targets.candidates import Candidates
from tornado_gate.targets.configured_provider import ConfiguredProvider
from tornado_gate.targets.health import TargetHealth
from tornado_gate.targets.routing import ServedRoute
from tornado_gate.targets.table import Candidate
from tornado_gate.types import Call, Caller, Operation, Target
from tornado_gate.types.value import Value, replace

MAX_PLANS: Final = 10_000
"""The maximum number of stored plans. It is bounded because callers choose the names of models."""

SLOW_START_OPERATIONS: Final = frozenset({"images", "image_edits", "transcription"})
"""Operations that send nothing until the work is done, streamed or not."""

_OTHER_STEPS: Final = frozenset({"videos", "count_tokens", "realtime"})
"""Operations whose steps a plan cannot contain."""


class Plan(Value, frozen=True, kw_only=True):
    """The steps of requests with one target.

    `model` is the requested name as written in conf, and `facts` are conf's facts about it. `is_verbatim`: the upstream has the
    caller's wire format. In this case `marks` are searched in the body, because a match may be another provider's signature.
    A body with `inputs_at_once` commas may have more inputs than the upstream accepts. The response must begin within
    `seconds`, or within `stream_seconds` if the caller requests a stream: `wheel` measures this time.
    `response_head` are the fields of a response that name the target.
    """

    model: str
    facts: Mapping[str, Any]
    target: Target
    provider: ConfiguredProvider
    lane: ProviderLane
    wire_format: FormatLane
    pool: Pool
    operation: str
    is_verbatim: bool
    marks: tuple[bytes, ...]
    inputs_at_once: int | None
    seconds: float
    stream_seconds: float
    wheel: TimerWheel
    response_head: str


class Others(NamedTuple):
    """The candidates of a request after its first one: `rest` yields them."""

    snapshot: Snapshot
    operations: tuple[Operation, ...]
    targets: Sequence[Candidate]
    candidates: Candidates
    rest: Iterator[Candidate]


class TargetChoice(Value, frozen=True, kw_only=True):
    """The plans for a model with several targets or keys. `question` is a call for the model."""

    snapshot: Snapshot
    question: Call
    operations: tuple[Operation, ...]
    plans: Mapping[tuple[str, ...], Plan]

    def choose(self, health: TargetHealth, account: str) -> tuple[Plan, Others] | None:
        """Choose the first target of a request. Return its plan and the other candidates.

        Return None if something is known against a target or a key: then its circuit may need a probe.
        Raises the errors of `TargetTable.select_targets`.
        """
        table = self.snapshot.targets
        targets = table.select_targets(self.question, self.operations)
        is_clear = health.circuits.is_clear
        if health.keys.suspensions or not all(is_clear(target) for target, _ in targets):
            return None
        candidates = Candidates(health, table, account, targets)
        rest = iter(candidates)
        target, _ = next(rest)
        plan = self.plans.get(_name_target(target))
        return None if plan is None else (plan, Others(self.snapshot, self.operations, targets, candidates, rest))


def _name_target(target: Target) -> tuple[str, ...]:
    return target.provider, target.upstream_model, target.model, target.key


Scope = dict[str, Plan | TargetChoice | None]
"""Plans by the requested names of models; None for a model whose requests have no plan."""


class Plans:
    """The plans of the current snapshot in scopes, which group keys by permissions. A connection keeps its last scope."""

    def __init__(self, pools: ProviderPools) -> None:
        self._pools = pools
        self._scopes: dict[tuple[Any, ...], Scope] = {}
        self._filled: list[Scope] = []
        """Scopes that have plans, even if they belong to an earlier snapshot."""
        self._count = 0

    def clear(self) -> None:
        """Forget all plans, because the snapshot has changed or there are too many plans. Later requests get new scopes."""
        for scope in self._filled:
            scope.clear()
        self._filled.clear()
        self._scopes.clear()
        self._count = 0

    def find_scope(self, served: ServedRoute, caller: Caller) -> Scope:
        """Return a route's plans by requested model name, for keys with the permissions of `caller`."""
        route = served.route
        key = (served.format, route.method, route.path, caller.models, caller.operations)
        scope = self._scopes.get(key)
        if scope is None:
            if len(self._scopes) >= MAX_PLANS:
                self.clear()
            scope = self._scopes[key] = {}
        return scope

    def add(
        self, scope: Scope, snapshot: Snapshot, served: ServedRoute, caller: Caller, model: str
    ) -> Plan | TargetChoice | None:
        """Make the plan for the requested name `model`, and keep it in `scope`. Return None if its requests have no plan.

        Raises the errors of `TargetTable.select_targets`.
        """
        plan = make_plan(self._pools, snapshot, served, caller, model)
        count = len(plan.plans) if isinstance(plan, TargetChoice) else 1
        if self._count + count > MAX_PLANS:
            self.clear()
        if not scope:
            self._filled.append(scope)
        self._count += count
        scope[model] = plan
        return plan


def make_plan(
    pools: ProviderPools, snapshot: Snapshot, served: ServedRoute, caller: Caller, model: str
) -> Plan | TargetChoice | None:
    """Return the plan of requests for `model`, or None. Raises the errors of `TargetTable.select_targets`."""
    route, table = served.route, snapshot.targets
    if snapshot.guards.lanes or table.has_affinity or route.operation in _OTHER_STEPS:
        return None
    operations = auth.filter_operations(caller, route.operations)
    question = table.for_model(make_question("", route.operation, served.format, "", caller), model)
    if question.failover is False:
        return None
    targets = table.select_targets(question, operations)
    has_choice = len(targets) != 1 or table.has_choice(question.model, operations) or bool(targets[0][1].keys)
    plans = {}
    for target, provider in targets:
        plan = _make_target_plan(pools, snapshot, served, question, operations, target, provider, has_choice)
        if plan is None:
            return None
        for with_key in [key.apply(target) for key in provider.keys] or [target]:
            plans[_name_target(with_key)] = plan if with_key is target else replace(plan, target=with_key)
    if not has_choice:
        return plan
    return TargetChoice(snapshot=snapshot, question=question, operations=operations, plans=plans)


def _make_target_plan(
    pools: ProviderPools,
    snapshot: Snapshot,
    served: ServedRoute,
    question: Call,
    operations: tuple[Operation, ...],
    target: Target,
    provider: ConfiguredProvider,
    has_choice: bool,
) -> Plan | None:
    """Return the plan of requests at one target. With a choice, a signature in a body selects the target that issued it."""
    route, lane, wire_format = served.route, provider.lane, snapshot.formats[served.format]
    if lane is None or _may_wait(snapshot, target, provider):
        return None
    if not lane.leaves_sending_to_core(provider.capabilities):
        return None
    operation = target.first_supported_operation(operations)
    used, timeouts = provider.capabilities, target.timeouts
    begins = timeouts.total if operation in SLOW_START_OPERATIONS else timeouts.first_event
    whole = begins if operation in SLOW_START_OPERATIONS or timeouts.whole is None else timeouts.whole
    return Plan(
        model=question.model,
        facts=question.facts,
        target=target,
        provider=provider,
        lane=lane,
        wire_format=wire_format,
        pool=pools.get_pool(provider),
        operation=operation,
        is_verbatim=(wire_format.forwards and route.wire_format in used.speaks and operation == route.operation),
        marks=route.signature_marks if used.signatures or has_choice else (),
        inputs_at_once=used.inputs_at_once if operation == "embeddings" else None,
        seconds=min(whole, timeouts.total),
        stream_seconds=min(begins, timeouts.total),
        wheel=get_wheel(),
        response_head=(
            f"X-Gate-Provider: {target.provider}\r\nX-Gate-Model: {make_header_text(target.upstream_model)}\r\n"
        ),
    )


def _may_wait(snapshot: Snapshot, target: Target, provider: ConfiguredProvider) -> bool:
    """Return whether a request may wait for a place or a pause, or its target is chosen by measurement."""
    table = snapshot.targets
    return provider.entry.concurrency is not None or target.model in table.retries or target.model in table.measured
