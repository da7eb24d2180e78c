"""What callers, the ledger and the metrics learn of the cost of a request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import orjson
import pytest
from tornado.ioloop import IOLoop

from tests.support.gates import ANSWER, START, WORDS, FakeProvider
from tests.support.served import CHAT, Ask
from tornado_gate import errors, types
from tornado_gate.config.prices import PriceEntry, Rates
from tornado_gate.ledger.reports import Reports, RequestRow
from tornado_gate.pipeline.gate import Gate
from tornado_gate.pipeline.snapshot_builder import build
from tornado_gate.types.value import replace

PRICE = PriceEntry(rates=Rates(input=Decimal("2.5"), output=Decimal(10)))


@pytest.fixture(autouse=True)
def priced(gate: Gate, io_loop: IOLoop) -> Gate:
    """The model "m", whose answers have 1 token of input and 2 of output."""

    async def apply() -> None:
        apply_prices(gate, {"m": PRICE})

    io_loop.run_sync(apply)  # a gate that has started belongs to the loop
    return gate


def apply_prices(gate: Gate, prices: dict[str, PriceEntry]) -> None:
    gate.replace(build(replace(gate.snapshot.config, prices=prices), gate.host, gate.snapshot.number + 1))


async def read_row(gate: Gate) -> RequestRow:
    """The row of the newest request."""
    assert await asyncio.to_thread(gate.ledger.flush)
    reports = Reports(gate.keys._store.database)
    (row,) = await asyncio.to_thread(lambda: reports.requests(limit=1))
    return row


def count_unpriced(gate: Gate) -> float:
    lines = gate.metrics.render()[0].decode().splitlines()
    name = 'tornado_gate_unpriced_requests_total{model="m",provider="fake"} '
    return sum(float(line.removeprefix(name)) for line in lines if line.startswith(name))


@pytest.mark.gen_test
async def test_a_whole_answer_says_what_it_costs(ask: Ask, gate: Gate) -> None:
    response = await ask("/plain", CHAT)
    assert response.headers["x-gate-cost"] == "0.0000225"
    assert (await read_row(gate)).cost == 22_500


@pytest.mark.gen_test
async def test_a_forwarded_answer_says_what_it_costs(ask: Ask, gate: Gate, fake: FakeProvider) -> None:
    async def meter_and_answer(_provider: FakeProvider, _call: types.Call) -> AsyncIterator[types.StreamEvent]:
        raise AssertionError("the answer is not translated")
        yield

    fake.script, fake.speaks, fake.chunks = meter_and_answer, frozenset({"plain"}), (b'{"answer": "hello"}',)
    gate.replace(build(gate.snapshot.config, gate.host, gate.snapshot.number + 1))
    response = await ask("/plain", CHAT)
    assert "x-gate-cost" not in response.headers, "PlainFormat reads no usage from what it forwards"
    apply_prices(gate, {"m": PriceEntry(per_request=Decimal("0.01"))})
    assert (await ask("/plain", CHAT)).headers["x-gate-cost"] == "0.01"


@pytest.mark.gen_test
async def test_the_cost_of_a_stream_is_in_the_ledger_alone(ask: Ask, gate: Gate) -> None:
    response = await ask("/plain", {**CHAT, "stream": True})
    assert "x-gate-cost" not in response.headers
    assert (await read_row(gate)).cost == 22_500


@pytest.mark.gen_test
async def test_a_stream_that_breaks_costs_what_it_has_produced(ask: Ask, gate: Gate, fake: FakeProvider) -> None:
    async def break_off(_provider: FakeProvider, _call: types.Call) -> AsyncIterator[types.StreamEvent]:
        yield START
        yield WORDS[0]
        yield types.PartDelta(index=0, data="hello " * 20)
        yield types.StreamError(error=errors.UpstreamError("gone"))

    fake.script = break_off
    await ask("/plain", {**CHAT, "stream": True})
    row = await read_row(gate)
    assert row.outcome == "broken"
    assert row.estimated
    assert row.output_tokens == 30
    assert row.input_tokens
    assert row.cost == row.input_tokens * 2500 + 30 * 10_000


@pytest.mark.gen_test
async def test_an_unknown_cost_is_null_and_counted(ask: Ask, gate: Gate) -> None:
    apply_prices(gate, {})
    response = await ask("/plain", CHAT)
    assert "x-gate-cost" not in response.headers
    assert (await read_row(gate)).cost is None
    assert count_unpriced(gate) == 1


@pytest.mark.gen_test
async def test_what_no_upstream_has_worked_for_costs_nothing(ask: Ask, gate: Gate, fake: FakeProvider) -> None:
    apply_prices(gate, {})
    fake.raises = errors.UpstreamError("down")
    assert (await ask("/plain", CHAT)).code == 502
    assert (await read_row(gate)).cost == 0
    refused = await ask("/plain", {"model": "m"})
    assert (refused.code, "x-gate-cost" in refused.headers) == (400, False)
    assert (await read_row(gate)).cost == 0
    models = await ask("/plain/models")
    assert (models.code, "x-gate-cost" in models.headers) == (200, False)
    assert count_unpriced(gate) == 0


@pytest.mark.gen_test
async def test_only_the_target_that_answered_costs_something(ask: Ask, gate: Gate, fake: FakeProvider) -> None:
    attempts: list[types.Call] = []

    async def fail_first(_provider: FakeProvider, call: types.Call) -> AsyncIterator[types.StreamEvent]:
        attempts.append(call)
        yield START
        yield types.UsageReport(usage=types.Usage(input_tokens=1000, output_tokens=0))
        if len(attempts) == 1:
            raise errors.UpstreamError("down")
        for event in ANSWER[1:]:
            yield event

    fake.script = fail_first
    config = gate.snapshot.config
    target = config.models["m"].targets[0]
    both = replace(config.models["m"], targets=(target, replace(target, model="n")))
    prices = {"m": PRICE, "n": PRICE}
    gate.replace(build(replace(config, models={"m": both}, prices=prices), gate.host, gate.snapshot.number + 1))
    response = await ask("/plain", CHAT)
    assert (len(attempts), response.headers["x-gate-attempts"]) == (2, "2")
    assert response.headers["x-gate-cost"] == "0.0000225"


@pytest.mark.gen_test
async def test_a_model_without_a_price_is_403_where_conf_says_so(ask: Ask, gate: Gate, fake: FakeProvider) -> None:
    gate.replace(build(replace(gate.snapshot.config, prices={}, unpriced="deny"), gate.host, gate.snapshot.number + 1))
    response = await ask("/plain", CHAT)
    error: dict[str, Any] = orjson.loads(response.body)["error"]
    assert (response.code, error["code"], error["param"]) == (403, "unpriced_model", "model")
    assert not fake.asked


@pytest.mark.gen_test
async def test_what_an_abandoned_attempt_reported_is_not_charged_to_the_next(
    ask: Ask, gate: Gate, fake: FakeProvider
) -> None:
    """The first attempt reports its usage and fails before its first event; the second reports nothing."""

    async def report_and_fail(provider: FakeProvider, call: types.Call) -> AsyncIterator[types.StreamEvent]:
        if len(provider.asked) == 1:
            call.meter.record_usage(types.Usage(input_tokens=10**6, output_tokens=10**6))
            call.meter.add_images(7)
            raise errors.UpstreamTimeout("The upstream did not answer in time.")
        for event in (START, *WORDS, types.Finish(reason="stop", raw="end")):
            yield event

    fake.script = report_and_fail
    entry = gate.snapshot.config.models["m"]
    models = {"m": replace(entry, targets=entry.targets * 2)}
    gate.replace(build(replace(gate.snapshot.config, models=models), gate.host, gate.snapshot.number + 1))
    response = await ask("/plain", CHAT)
    assert response.code == 200
    row = await read_row(gate)
    assert row.estimated
    assert row.images == 0
    assert row.input_tokens is not None
    assert row.input_tokens < 100
    assert row.cost == row.input_tokens * 2500 + (row.output_tokens or 0) * 10_000


@pytest.mark.gen_test
async def test_an_answer_without_usage_says_no_cost_because_it_is_an_estimate(
    ask: Ask, gate: Gate, fake: FakeProvider
) -> None:
    async def say_nothing(_provider: FakeProvider, _call: types.Call) -> AsyncIterator[types.StreamEvent]:
        for event in (START, *WORDS, types.Finish(reason="stop", raw="end")):
            yield event

    fake.script = say_nothing
    response = await ask("/plain", CHAT)
    assert "x-gate-cost" not in response.headers
    assert (await read_row(gate)).cost
