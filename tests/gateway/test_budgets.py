"""Budgets: what is refused, why, until when; what running requests hold; what the ledger adds."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from tornado_gate import types
from tornado_gate.config.model import PriceEntry, Rates
from tornado_gate.database.engine import Database
from tornado_gate.database.opening import open_database
from tornado_gate.errors import RateLimited
from tornado_gate.gateway import budgets as module
from tornado_gate.gateway.budgets import Budgets, estimate_quantities
from tornado_gate.ledger.entries import Entry, make_row
from tornado_gate.ledger.prices import Quantities, make_price
from tornado_gate.ledger.spending import Used, find_period, read_used
from tornado_gate.ledger.writing import write_rows
from tornado_gate.types import NO_BUDGET, Budget

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC).timestamp()
DAY = 86_400
PRICE = make_price(
    PriceEntry(rates=Rates(input=Decimal(1), output=Decimal(10)))
)  # $0.011 for 1000 tokens and 1000 tokens
THOUSAND = Quantities(input_tokens=1000, output_tokens=1000)


class Clock:
    now = NOON

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    opened = open_database(tmp_path_factory.mktemp("data"))
    yield opened
    opened.close()


@pytest.fixture
def budgets(database: Database, clock: Clock) -> Budgets:
    return Budgets(database, lambda seconds: True, clock)


def make_call(key: str, team: str = "", team_budget: Budget = NO_BUDGET, **budget: Any) -> types.Call:
    own = Budget(**budget) if budget else NO_BUDGET
    caller = types.Caller(id=key, account="a", budget=own, team=team, team_budget=team_budget)
    return types.Call(id="r", operation="chat", format="plain", caller=caller)


def record(database: Database, moment: float, *, key: str, team: str = "", tokens: int = 0, cost: str = "0") -> None:
    """Add a request to the ledger, of `tokens` of input and this cost in US dollars."""

    class Prices:
        def find(self, _provider: str, _model: str) -> Any:
            return make_price(PriceEntry(per_request=Decimal(cost)))

    caller = types.Caller(id=key, account="a", team=team)
    target = types.Target(provider="p", plugin="p", model="m", upstream_model="m")
    meter = types.Meter(usage=types.Usage(input_tokens=tokens, output_tokens=0), finish_reason="stop", model="m")
    prices: Any = Prices()
    entry = Entry(
        int(moment * 1e6), "r", caller, target, "m", "chat", "plain", 200, "", "", meter, 1.0, {}, prices=prices
    )
    write_rows(database, [make_row(entry)], may_repeat=False)


async def admit(budgets: Budgets, call: types.Call, estimate: Quantities = THOUSAND) -> RateLimited | None:
    try:
        await budgets.admit(call, PRICE, estimate)
    except RateLimited as error:
        return error
    return None


def run(coroutine: Any) -> Any:
    return asyncio.run(coroutine)


# What is refused


def test_a_request_that_may_exceed_the_bound_is_refused_with_all_that_matters(
    budgets: Budgets, database: Database
) -> None:
    record(database, NOON - 60, key="told", cost="0.99")
    error = run(admit(budgets, make_call("told", usd_per_day=1)))
    assert (error.status, error.code) == (429, "budget_exceeded")
    assert error.message == (
        "The budget of this API key does not allow this request: usd_per_day is $1, $0.99 are used or in use, and the "
        "request may use $0.011. The budget begins anew at 2026-12-01T00:00:00Z."
    )
    assert error.headers["Retry-After"] == str(DAY // 2)


def test_what_reaches_the_bound_exactly_is_allowed(budgets: Budgets, database: Database) -> None:
    record(database, NOON - 60, key="exact", cost="0.989")
    assert run(admit(budgets, make_call("exact", usd_per_day=1))) is None


@pytest.mark.parametrize(
    ("bound", "shown"),
    [
        ({"tokens_per_day": 2999}, "tokens_per_day is 2999 tokens, 1000 tokens are used or in use"),
        ({"tokens_per_month": 2999}, "tokens_per_month is 2999 tokens, 1000 tokens are used or in use"),
        ({"usd_per_month": 0.01}, "usd_per_month is $0.01, $0 are used or in use"),
    ],
    ids=["tokens of a day", "tokens of a month", "US dollars of a month"],
)
def test_every_bound_counts(budgets: Budgets, database: Database, bound: dict[str, Any], shown: str) -> None:
    key = f"bound {shown}"
    record(database, NOON - 60, key=key, tokens=1000)
    error = run(admit(budgets, make_call(key, **bound)))
    assert shown in error.message


def test_a_budget_of_zero_allows_nothing_that_costs_and_all_that_is_free(budgets: Budgets) -> None:
    assert run(admit(budgets, make_call("zero", usd_per_day=0))) is not None
    run(budgets.admit(make_call("zero", usd_per_day=0), None, THOUSAND))  # its price is unknown


def test_the_budget_of_the_team_counts_for_all_its_keys(budgets: Budgets, database: Database) -> None:
    record(database, NOON - 60, key="member 1", team="research", cost="4.995")
    call = make_call("member 2", team="research", team_budget=Budget(usd_per_month=5), usd_per_day=1)
    error = run(admit(budgets, call))
    assert error.message.startswith(
        "The budget of the team of this API key does not allow this request: usd_per_month is $5"
    )


def test_the_bound_with_the_least_left_is_named(budgets: Budgets, database: Database) -> None:
    record(database, NOON - 60, key="both", cost="3")
    error = run(admit(budgets, make_call("both", usd_per_day=2, usd_per_month=3)))
    assert "usd_per_day is $2, $3 are used" in error.message


# Days and months


def test_days_and_months_are_those_of_the_calendar_in_utc(budgets: Budgets, database: Database, clock: Clock) -> None:
    record(database, NOON - DAY, key="calendar", cost="1")
    assert run(admit(budgets, make_call("calendar", usd_per_day=1))) is None
    error = run(admit(budgets, make_call("calendar", usd_per_month=1)))
    assert "begins anew at 2026-12-01T00:00:00Z" in error.message
    clock.now = NOON + DAY  # in December
    assert run(admit(budgets, make_call("calendar", usd_per_month=1))) is None


def test_a_new_day_begins_without_a_new_reading(budgets: Budgets, database: Database, clock: Clock) -> None:
    record(database, NOON - 60, key="midnight", cost="1")

    async def main() -> None:
        assert await admit(budgets, make_call("midnight", usd_per_day=1)) is not None
        clock.now = NOON + DAY / 2
        assert await admit(budgets, make_call("midnight", usd_per_day=1)) is None

    run(main())


@pytest.mark.parametrize(
    ("moment", "month", "next_month"),
    [
        ((2026, 12, 31, 23, 59), (2026, 12), (2027, 1)),
        ((2028, 2, 29, 0, 0), (2028, 2), (2028, 3)),
        ((2026, 1, 1, 0, 0), (2026, 1), (2026, 2)),
    ],
    ids=["the last minute of a year", "a leap day", "the first moment of a year"],
)
def test_a_period_is_a_day_and_a_month(moment: Any, month: Any, next_month: Any) -> None:
    at = datetime(*moment, tzinfo=UTC)
    period = find_period(at.timestamp())
    assert period.day == at.replace(hour=0, minute=0).timestamp()
    assert period.next_day == period.day + DAY
    assert period.month == datetime(*month, 1, tzinfo=UTC).timestamp()
    assert period.next_month == datetime(*next_month, 1, tzinfo=UTC).timestamp()


# Running requests


def test_of_many_requests_at_once_only_those_are_admitted_for_which_the_budget_suffices(budgets: Budgets) -> None:
    async def main() -> list[RateLimited | None]:
        calls = [make_call("at once", usd_per_day=0.033) for _ in range(50)]
        return await asyncio.gather(*[admit(budgets, call) for call in calls])

    assert [error is None for error in run(main())].count(True) == 3


def test_a_request_that_ends_counts_with_what_it_has_used(budgets: Budgets) -> None:
    async def main() -> None:
        first = make_call("settled", usd_per_day=0.02)
        assert await admit(budgets, first) is None
        assert await admit(budgets, make_call("settled", usd_per_day=0.02)) is not None
        budgets.settle(first.meter.claim, 2_000_000, 200)
        second = make_call("settled", usd_per_day=0.02)
        assert await admit(budgets, second) is None
        budgets.settle(second.meter.claim, None, 100)  # its cost is unknown
        error = await admit(budgets, make_call("settled", tokens_per_day=2299))
        assert error is not None
        assert "300 tokens are used" in error.message

    run(main())


def test_what_the_process_has_counted_and_then_finds_in_the_ledger_counts_once(
    budgets: Budgets, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        call = make_call("once", usd_per_day=1)
        await admit(budgets, call)
        record(database, NOON, key="once", cost="0.5")
        budgets.settle(call.meter.claim, 500_000_000, 0)
        monkeypatch.setattr(module, "REFRESH_SECONDS", -1.0)
        monkeypatch.setattr(module, "STALE_SECONDS", -1.0)
        assert await admit(budgets, make_call("once", usd_per_day=0.512)) is None
        error = await admit(budgets, make_call("once", usd_per_day=0.521))
        assert error is not None
        assert "$0.511 are used or in use" in error.message

    run(main())


# Reading the ledger


def test_a_ledger_that_cannot_be_read_stops_no_request(
    database: Database, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    budgets = Budgets(database, lambda seconds: False, clock)

    async def main() -> None:
        call = make_call("unread", usd_per_day=0.02)
        assert await admit(budgets, call) is None
        budgets.settle(call.meter.claim, 11_000_000, 0)
        assert await admit(budgets, make_call("unread", usd_per_day=0.02)) is not None

    run(main())
    assert "the ledger cannot be read: it is not written in time" in caplog.text


def test_the_ledger_is_read_once_a_second_and_by_one_reader(
    database: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings: list[list[str]] = []

    def count(_database: Database, _kind: str, ids: list[str], _period: Any) -> dict[str, Used]:
        readings.append(sorted(ids))
        return {}

    monkeypatch.setattr(module, "read_used", count)
    budgets = Budgets(database, lambda seconds: True, clock)

    async def main() -> None:
        calls = [make_call(f"reader {number % 3}", usd_per_day=100) for number in range(30)]
        await asyncio.gather(*[admit(budgets, call) for call in calls])
        await admit(budgets, make_call("reader 0", usd_per_day=100))

    run(main())
    assert sorted(key for keys in readings for key in keys) == ["reader 0", "reader 1", "reader 2"]


def test_the_totals_are_those_of_the_wanted_keys_in_this_month(database: Database) -> None:
    for day, key in ((0, "sum 1"), (1, "sum 1"), (2, "sum 2"), (40, "sum 2"), (0, "other")):
        record(database, NOON - day * DAY, key=key, team="sums", tokens=10, cost="1")
    period, dollar = find_period(NOON), 10**9
    assert read_used(database, "key", ["sum 1", "sum 2", "unknown"], period) == {
        "sum 1": Used(dollar, 10, 2 * dollar, 20),
        "sum 2": Used(0, 0, dollar, 10),
    }
    assert read_used(database, "team", ["sums"], period) == {"sums": Used(2 * dollar, 20, 4 * dollar, 40)}
    many = [f"nobody {number}" for number in range(1200)]
    assert read_used(database, "key", [*many, "sum 1"], period) == {"sum 1": Used(dollar, 10, 2 * dollar, 20)}


# Estimates


@pytest.mark.parametrize(
    ("operation", "body", "expected"),
    [
        ("chat", {"max_tokens": 50}, Quantities(input_tokens=7, output_tokens=50)),
        ("chat", {"max_completion_tokens": 60}, Quantities(input_tokens=7, output_tokens=60)),
        ("chat", {"generationConfig": {"maxOutputTokens": 70}}, Quantities(input_tokens=7, output_tokens=70)),
        ("chat", {"max_tokens": True}, Quantities(input_tokens=7, output_tokens=1000)),
        ("chat", {"generationConfig": []}, Quantities(input_tokens=7, output_tokens=1000)),
        ("embeddings", {}, Quantities(input_tokens=7, output_tokens=0)),
        ("images", {"n": 3}, Quantities(input_tokens=7, output_tokens=0, images=3)),
        ("images", {"n": "3"}, Quantities(input_tokens=7, output_tokens=0, images=1)),
        ("speech", {"input": "hello"}, Quantities(input_tokens=7, output_tokens=0, characters=5)),
    ],
)
def test_an_estimate_is_the_prompt_and_the_longest_answer_that_the_request_allows(
    operation: str, body: dict[str, Any], expected: Quantities
) -> None:
    assert estimate_quantities(operation, body, 7) == expected


def test_the_absence_of_a_budget_costs_nothing() -> None:
    assert not types.Caller(id="k", account="a").has_budget
    assert not types.replace(types.Caller(id="k", account="a"), name="n").has_budget
    assert types.Caller(id="k", account="a", team_budget=Budget(usd_per_day=1)).has_budget
