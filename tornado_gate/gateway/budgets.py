"""Budgets of keys and teams: what may be spent in a UTC day and month, in US dollars and in tokens.

A request is refused if what was used, what running requests of this process may use, and its own estimate exceed a bound. What
was used is read from the ledger about once a second, and counted here in between; so processes together may exceed a bound by
what runs in the others within about a second. Callers without a budget cost nothing here.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from cachetools import LRUCache

from tornado_gate.database.engine import Database, DatabaseError
from tornado_gate.errors import RateLimited
from tornado_gate.ledger.costs import Price, Quantities, compute_cost, format_usd
from tornado_gate.ledger.spending import Period, Used, find_period, read_used
from tornado_gate.types import NO_BUDGET, Budget, Call, Caller
from tornado_gate.types.value import State

log = logging.getLogger(__name__)

REFRESH_SECONDS: Final = 1.0
"""The age of a reading of the ledger from which a new one is made."""
STALE_SECONDS: Final = 5.0
"""The age from which a request waits for the new one."""
FLUSH_SECONDS: Final = 2.0
MAX_ACCOUNTS: Final = 20_000
USUAL_ANSWER_TOKENS: Final = 1000
"""The estimate for an answer whose request does not limit it."""
ANSWER_LIMITS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens")
"""The names of the limit in bodies of all formats."""
NANO: Final = 10**9

Subject = tuple[str, str]
"""("key" or "team", its id)."""


class Spending(State):
    """What one key or team has used. `known` is what the ledger had at `read_at` (monotonic seconds), for `day` and `month`.

    `unread`, `own` and `reserved` are [nano-dollars, tokens] of this process: what a reading that is under way will contain,
    what has been used since, and what running requests may use.
    """

    day: int = 0
    month: int = 0
    known: Used = Used()
    read_at: float | None = None
    unread: tuple[int, int] = (0, 0)
    own: tuple[int, int] = (0, 0)
    reserved: tuple[int, int] = (0, 0)

    def begin_period(self, period: Period) -> None:
        """Forget what was used before `period`."""
        if self.month != period.month:
            self.known = Used()
        elif self.day != period.day:
            self.known = self.known._replace(day_cost=0, day_tokens=0)
        self.day, self.month = period.day, period.month


class Claim(NamedTuple):
    """The estimate of a running request, which counts until the request is settled."""

    accounts: tuple[Spending, ...]
    estimate: tuple[int, int]


class _Bound(NamedTuple):
    owner: str
    name: str
    limit: int
    used: int
    estimate: int
    resets: int


class Budgets:
    """The spending of the callers with a budget, in one process. Belongs to the event loop.

    `flush` waits until everything that was recorded is in the ledger, and returns False if that takes longer than its argument.
    """

    def __init__(
        self, database: Database, flush: Callable[[float], bool], clock: Callable[[], float] = time.time
    ) -> None:
        self._database = database
        self._flush = flush
        self._clock = clock
        self._spending: LRUCache[Subject, Spending] = LRUCache(MAX_ACCOUNTS)
        self._due: dict[Subject, Spending] = {}
        self._reading: asyncio.Task[None] | None = None

    async def admit(self, call: Call, price: Price | None, estimate: Quantities) -> None:
        """Count a request of a caller with a budget until it is settled. Raises RateLimited if it may exceed a bound."""
        caller = call.caller
        owners = _list_budgets(caller)
        accounts = {subject: self._find(subject) for subject in owners}
        waits = [self._must_wait(subject, account) for subject, account in accounts.items()]
        if any(waits) and self._reading is not None:
            await asyncio.shield(self._reading)
        self.release(call.meter.claim)  # of an earlier attempt to admit it
        cost = compute_cost(price, estimate) or 0
        tokens = (estimate.input_tokens or 0) + (estimate.output_tokens or 0)
        self._check(owners, accounts, (cost, tokens))
        for account in accounts.values():
            account.reserved = _add(account.reserved, (cost, tokens))
        call.meter.claim = Claim(tuple(accounts.values()), (cost, tokens))

    def release(self, claim: Claim | None) -> None:
        """The request of a claim has ended, or never began."""
        if claim is not None:
            for account in claim.accounts:
                account.reserved = _add(account.reserved, claim.estimate, -1)

    def settle(self, claim: Claim, cost: int | None, tokens: int) -> None:
        """A request has ended and has used this; None: its cost is unknown, and counts as nothing."""
        self.release(claim)
        for account in claim.accounts:
            account.own = _add(account.own, (cost or 0, tokens))

    def _check(
        self, owners: Mapping[Subject, Budget], accounts: Mapping[Subject, Spending], estimate: tuple[int, int]
    ) -> None:
        period = find_period(self._clock())
        exceeded: list[_Bound] = []
        for subject, budget in owners.items():
            account = accounts[subject]
            account.begin_period(period)
            exceeded += [
                bound
                for bound in _list_bounds(subject[0], budget, account, estimate, period)
                if bound.used + bound.estimate > bound.limit
            ]
        if exceeded:
            raise _make_error(min(exceeded, key=lambda bound: bound.limit - bound.used), self._clock())

    # Reading the ledger

    def _find(self, subject: Subject) -> Spending:
        account = self._spending.get(subject)
        if account is None:
            account = self._spending[subject] = Spending()
        return account

    def _must_wait(self, subject: Subject, account: Spending) -> bool:
        """Have the spending read if its last reading is old. Returns whether the request must wait for it."""
        age = None if account.read_at is None else time.monotonic() - account.read_at
        if age is not None and age < REFRESH_SECONDS:
            return False
        self._due[subject] = account
        if self._reading is None:
            self._reading = asyncio.create_task(self._read_due(), name="read the spending of budgets")
        return age is None or age >= STALE_SECONDS

    async def _read_due(self) -> None:
        try:
            while self._due:
                due, self._due = self._due, {}
                await self._read(due)
        finally:
            self._reading = None

    async def _read(self, due: Mapping[Subject, Spending]) -> None:
        for account in due.values():
            account.unread, account.own = account.own, (0, 0)
        period = find_period(self._clock())
        try:
            found = await asyncio.to_thread(self._read_ledger, tuple(due), period)
        except (DatabaseError, TimeoutError) as error:
            log.warning("budgets count only what this process has spent since: the ledger cannot be read: %s", error)
            found = None
        for subject, account in due.items():
            if found is None:
                account.own = _add(account.own, account.unread)
            else:
                account.known, account.day, account.month = found.get(subject, Used()), period.day, period.month
            account.unread = (0, 0)
            account.read_at = time.monotonic()

    def _read_ledger(self, subjects: Iterable[Subject], period: Period) -> dict[Subject, Used]:
        if not self._flush(FLUSH_SECONDS):
            raise TimeoutError("it is not written in time")
        found: dict[Subject, Used] = {}
        for kind in ("key", "team"):
            ids = [name for each, name in subjects if each == kind]
            used = read_used(self._database, kind, ids, period) if ids else {}
            found |= {(kind, name): value for name, value in used.items()}
        return found


def _list_budgets(caller: Caller) -> dict[Subject, Budget]:
    budgets = {("key", caller.id): caller.budget, ("team", caller.team): caller.team_budget}
    return {subject: budget for subject, budget in budgets.items() if budget is not NO_BUDGET}


def _list_bounds(
    owner: str, budget: Budget, account: Spending, estimate: tuple[int, int], period: Period
) -> list[_Bound]:
    cost, tokens = (sum(each) for each in zip(account.unread, account.own, account.reserved, strict=True))
    known = account.known
    bounds = (
        ("usd_per_day", budget.usd_per_day, known.day_cost + cost, estimate[0], period.next_day),
        ("usd_per_month", budget.usd_per_month, known.month_cost + cost, estimate[0], period.next_month),
        ("tokens_per_day", budget.tokens_per_day, known.day_tokens + tokens, estimate[1], period.next_day),
        ("tokens_per_month", budget.tokens_per_month, known.month_tokens + tokens, estimate[1], period.next_month),
    )
    return [
        _Bound(owner, name, round(limit * NANO) if name.startswith("usd") else int(limit), used, asked, resets)
        for name, limit, used, asked, resets in bounds
        if limit is not None
    ]


def _make_error(bound: _Bound, now: float) -> RateLimited:
    if bound.name.startswith("usd"):
        limit, used, asked = (f"${format_usd(amount)}" for amount in (bound.limit, bound.used, bound.estimate))
    else:
        limit, used, asked = (f"{number} tokens" for number in (bound.limit, bound.used, bound.estimate))
    owner = "this API key" if bound.owner == "key" else "the team of this API key"
    resets = datetime.fromtimestamp(bound.resets, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    message = (
        f"The budget of {owner} does not allow this request: {bound.name} is {limit}, {used} are used or in use, and the "
        f"request may use {asked}. The budget begins anew at {resets}."
    )
    return RateLimited(message, retry_after=bound.resets - now, code="budget_exceeded")


def _add(one: tuple[int, int], other: tuple[int, int], sign: int = 1) -> tuple[int, int]:
    return one[0] + sign * other[0], one[1] + sign * other[1]


def estimate_quantities(operation: str, body: Mapping[str, Any], prompt_tokens: int) -> Quantities:
    """What a request may use: its prompt and the longest answer that it allows; the images or the text that it asks for."""
    count = body.get("n")
    if operation in ("images", "image_edits"):
        return Quantities(input_tokens=prompt_tokens, output_tokens=0, images=count if isinstance(count, int) else 1)
    if operation == "speech":
        text = body.get("input")
        characters = len(text) if isinstance(text, str) else 4 * prompt_tokens
        return Quantities(input_tokens=prompt_tokens, output_tokens=0, characters=characters)
    answer = _find_answer_tokens(body) if operation == "chat" else 0
    return Quantities(input_tokens=prompt_tokens, output_tokens=answer)


def _find_answer_tokens(body: Mapping[str, Any]) -> int:
    """The limit of the answer's tokens in a body of any format, or USUAL_ANSWER_TOKENS."""
    nested = (body.get("generationConfig"), body.get("generation_config"))
    for place in (body, *(each for each in nested if isinstance(each, Mapping))):
        for name in ANSWER_LIMITS:
            limit = place.get(name)
            if isinstance(limit, int) and not isinstance(limit, bool) and limit >= 0:
                return limit
    return USUAL_ANSWER_TOKENS
