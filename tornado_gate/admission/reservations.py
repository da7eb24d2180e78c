"""The one point at which requests are admitted: reserves what a request may use before it is sent, and settles after its end.

Every route that makes something comes here: `attempts.try_targets`, which answers all requests, realtime sessions and calls
between models, and `tasks/service.py` for videos. What a request must not exceed are the bounds of its key, user, team, model and
provider account, and those of the whole gateway; the lowest decides. A request without a bound does not come here at all.

A request that its caller must correct (400), or that another bound refuses, counts nowhere. One that guards review counts before
they do, so that it counts also when they block it. A failed upstream request counts as a
request and costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any, Final

from tornado_gate.admission.bounds import CALLER_KINDS, GATEWAY, OPEN, REQUESTS, get_title, list_bounds, needs_estimate
from tornado_gate.admission.estimates import USUAL_ANSWER, Estimate, UsualAnswers
from tornado_gate.admission.limiter import Limiter
from tornado_gate.admission.overrides import NO_OVERRIDES, Overrides
from tornado_gate.admission.refusals import find_lowest, format_amount
from tornado_gate.admission.store import Level
from tornado_gate.config.model import Config
from tornado_gate.errors import GateError, RateLimited, UpstreamError
from tornado_gate.ledger.costs import Price, estimate_cost
from tornado_gate.ledger.prices import PriceTable
from tornado_gate.types import Bound, Budget, Call, Charge, Limits, Target
from tornado_gate.types.bounds import Reservation, Reservations

NO_BOUNDS: Final[tuple[Bound, ...]] = ()
OF_THE_WHOLE: Final = CALLER_KINDS | {GATEWAY}
"""Whose requests a call between models is not counted among: it is part of one."""


class Admission:
    """The bounds of conf, and the requests that are counted. `is_active`: some bound concerns callers who have none."""

    def __init__(self, limiter: Limiter) -> None:
        self.limiter = limiter
        self.overrides: Overrides = NO_OVERRIDES
        self.usual = UsualAnswers()
        self.is_active = False
        self._estimates_all = False
        self._config: Config | None = None
        self._find_entry_name: Callable[[str], str] = str
        self._of_all = NO_BOUNDS
        self._of_models: dict[str, tuple[Bound, ...]] = {}
        self._of_providers: dict[str, tuple[Bound, ...]] = {}

    def apply(self, config: Config, find_entry_name: Callable[[str], str]) -> None:
        """Adopt the bounds of a configuration. `find_entry_name` returns the name of the entry for a model."""
        self._config, self._find_entry_name = config, find_entry_name
        self._of_all = self.list_bounds(GATEWAY, "", config.limits.gateway.limits, config.limits.gateway.budget)
        self._of_models = {
            name: bounds
            for name, entry in config.models.items()
            if (bounds := self.list_bounds("model", name, entry.limits.limits, entry.limits.budget))
        }
        self._of_providers = {
            name: bounds
            for name, entry in config.providers.items()
            if (bounds := self.list_bounds("provider", name, entry.limits.limits, entry.limits.budget))
        }
        shared = [*self._of_all, *chain(*self._of_models.values()), *chain(*self._of_providers.values())]
        self.is_active = bool(shared)
        self._estimates_all = needs_estimate(shared)
        self.usual.forget_others(config.models)

    def override(self, overrides: Overrides) -> bool:
        """Adopt what administrators have overridden for a time. Returns whether bounds have changed."""
        before, self.overrides = self.overrides, overrides
        if before == overrides:
            return False
        if self._config is not None:
            self.apply(self._config, self._find_entry_name)
        return True

    def list_bounds(
        self, kind: str, subject: str, limits: Limits | None, budget: Budget | None, title: str = ""
    ) -> tuple[Bound, ...]:
        """The bounds of a subject, with what administrators have overridden for a time."""
        own = list_bounds(kind, subject, limits, budget, title=title)
        changed = self.overrides.find_values(kind, subject, own)
        return list_bounds(kind, subject, limits, budget, changed, title) if changed else own

    def needs_estimate(self, call: Call) -> bool:
        """Whether a bound that may concern the request is one of tokens or money."""
        return self._estimates_all or needs_estimate(call.caller.bounds)

    async def enter(
        self, prices: PriceTable, call: Call, target: Target, estimate: Estimate | None = None
    ) -> RateLimited | None:
        """Reserve what a request may use at `target`. Returns the error when only this target may not be used.

        Raises RateLimited when a bound of the caller, of the model or of the gateway refuses the request.
        """
        charge = call.charge
        reservations = charge.reservations
        requested = self._find_requested(call.model)
        of_request = self._list_unreserved(call, requested, reservations)
        of_target = self._of_providers.get(target.provider, NO_BOUNDS)
        if target.model != (requested[0].subject if requested else call.model):
            of_target += self._of_models.get(target.model, NO_BOUNDS)
        bounds = of_request + of_target
        if not bounds:
            if reservations is not None:
                reservations.has_begun = False
            return None
        if estimate is None:
            estimate = USUAL_ANSWER
        price = prices.find(target.provider, target.upstream_model)
        least, amounts = self._estimate_amounts(bounds, charge, target, price, estimate)
        try:
            reservation, levels = await self.limiter.reserve(bounds, amounts, least)
        except RateLimited as error:
            refused = error.exceeded["subject"]
            if refused == "provider" or (refused == "model" and not requested):
                return error
            raise
        number = len(of_request)
        reservations = reservations or Reservations()
        if number:
            reservations.of_request.append(
                Reservation(bounds[:number], reservation.amounts[:number], reservation.moment, reservation.store)
            )
        if of_target:
            reservations.of_target = Reservation(
                of_target, reservation.amounts[number:], reservation.moment, reservation.store
            )
        reservations.levels = find_lowest(levels, reservations.levels)
        reservations.has_begun = False
        charge.reserve(reservations)
        return None

    def _list_unreserved(
        self, call: Call, requested: tuple[Bound, ...], reservations: Reservations | None
    ) -> tuple[Bound, ...]:
        """The bounds of the caller, the gateway and the model that was asked for, of which nothing is reserved yet."""
        if reservations is not None and not reservations.has_begun:
            return NO_BOUNDS
        bounds = (*call.caller.bounds, *self._of_all, *requested)
        return (
            bounds if reservations is None else tuple(bound for bound in bounds if bound.family not in (REQUESTS, OPEN))
        )

    async def begin(self, call: Call) -> None:
        """Count a request before guards review it, so that their work is bounded, too; `enter` reserves the rest.

        Raises RateLimited. If the request is not admitted for another reason than a guard's, call `give_up`.
        """
        if not self.is_active and not call.caller.bounds:
            return
        bounds = self._list_unreserved(call, self._find_requested(call.model), None)
        bounds = tuple(bound for bound in bounds if bound.family in (REQUESTS, OPEN))
        if bounds:
            reservation, levels = await self.limiter.reserve(bounds, [1] * len(bounds))
            call.charge.reserve(Reservations([reservation], levels=find_lowest(levels), has_begun=True))

    def give_up(self, charge: Charge) -> None:
        """A request that had begun was refused: it counts nowhere, unless it was admitted meanwhile."""
        if charge.reservations is not None and charge.reservations.has_begun:
            self.cancel(charge)

    def _find_requested(self, model: str) -> tuple[Bound, ...]:
        """The bounds of the model that a request names."""
        return self._of_models.get(self._find_entry_name(model), NO_BOUNDS) if self._of_models else NO_BOUNDS

    def _estimate_amounts(
        self, bounds: Iterable[Bound], charge: Charge, target: Target, price: Price | None, estimate: Estimate
    ) -> tuple[list[int], list[int]]:
        """What the request uses at least of each bound, and what it will probably use."""
        least, most = estimate.list_quantities(self.usual.find(target.model))
        costs = (estimate_cost(price, least), estimate_cost(price, most))
        tokens = tuple((each.input_tokens or 0) + (each.output_tokens or 0) for each in (least, most))
        lowest, probable = [], []
        for bound in bounds:
            if bound.family in (REQUESTS, OPEN):
                low = high = 0 if charge.is_inner and bound.kind in OF_THE_WHOLE else 1
            else:
                low, high = costs if bound.name.startswith("usd") else tokens
                high = max(low, min(high, max(bound.limit, 1)))  # a guess is no request that is always too large
            lowest.append(low)
            probable.append(high)
        return lowest, probable

    # After an attempt, and after the request

    def note_failure(self, call: Call, error: BaseException) -> None:
        """An attempt has failed. What the caller must correct counts nowhere; another target reserves anew."""
        reservations = call.charge.reservations
        if reservations is None or not isinstance(error, GateError):
            return
        if error.status < 500 and not isinstance(error, UpstreamError):
            self.cancel(call.charge)
        elif error.retryable and reservations.of_target is not None:
            self.limiter.settle(reservations.of_target, 0, 0)
            reservations.of_target = None

    def cancel(self, charge: Charge) -> None:
        """The request was not admitted after all."""
        reservations = charge.take_reservations()
        if reservations is not None:
            for reservation in reservations.list_all():
                self.limiter.cancel(reservation)

    def settle(self, reservations: Reservations, tokens: int, cost: int) -> None:
        """A request has ended and has used this."""
        for reservation in reservations.list_all():
            self.limiter.settle(reservation, tokens, cost)

    async def add_used(self, reservations: Reservations, tokens: int, cost: int) -> RateLimited | None:
        """A session goes on and has used this in all. Returns the error to end it with when a bound is exhausted."""
        for reservation in reservations.list_all():
            self.limiter.add_used(reservation, tokens, cost)
        bounds = [
            bound
            for reservation in reservations.list_all()
            for bound in reservation.bounds
            if bound.family not in (REQUESTS, OPEN)
        ]
        levels = [level for level in await self.limiter.read(bounds) if level.used > level.bound.limit]
        return self.limiter.make_exhausted_error(levels) if levels else None

    def describe_reservations(self, charge: Charge) -> list[Any]:
        """What a task keeps of its request's reservations until it ends, as JSON values. The rest ends with the request."""
        reservations = charge.reservations
        described = map(self.limiter.describe, reservations.list_all() if reservations is not None else ())
        return [values for values in described if values]

    def leave_to_task(self, charge: Charge) -> None:
        """The task will settle what `describe_reservations` described: the request does not."""
        reservations = charge.reservations
        for reservation in reservations.list_all() if reservations is not None else ():
            self.limiter.leave(reservation)

    def settle_task(self, kept: Iterable[Any], tokens: int, cost: int) -> None:
        """A task with `keep_for_task` has ended."""
        for described in kept:
            self.limiter.settle(self.limiter.restore(described), tokens, cost)

    # What is left

    async def describe_limits(self, call: Call, target: Target) -> dict[str, Any]:
        """What is left of the bounds of a request, as JSON values."""
        requested = self._find_requested(call.model)
        bounds = (*call.caller.bounds, *self._of_all, *requested, *self._of_providers.get(target.provider, ()))
        levels = await self.limiter.read(bounds) if bounds else ()
        found: dict[str, Any] = {}
        lowest = find_lowest(levels)
        for kind, level in (("requests", lowest.requests), ("tokens", lowest.tokens)):
            if level is not None:
                found[kind] = {"limit": level.limit, "remaining": level.remaining}
        if levels:
            found["bounds"] = [_describe_level(level) for level in levels]
        return found


def _describe_level(level: Level) -> Mapping[str, Any]:
    bound = level.bound
    return {
        "subject": bound.kind,
        "name": get_title(bound),
        "bound": bound.name,
        "limit": format_amount(bound, bound.limit),
        "used": format_amount(bound, level.used),
        "left": format_amount(bound, max(0, bound.limit - level.used)),
        "reset_seconds": round(level.reset, 3),
    }
