"""The only place at which requests are admitted: reserves the possible usage of a request, and settles it after its end.

All requests that use a model are admitted here: by `attempts.try_targets` for requests, realtime sessions and calls between
models, and by `tasks/service.py` for videos. A request must stay within the bounds of its key, user, team, model, provider
account and of the whole gateway. The lowest bound decides. Requests without a bound are not counted.

A request that its caller must correct (400), or that another bound rejects, is not counted. A request that guards review is
counted before the review, so it counts even if a guard blocks it. A failed upstream request counts as a request and costs
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from itertools import chain
from typing import Any, Final

from tornado_gate.admission.bounds import CALLER_KINDS, GATEWAY, OPEN, REQUESTS, get_title, list_bounds, needs_estimate
from tornado_gate.admission.estimates import USUAL_ANSWER, Estimate, UsualAnswers
from tornado_gate.admission.limiter import Limiter, TrialLimiter
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
"""The kinds of subjects whose request counts ignore calls between models. Such a call is part of a request."""


class Admission:
    """The bounds of conf, and the admitted requests. `is_active`: conf has bounds that apply to callers without bounds."""

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
        self.usual.remove_others(config.models)

    def override(self, overrides: Overrides) -> bool:
        """Adopt temporary overrides by administrators. Return whether bounds have changed."""
        before, self.overrides = self.overrides, overrides
        if before == overrides:
            return False
        if self._config is not None:
            self.apply(self._config, self._find_entry_name)
        return True

    def list_bounds(
        self, kind: str, subject: str, limits: Limits | None, budget: Budget | None, title: str = ""
    ) -> tuple[Bound, ...]:
        """Return the bounds of a subject, with the temporary overrides of administrators."""
        configured = list_bounds(kind, subject, limits, budget, title=title)
        overrides = self.overrides.find_values(kind, subject, configured)
        return list_bounds(kind, subject, limits, budget, overrides, title) if overrides else configured

    def needs_estimate(self, call: Call) -> bool:
        """Return whether a bound of tokens or money may apply to the request."""
        return self._estimates_all or needs_estimate(call.caller.bounds)

    async def enter(
        self, prices: PriceTable, call: Call, target: Target, estimate: Estimate | None = None
    ) -> RateLimited | None:
        """Reserve the possible usage of a request at `target`. Return the error if only a bound of this target rejects it.

        Raises RateLimited if a bound of the caller, of the requested model or of the gateway rejects the request.
        """
        charge = call.charge
        of_request, of_target = self._list_bounds_at(call, target)
        bounds = of_request + of_target
        if not bounds:
            if charge.reservations is not None:
                charge.reservations.has_begun = False
            return None
        price = prices.find_price(target.provider, target.upstream_model)
        least, amounts = self._estimate_amounts(bounds, charge, target, price, estimate or USUAL_ANSWER)
        try:
            reservation, levels = await self.limiter.reserve(bounds, amounts, least)
        except RateLimited as error:
            subject = error.exceeded["subject"]
            if subject == "provider" or (subject == "model" and not self._find_requested(call.model)):
                return error
            raise
        _note_reservation(charge, reservation, levels, len(of_request))
        return None

    def try_enter(self, prices: PriceTable, call: Call, target: Target, estimate: Estimate | None) -> bool:
        """Reserve like `enter`, for a request whose reservations are none, or those of `begin`, and without waiting.

        Return False, without an effect, if that is impossible, or if a bound refuses.
        """
        of_request, of_target = self._list_bounds_at(call, target)
        bounds = of_request + of_target
        if not bounds:
            if call.charge.reservations is not None:
                call.charge.reservations.has_begun = False
            return True
        price = prices.find_price(target.provider, target.upstream_model)
        _, amounts = self._estimate_amounts(bounds, call.charge, target, price, estimate or USUAL_ANSWER)
        reserved = self.limiter.try_reserve(bounds, amounts)
        if reserved is None:
            return False
        _note_reservation(call.charge, *reserved, len(of_request))
        return True

    def _list_bounds_at(self, call: Call, target: Target) -> tuple[tuple[Bound, ...], tuple[Bound, ...]]:
        """Return the bounds without a reservation that apply to the request anywhere, and those of the target only."""
        requested = self._find_requested(call.model)
        of_target = self._of_providers.get(target.provider, NO_BOUNDS)
        if target.model != (requested[0].subject if requested else call.model):
            of_target += self._of_models.get(target.model, NO_BOUNDS)
        return self._list_unreserved(call, requested, call.charge.reservations), of_target

    def make_trial(self) -> Admission:
        """Return an admission for requests that are not sent: `enter` refuses the same requests now, and reserves nothing."""
        trial = copy(self)
        trial.limiter = TrialLimiter(self.limiter)
        return trial

    def _list_unreserved(
        self, call: Call, requested: tuple[Bound, ...], reservations: Reservations | None
    ) -> tuple[Bound, ...]:
        """Return the bounds of the caller, the gateway and the requested model that have no reservation yet."""
        if reservations is not None and not reservations.has_begun:
            return NO_BOUNDS
        bounds = (*call.caller.bounds, *self._of_all, *requested)
        return (
            bounds if reservations is None else tuple(bound for bound in bounds if bound.family not in (REQUESTS, OPEN))
        )

    async def begin(self, call: Call) -> None:
        """Count a request before guards review it, so that their work is limited too. `enter` reserves tokens and money later.

        Raises RateLimited. If the request is then rejected, but not by a guard, call `cancel_begun`.
        """
        bounds = self._list_begun(call)
        if bounds:
            reservation, levels = await self.limiter.reserve(bounds, [1] * len(bounds))
            call.charge.reserve(Reservations([reservation], levels=find_lowest(levels), has_begun=True))

    def try_begin(self, call: Call) -> bool:
        """Count like `begin`, without waiting. Return False, without an effect, if that is impossible, or if a bound refuses."""
        bounds = self._list_begun(call)
        if bounds:
            reserved = self.limiter.try_reserve(bounds, [1] * len(bounds))
            if reserved is None:
                return False
            reservation, levels = reserved
            call.charge.reserve(Reservations([reservation], levels=find_lowest(levels), has_begun=True))
        return True

    def _list_begun(self, call: Call) -> tuple[Bound, ...]:
        """Return the bounds that `begin` reserves."""
        if not self.is_active and not call.caller.bounds:
            return NO_BOUNDS
        bounds = self._list_unreserved(call, self._find_requested(call.model), None)
        return tuple(bound for bound in bounds if bound.family in (REQUESTS, OPEN))

    def cancel_begun(self, charge: Charge) -> None:
        """Return the reservations of a request that `begin` counted, unless `enter` has admitted it."""
        if charge.reservations is not None and charge.reservations.has_begun:
            self.cancel(charge)

    def _find_requested(self, model: str) -> tuple[Bound, ...]:
        """Return the bounds of the model that a request names."""
        return self._of_models.get(self._find_entry_name(model), NO_BOUNDS) if self._of_models else NO_BOUNDS

    def _estimate_amounts(
        self, bounds: Iterable[Bound], charge: Charge, target: Target, price: Price | None, estimate: Estimate
    ) -> tuple[list[int], list[int]]:
        """Return the minimum usage of each bound, and the probable usage."""
        least, likely = estimate.list_quantities(self.usual.get_tokens(target.model))
        costs = (estimate_cost(price, least), estimate_cost(price, likely))
        tokens = tuple((usage.input_tokens or 0) + (usage.output_tokens or 0) for usage in (least, likely))
        lowest, probable = [], []
        for bound in bounds:
            if bound.family in (REQUESTS, OPEN):
                low = high = 0 if charge.is_inner and bound.kind in OF_THE_WHOLE else 1
            else:
                low, high = costs if bound.name.startswith("usd") else tokens
                high = max(
                    low, min(high, max(bound.limit, 1))
                )  # an estimate above the limit does not reject the request
            lowest.append(low)
            probable.append(high)
        return lowest, probable

    # After an attempt, and after the request

    def note_failure(self, call: Call, error: BaseException) -> None:
        """Return reservations after a failed attempt: all if the caller must correct the request, else the target's."""
        reservations = call.charge.reservations
        if reservations is None or not isinstance(error, GateError):
            return
        if error.status < 500 and not isinstance(error, UpstreamError):
            self.cancel(call.charge)
        elif error.retryable and reservations.of_target is not None:
            self.limiter.settle(reservations.of_target, 0, 0)
            reservations.of_target = None

    def cancel(self, charge: Charge) -> None:
        """Return all reservations of a request that was rejected."""
        reservations = charge.take_reservations()
        if reservations is not None:
            for reservation in reservations.list_all():
                self.limiter.cancel(reservation)

    def settle(self, reservations: Reservations, tokens: int, cost: int) -> None:
        """Settle the reservations of a request that has ended to its usage."""
        for reservation in reservations.list_all():
            self.limiter.settle(reservation, tokens, cost)

    async def add_used(self, reservations: Reservations, tokens: int, cost: int) -> RateLimited | None:
        """Count the total usage of a session that continues. If a bound is exhausted, return the error that ends the session."""
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
        """Return the reservations that a task keeps until it ends, as JSON values. The others end with the request."""
        reservations = charge.reservations
        described = map(self.limiter.describe, reservations.list_all() if reservations is not None else ())
        return [values for values in described if values]

    def leave_to_task(self, charge: Charge) -> None:
        """Leave the reservations of `describe_reservations` to the task: it settles them, and the request does not."""
        reservations = charge.reservations
        for reservation in reservations.list_all() if reservations is not None else ():
            self.limiter.leave(reservation)

    def settle_task(self, kept: Iterable[Any], tokens: int, cost: int) -> None:
        """Settle the reservations that a task kept, because it has ended."""
        for values in kept:
            self.limiter.settle(self.limiter.restore(values), tokens, cost)

    # Remaining amounts

    async def describe_limits(self, call: Call, target: Target) -> dict[str, Any]:
        """Return the remaining amounts of the bounds of a request, as JSON values."""
        requested = self._find_requested(call.model)
        bounds = (*call.caller.bounds, *self._of_all, *requested, *self._of_providers.get(target.provider, ()))
        levels = await self.limiter.read(bounds) if bounds else ()
        description: dict[str, Any] = {}
        lowest = find_lowest(levels)
        for kind, level in (("requests", lowest.requests), ("tokens", lowest.tokens)):
            if level is not None:
                description[kind] = {"limit": level.limit, "remaining": level.remaining}
        if levels:
            description["bounds"] = [_describe_level(level) for level in levels]
        return description


def _note_reservation(charge: Charge, reservation: Reservation, levels: Sequence[Level], count: int) -> None:
    """Add a reservation to the charge of a request. Its first `count` bounds apply anywhere, the others at the target only."""
    reservations = charge.reservations or Reservations()
    bounds, amounts, moment, store = reservation.bounds, reservation.amounts, reservation.moment, reservation.store
    if count:
        reservations.of_request.append(Reservation(bounds[:count], amounts[:count], moment, store))
    if count < len(bounds):
        reservations.of_target = Reservation(bounds[count:], amounts[count:], moment, store)
    reservations.levels = find_lowest(levels, reservations.levels)
    reservations.has_begun = False
    charge.reserve(reservations)


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
