"""What a request reserves of the bounds of its caller, its model, its target and the gateway, and what each end gives back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.support.gates import make_config, model
from tornado_gate.admission.bounds import make_bound
from tornado_gate.admission.embedded import EmbeddedStore
from tornado_gate.admission.estimates import Estimate
from tornado_gate.admission.limiter import Limiter
from tornado_gate.admission.reservations import Admission
from tornado_gate.config.model import BoundsConfig, Config, LimitsConfig
from tornado_gate.config.prices import PriceEntry, Rates
from tornado_gate.errors import InternalError, InvalidField, RateLimited, UpstreamRefused, UpstreamTimeout
from tornado_gate.ledger.prices import PriceTable
from tornado_gate.telemetry.metrics import Metrics
from tornado_gate.types import Bound, Call, Caller, Limits, Target, replace
from tornado_gate.types.quantities import Quantities

KEY = make_bound("key", "k", "requests_per_minute", 5)
KEY_OPEN = make_bound("key", "k", "concurrent_requests", 5)
KEY_TOKENS = make_bound("key", "k", "tokens_per_minute", 500)
MODEL = make_bound("model", "m", "requests_per_minute", 3)
OTHER_MODEL = make_bound("model", "n", "requests_per_minute", 3)
PROVIDER = make_bound("provider", "fake", "requests_per_minute", 2)
GATEWAY = make_bound("gateway", "", "requests_per_minute", 4)


def limit(number: int) -> BoundsConfig:
    return BoundsConfig(limits=Limits(requests_per_minute=number))


def make_limited_config(tmp_path: Path) -> Config:
    models = {"m": model("m", "fake", limits=limit(3)), "n": model("n", "fake", limits=limit(3))}
    config = make_config(tmp_path, models, limits=LimitsConfig(gateway=limit(4)))
    return replace(config, providers={"fake": replace(config.providers["fake"], limits=limit(2))})


class Desk:
    """An admission with its store, and calls for it."""

    def __init__(self, config: Config, folder: Path) -> None:
        self.prices = PriceTable(config)
        store = EmbeddedStore(folder / "limits")
        self.limiter = Limiter(store, None, lambda _bounds: {}, Metrics().limits)
        self.admission = Admission(self.limiter)
        self.admission.apply(config, str)

    async def enter(self, call: Call, target: str = "m", estimate: Estimate | None = None) -> RateLimited | None:
        return await self.admission.enter(self.prices, call, make_target(target), estimate)

    async def count_used(self, *bounds: Bound) -> list[int]:
        return [level.used for level in await self.limiter.read(bounds)]


def make_target(name: str = "m", provider: str = "fake") -> Target:
    return Target(provider=provider, plugin="x", model=name, upstream_model=name)


def make_call(bounds: Sequence[Bound] = (KEY,), name: str = "m") -> Call:
    caller = Caller(id="k", account="a", bounds=tuple(bounds))
    return Call(id="r", operation="chat", format="plain", caller=caller, model=name)


def run(tmp_path: Path, test: Callable[[Desk], Awaitable[None]], config: Config | None = None) -> None:
    async def main() -> None:
        desk = Desk(config or make_limited_config(tmp_path), tmp_path)
        try:
            async with asyncio.timeout(60):
                await test(desk)
        finally:
            await desk.limiter.close()

    asyncio.run(main())


def test_a_request_counts_once_for_each_of_its_subjects_and_a_second_target_only_for_its_account(
    tmp_path: Path,
) -> None:
    async def test(desk: Desk) -> None:
        call = make_call()
        for _ in range(2):  # two attempts of one request
            assert await desk.enter(call) is None
            desk.admission.note_failure(call, UpstreamTimeout("late"))
        assert await desk.count_used(KEY, MODEL, GATEWAY, PROVIDER) == [1, 1, 1, 2]
        assert await desk.enter(make_call(), "n") is not None, "the account of the target is full"
        assert await desk.count_used(KEY, MODEL, GATEWAY, PROVIDER, OTHER_MODEL) == [1, 1, 1, 2, 0]

    run(tmp_path, test)


def test_a_target_is_counted_for_its_own_model_beside_the_model_that_was_requested(tmp_path: Path) -> None:
    async def test(desk: Desk) -> None:
        await desk.enter(make_call(), "n")
        assert await desk.count_used(MODEL, OTHER_MODEL) == [1, 1]
        await desk.enter(make_call(), "m")
        assert await desk.count_used(MODEL, OTHER_MODEL) == [2, 1], "not twice"

    run(tmp_path, test)


def test_only_what_another_target_would_not_exceed_leads_to_the_next_target(tmp_path: Path) -> None:
    async def test(desk: Desk) -> None:
        for _ in range(2):
            assert await desk.enter(make_call()) is None
        refusal = await desk.enter(make_call())
        assert refusal is not None
        assert refusal.exceeded["subject"] == "provider"
        with pytest.raises(RateLimited) as caught:
            await desk.enter(make_call([make_bound("key", "k", "requests_per_minute", 2)]))
        assert caught.value.exceeded["subject"] == "key"

    run(tmp_path, test)


def test_the_model_that_was_requested_refuses_and_the_model_of_a_target_does_not(tmp_path: Path) -> None:
    models = {"m": model("m", "fake"), "n": model("n", "fake", limits=limit(1))}

    async def test(desk: Desk) -> None:
        assert await desk.enter(make_call(), "n") is None
        refusal = await desk.enter(make_call(), "n")
        assert refusal is not None
        assert refusal.exceeded["subject"] == "model"
        with pytest.raises(RateLimited):
            await desk.enter(make_call(name="n"), "n")

    run(tmp_path, test, make_config(tmp_path, models))


@pytest.mark.parametrize(
    ("error", "counted"),
    [
        (InvalidField("x", "it is wrong"), [0, 0]),
        (UpstreamRefused("the upstream says 400", status=400), [1, 1]),
        (UpstreamTimeout("late"), [1, 1]),
        (InternalError(), [1, 1]),
        (KeyError("no error of the gateway"), [1, 1]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_the_caller_must_correct_counts_nowhere(tmp_path: Path, error: BaseException, counted: list[int]) -> None:
    async def test(desk: Desk) -> None:
        call = make_call()
        await desk.enter(call)
        desk.admission.note_failure(call, error)
        assert await desk.count_used(KEY, PROVIDER) == counted
        desk.admission.note_failure(make_call(), error)  # nothing was reserved
        assert await desk.count_used(KEY, PROVIDER) == counted

    run(tmp_path, test)


def test_an_attempt_that_may_be_repeated_leaves_its_account_and_no_other_does(tmp_path: Path) -> None:
    provider_open = make_bound("provider", "fake", "concurrent_requests", 9)
    config = make_config(tmp_path)
    bounds = BoundsConfig(limits=Limits(concurrent_requests=9))
    config = replace(config, providers={"fake": replace(config.providers["fake"], limits=bounds)})

    async def test(desk: Desk) -> None:
        call = make_call([KEY_OPEN])
        await desk.enter(call)
        desk.admission.note_failure(call, UpstreamRefused("no", status=400))
        assert await desk.count_used(KEY_OPEN, provider_open) == [1, 1]
        desk.admission.note_failure(call, UpstreamTimeout("late"))
        assert await desk.count_used(KEY_OPEN, provider_open) == [1, 0]
        desk.admission.cancel(call.charge)
        desk.admission.cancel(call.charge)
        assert await desk.count_used(KEY_OPEN, provider_open) == [0, 0]

    run(tmp_path, test, config)


def test_a_request_counts_while_guards_review_it_and_once_when_it_is_admitted(tmp_path: Path) -> None:
    async def test(desk: Desk) -> None:
        bounds = (KEY, KEY_OPEN, KEY_TOKENS)
        call = make_call(bounds)
        await desk.admission.begin(call)
        assert await desk.count_used(*bounds, GATEWAY, MODEL, PROVIDER) == [1, 1, 0, 1, 1, 0]
        await desk.enter(call, estimate=Estimate(Quantities(input_tokens=7, output_tokens=3)))
        assert await desk.count_used(*bounds, GATEWAY, MODEL, PROVIDER) == [1, 1, 10, 1, 1, 1]
        desk.admission.cancel_begun(call.charge)
        assert await desk.count_used(*bounds) == [1, 1, 10], "it was admitted"
        reservations = call.charge.take_reservations()
        assert reservations is not None
        desk.admission.settle(reservations, 4, 0)
        assert await desk.count_used(*bounds, GATEWAY) == [1, 0, 4, 1]

    run(tmp_path, test)


def test_a_request_that_is_rejected_during_the_review_counts_nowhere(tmp_path: Path) -> None:
    async def test(desk: Desk) -> None:
        call = make_call((KEY, KEY_OPEN))
        await desk.admission.begin(call)
        desk.admission.cancel_begun(call.charge)
        desk.admission.cancel_begun(call.charge)
        assert await desk.count_used(KEY, KEY_OPEN, GATEWAY, MODEL) == [0, 0, 0, 0]

    run(tmp_path, test)


def test_an_inner_call_is_a_request_of_its_account_and_not_of_its_caller(tmp_path: Path) -> None:
    async def test(desk: Desk) -> None:
        call = make_call((KEY, KEY_OPEN, KEY_TOKENS))
        call.charge.is_inner = True
        await desk.enter(call, estimate=Estimate(Quantities(input_tokens=7, output_tokens=3)))
        assert await desk.count_used(KEY, KEY_OPEN, KEY_TOKENS, GATEWAY, PROVIDER) == [0, 0, 10, 0, 1]

    run(tmp_path, test)


@pytest.mark.parametrize(("limit", "reserved"), [(500, 500), (1000, 1000), (2000, 1010)])
def test_a_usual_answer_is_reserved_up_to_the_bound(tmp_path: Path, limit: int, reserved: int) -> None:
    """A guess above the bound does not refuse the request. What it surely uses does."""

    async def test(desk: Desk) -> None:
        tokens = make_bound("key", "k", "tokens_per_minute", limit)
        usual = Estimate(Quantities(input_tokens=10, output_tokens=0), is_open=True)
        await desk.enter(make_call([tokens]), estimate=usual)
        assert await desk.count_used(tokens) == [reserved]
        with pytest.raises(RateLimited):
            await desk.enter(make_call([tokens]), estimate=Estimate(Quantities(input_tokens=limit, output_tokens=1)))

    run(tmp_path, test, make_config(tmp_path))


def test_money_is_reserved_by_the_price_of_the_target(tmp_path: Path) -> None:
    price = PriceEntry(rates=Rates(input=Decimal(2), output=Decimal(10)))  # US dollars for a million tokens
    config = make_config(tmp_path, prices={"m": price})

    async def test(desk: Desk) -> None:
        money = make_bound("key", "k", "usd_per_day", 1.0)
        assert desk.admission.needs_estimate(make_call([money]))
        assert not desk.admission.needs_estimate(make_call([KEY, KEY_OPEN]))
        call = make_call([money])
        await desk.enter(call, estimate=Estimate(Quantities(input_tokens=1000, output_tokens=100)))
        assert await desk.count_used(money) == [3_000_000], "nano-dollars"
        reservations = call.charge.reservations
        assert reservations is not None
        assert await desk.admission.add_used(reservations, 0, 1_000_000_000) is None, "exactly the budget"
        error = await desk.admission.add_used(reservations, 0, 1_000_000_001)
        assert error is not None
        assert error.exceeded["bound"] == "usd_per_day"

    run(tmp_path, test, config)


def test_a_task_settles_what_its_request_has_left(tmp_path: Path) -> None:
    async def test(desk: Desk) -> None:
        bounds = (KEY, KEY_OPEN, KEY_TOKENS)
        call = make_call(bounds)
        await desk.enter(call, estimate=Estimate(Quantities(input_tokens=7, output_tokens=3)))
        kept = desk.admission.describe_reservations(call.charge)
        desk.admission.leave_to_task(call.charge)
        reservations = call.charge.take_reservations()
        assert reservations is not None
        desk.admission.settle(reservations, 0, 0)
        assert await desk.count_used(*bounds) == [1, 0, 10]
        desk.admission.settle_task(kept, 4, 0)
        assert await desk.count_used(*bounds) == [1, 0, 4]
        assert desk.admission.describe_reservations(call.charge) == []

    run(tmp_path, test)


def test_what_is_left_is_described_for_each_bound(tmp_path: Path) -> None:
    async def test(desk: Desk) -> None:
        call = make_call((KEY, make_bound("key", "k", "usd_per_day", 1.5)))
        await desk.enter(make_call())
        described: dict[str, Any] = await desk.admission.describe_limits(call, make_target())
        assert described["requests"] == {"limit": 2, "remaining": 1}
        assert "tokens" not in described
        left = [(row["subject"], row["name"], row["bound"], row["used"], row["left"]) for row in described["bounds"]]
        assert left == [
            ("key", "k", "requests_per_minute", "1 requests", "4 requests"),
            ("key", "k", "usd_per_day", "$0", "$1.5"),
            ("gateway", "", "requests_per_minute", "1 requests", "3 requests"),
            ("model", "m", "requests_per_minute", "1 requests", "2 requests"),
            ("provider", "fake", "requests_per_minute", "1 requests", "1 requests"),
        ]
        assert await Desk(make_config(tmp_path), tmp_path).admission.describe_limits(make_call(()), make_target()) == {}

    run(tmp_path, test)


def test_without_a_bound_nothing_is_reserved(tmp_path: Path) -> None:
    async def test(desk: Desk) -> None:
        call = make_call(())
        await desk.admission.begin(call)
        assert await desk.enter(call) is None
        assert call.charge.reservations is None
        assert not desk.admission.is_active

    run(tmp_path, test, make_config(tmp_path))
