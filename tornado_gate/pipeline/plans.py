"""Plans for all requests of a route for one model, computed once for each configuration and scope of keys.

A plan lists the steps of a request. A feature that is off, or does not concern the key and the model, has no cost. A model with
several targets or keys has a plan for each, and a `TargetChoice`. So has a model whose targets are chosen by measurement or by
conversation, or whose attempts may be repeated or wait for a slot. Requests that guards review have a `GuardedPlan`, which also
has the plan for the time after the review. Requests without a plan run all steps of `pipeline.answer`: a plugin sends them
itself, or a guard cannot see their texts. Plans are dropped with their snapshot. They depend on the permissions of a key, not on
the key, unless a guard covers only some keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from tornado_gate.guards.decisions import GuardServices, Review
from tornado_gate.http.server.response_head import make_header_text
from tornado_gate.http.upstream import Pool
from tornado_gate.pipeline import auth
from tornado_gate.pipeline.calls import make_question
from tornado_gate.pipeline.provider_pools import ProviderPools
from tornado_gate.pipeline.snapshot import Snapshot
from tornado_gate.plugins.guard_lanes import GuardLane
from tornado_gate.plugins.lanes import FormatLane, ProviderLane
from tornado_gate.streams.timer_wheel import TimerWheel, get_wheel
from tornado_gate.targets.affinity import Session, identify_session
from tornado_gate.targets.candidates import NO_NEEDS, Candidates, Needs, select_candidates
from tornado_gate.targets.configured_provider import ConfiguredProvider
from tornado_gate.targets.health import TargetHealth
from tornado_gate.targets.routing import ServedRoute
from tornado_gate.targets.table import Candidate
from tornado_gate.types import Call, Caller, Operation, Route, Target, WireRequest
from tornado_gate.types.text_maps import TextMap
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
    A body with `inputs_at_once` commas may have more inputs than the upstream accepts. `has_conditions`: a body must be
    examined for `marks` or inputs. `references` returns the objects that a request names. `failover`: whether another target
    may be tried, as in `Call`. `is_measured`: attempts count in the load of the target. `is_tracked`: an attempt is a
    `ChosenAttempt`, because it has steps when its response begins or ends. The response must begin within `seconds`, or within
    `stream_seconds` if the caller requests a stream: `wheel` measures this time. `response_head` are the fields of a response
    that name the target and allow pages of the caller's origin to read it.
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
    has_conditions: bool
    references: Callable[[Call, WireRequest], Any] | None
    failover: bool | None
    is_measured: bool
    is_tracked: bool
    seconds: float
    stream_seconds: float
    wheel: TimerWheel
    response_head: str

    def complete_call(self, call: Call) -> Call:
        """Return the call of an attempt for a call that has no target yet."""
        return replace(
            call,
            model=self.model,
            target=self.target,
            operation=self.operation,
            losses=[],
            pool=self.pool,
            facts=self.facts,
            failover=self.failover,
        )


class Others(NamedTuple):
    """The candidates of a request after its first one: `rest` yields them. `needs` are the request's."""

    snapshot: Snapshot
    operations: tuple[Operation, ...]
    targets: Sequence[Candidate]
    candidates: Candidates
    rest: Iterator[Candidate]
    needs: Needs


class TargetChoice(Value, frozen=True, kw_only=True):
    """The plans for a model whose targets or keys are chosen for each request, or whose attempts are measured or repeated.

    `question` is a call for the model. With affinity, the requests of a conversation have their own order of targets:
    `identify` returns the conversation, as `affinity.identify_session` does for the model.
    """

    snapshot: Snapshot
    question: Call
    route: Route
    identify: Callable[..., Session | None] | None
    operations: tuple[Operation, ...]
    plans: Mapping[tuple[str, ...], Plan]

    def choose(
        self, health: TargetHealth, account: str, headers: Mapping[str, str], body: Mapping[str, Any], body_bytes: int
    ) -> tuple[Plan, Others] | None:
        """Choose the first target of a request. Return its plan and the other candidates.

        Return None if something is known against a target or a key: then its circuit may need a probe.
        Raises the errors of `TargetTable.select_targets`.
        """
        table = self.snapshot.targets
        if self.identify is None or (session := self.identify(account, headers, self.route, body, body_bytes)) is None:
            needs, targets = NO_NEEDS, table.select_targets(self.question, self.operations)
        else:
            needs = Needs(session)
            targets = select_candidates(health, table, self.question, self.operations, needs)
        if health.keys.suspensions or not health.circuits.are_clear(targets):
            return None
        candidates = Candidates(health, table, account, targets, needs)
        rest = iter(candidates)
        target, _ = next(rest)
        plan = self.plans.get(_name_target(target))
        if plan is None:
            return None
        return plan, Others(self.snapshot, self.operations, targets, candidates, rest, needs)


class GuardedPlan(Value, frozen=True, kw_only=True):
    """The plan of requests for the requested name `model` whose `texts` the `guards` review. `plan` has the steps after that."""

    model: str
    guards: tuple[GuardLane, ...]
    texts: TextMap
    plan: Plan | TargetChoice

    def begin_review(self, services: GuardServices, call: Call) -> Review:
        """Return the review of a request like `reviews.begin_review`."""
        call.progress.request_model(self.model)
        return Review(services, self.guards, self.texts, replace(call, model=self.model))


def _name_target(target: Target) -> tuple[str, ...]:
    return target.provider, target.upstream_model, target.model, target.key


AnyPlan = Plan | TargetChoice | GuardedPlan
Scope = dict[str, AnyPlan | None]
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

    def find_scope(
        self, served: ServedRoute, caller: Caller, more_fields: str = "", guarded_key: tuple[str, ...] = ()
    ) -> Scope:
        """Return a route's plans by requested model name, for keys with the permissions of `caller`.

        `more_fields` are further lines of their responses' heads: those of CORS. `guarded_key` is the result of
        `Guards.identify_key`.
        """
        route = served.route
        key = (served.format, route.method, route.path, caller.models, caller.operations, more_fields, guarded_key)
        scope = self._scopes.get(key)
        if scope is None:
            if len(self._scopes) >= MAX_PLANS:
                self.clear()
            scope = self._scopes[key] = {}
        return scope

    def add(
        self, scope: Scope, snapshot: Snapshot, served: ServedRoute, caller: Caller, model: str, more_fields: str = ""
    ) -> AnyPlan | None:
        """Make the plan for the requested name `model`, and keep it in `scope`. Return None if its requests have no plan.

        `scope` is the result of `find_scope` with the same `caller` and `more_fields`.

        Raises the errors of `TargetTable.select_targets`.
        """
        plan = make_plan(self._pools, snapshot, served, caller, model, more_fields)
        steps = plan.plan if isinstance(plan, GuardedPlan) else plan
        count = len(steps.plans) if isinstance(steps, TargetChoice) else 1
        if self._count + count > MAX_PLANS:
            self.clear()
        if not scope:
            self._filled.append(scope)
        self._count += count
        scope[model] = plan
        return plan


def make_plan(
    pools: ProviderPools, snapshot: Snapshot, served: ServedRoute, caller: Caller, model: str, more_fields: str = ""
) -> AnyPlan | None:
    """Return the plan of requests for `model`, or None. Raises the errors of `TargetTable.select_targets`."""
    route = served.route
    if route.operation in _OTHER_STEPS:
        return None
    question = make_question("", route.operation, served.format, model, caller)
    guards = snapshot.guards.select(question, route.operations) if snapshot.guards.lanes else ()
    if any(route.texts is None or guard.error for guard in guards):
        return None
    question = snapshot.targets.for_model(question, model)
    plan = _make_plan_after_review(
        pools, snapshot, served, question, auth.filter_operations(caller, route.operations), more_fields
    )
    if plan is None or not guards or route.texts is None:
        return plan
    return GuardedPlan(model=model, guards=guards, texts=route.texts, plan=plan)


def _make_plan_after_review(
    pools: ProviderPools,
    snapshot: Snapshot,
    served: ServedRoute,
    question: Call,
    operations: tuple[Operation, ...],
    more_fields: str,
) -> Plan | TargetChoice | None:
    """Return the plan of requests without the guards' steps, or None."""
    route, table = served.route, snapshot.targets
    match = table.models.find_model(question.model)
    affinity = match.entry.affinity if match is not None else None
    targets = table.select_targets(question, operations)
    has_choice = (
        affinity is not None
        or len(targets) != 1
        or table.has_choice(question.model, operations)
        or _has_more_steps(snapshot, *targets[0])
    )
    plans = {}
    for target, provider in targets:
        plan = _make_target_plan(pools, snapshot, served, question, operations, target, provider, has_choice)
        if plan is None:
            return None
        if affinity is not None or more_fields:
            is_tracked = plan.is_tracked or affinity is not None
            plan = replace(plan, is_tracked=is_tracked, response_head=plan.response_head + more_fields)
        for with_key in [key.apply(target) for key in provider.keys] or [target]:
            plans[_name_target(with_key)] = plan if with_key is target else replace(plan, target=with_key)
    if not has_choice:
        return plan
    return TargetChoice(
        snapshot=snapshot,
        question=question,
        route=route,
        identify=None if affinity is None else partial(identify_session, affinity, question.model),
        operations=operations,
        plans=plans,
    )


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
    operation = target.first_supported_operation(operations)
    call = question.replace(target=target, operation=operation)
    route, wire_format = served.route, snapshot.formats[served.format].narrow(call)
    lane = provider.lane.narrow(call) if provider.lane is not None else None
    if lane is None or not lane.leaves_sending_to_core(provider.capabilities):
        return None
    used, timeouts = provider.capabilities, target.timeouts
    marks = route.signature_marks if used.signatures or has_choice else ()
    inputs_at_once = used.inputs_at_once if operation == "embeddings" else None
    is_measured = target.model in snapshot.targets.measured
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
        marks=marks,
        inputs_at_once=inputs_at_once,
        has_conditions=bool(marks) or inputs_at_once is not None,
        references=route.references,
        failover=question.failover,
        is_measured=is_measured,
        is_tracked=has_choice and (is_measured or provider.entry.concurrency is not None or question.failover is False),
        seconds=min(whole, timeouts.total),
        stream_seconds=min(begins, timeouts.total),
        wheel=get_wheel(),
        response_head=(
            f"X-Gate-Provider: {target.provider}\r\nX-Gate-Model: {make_header_text(target.upstream_model)}\r\n"
        ),
    )


def _has_more_steps(snapshot: Snapshot, target: Target, provider: ConfiguredProvider) -> bool:
    """Return whether attempts at the only target of a model have steps of a `TargetChoice`."""
    return bool(provider.keys) or provider.entry.concurrency is not None or target.model in snapshot.targets.measured
