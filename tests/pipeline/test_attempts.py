"""Whatever the operation: a dead target is left alone, the next is tried, and each failure is counted and logged."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.support.gates import FakeProvider, PlainFormat, answers, make_config, make_services, model
from tornado_gate import errors, format_impl, provider_impl, types
from tornado_gate.config.prices import PriceEntry
from tornado_gate.config.routing import CircuitsConfig
from tornado_gate.pipeline import pipeline
from tornado_gate.pipeline.explain import explain
from tornado_gate.pipeline.gate import Gate
from tornado_gate.pipeline.snapshot_builder import build
from tornado_gate.realtime import connect
from tornado_gate.realtime.inner_models import InnerModels
from tornado_gate.server.dispatch import dispatch
from tornado_gate.server.services import Services
from tornado_gate.tasks.provider_client import ProviderClient
from tornado_gate.tasks.record import TaskRecord, encode_request
from tornado_gate.types import replace

CALLER = types.Caller(id="key_1", account="a")
FAILURES, OPEN_SECONDS = 3, 10.0
CIRCUITS = CircuitsConfig(failures=FAILURES, open_seconds=OPEN_SECONDS)
CHATS = ("chat", "embeddings", "images", "speech", "moderations", "transcriptions")
OPERATIONS = frozenset({*CHATS, "realtime", "videos"})
DOWN = errors.UpstreamError("down")


class EveryRoute(PlainFormat):
    """PlainFormat for every operation; a request for a video is one for its prompt."""

    @format_impl
    def routes(self) -> list[types.Route]:
        plain = [types.Route("POST", f"/{name}", name) for name in CHATS]
        return [*plain, types.Route("POST", "/videos", "videos")]

    @format_impl
    def translate_request(self, wire: types.WireRequest) -> types.Request:
        if wire.route.operation == "videos":
            return types.VideoRequest(model=wire.json["model"], prompt=wire.json["ask"])
        return chat_request(wire.json["model"])

    @format_impl
    def translate_response(self, request: types.Request, events: AsyncIterator[types.StreamEvent]) -> types.Reply:
        if isinstance(request, types.VideoRequest):
            return types.Reply(content_type="application/json", chunks=aiter_empty())
        return super().translate_response(request, events)


async def aiter_empty() -> AsyncIterator[bytes]:
    yield b"{}"


def chat_request(name: str) -> types.ChatRequest:
    return types.ChatRequest(model=name, messages=(types.Message(role="user", parts=(types.Text(text="hi"),)),))


async def answers_videos_too(provider: FakeProvider, call: types.Call) -> AsyncIterator[types.StreamEvent]:
    if call.operation == "videos":
        yield types.VideoOperation(status="queued", operation={"id": "1"})
        return
    async for event in answers(provider, call):
        yield event


class AnyProvider(FakeProvider):
    """Does everything, in one way."""

    def __init__(self, raises: BaseException | None = None) -> None:
        super().__init__(script=answers_videos_too, operations=OPERATIONS, raises=raises)

    @provider_impl
    async def open_socket(self, call: types.Call) -> Any:
        self.asked.append(call)
        call.closing.callback(self.closed.append, call.id)
        if self.raises is not None:
            raise self.raises
        return NoSocket()


class NoSocket:
    """A conversation in which nothing is said."""

    dialect = "current"
    close_code = None
    close_reason = ""

    async def send(self, text: str) -> None: ...
    async def receive(self) -> None: ...
    async def close(self, code: int = 1000, reason: str = "") -> None: ...


@dataclass
class Side:
    request: types.RealtimeRequest
    subprotocol = ""


@dataclass
class Harness:
    """A gateway with the model "m" at `first`, which falls back to `second`; its circuits go by `now`."""

    services: Services
    first: AnyProvider
    second: AnyProvider
    now: float = 1000.0

    @property
    def gate(self) -> Gate:
        return self.services.gate

    def metric(self, provider: str, kind: str) -> float:
        """How many attempts at a provider have failed in this way."""
        name = f'tornado_gate_upstream_errors_total{{kind="{kind}",provider="{provider}"}} '
        lines = self.gate.metrics.render()[0].decode().splitlines()
        return sum(float(line.removeprefix(name)) for line in lines if line.startswith(name))

    def call(self, operation: str, closing: AsyncExitStack) -> types.Call:
        return types.Call(id="r", operation=operation, format="plain", model="m", caller=CALLER, closing=closing)

    def wire(self, operation: str) -> types.WireRequest:
        route = next(one for one in self.gate.snapshot.formats["plain"].routes if one.operation == operation)
        body = {"model": "m", "ask": "hi"}
        return types.WireRequest(
            route=route, path=route.path, path_arguments={}, query={}, headers={}, raw=orjson.dumps(body), json=body
        )


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    first, second = AnyProvider(raises=DOWN), AnyProvider()
    entries = {"m": model("m", "first", fallback=("other",)), "other": model("other", "second")}
    config = make_config(tmp_path, entries, providers=("first", "second"), circuits=CIRCUITS)
    services = make_services(tmp_path, config, plain=EveryRoute, first=first, second=second)
    harness = Harness(services, first, second)
    services.gate.health.circuits.clock = lambda: harness.now
    return harness


Way = Callable[[Harness], Awaitable[Any]]


async def ask_pipeline(operation: str, harness: Harness) -> None:
    async with AsyncExitStack() as closing:
        answer = await dispatch(
            harness.services, harness.gate.snapshot, harness.call(operation, closing), harness.wire(operation)
        )
        assert isinstance(answer, pipeline.PreparedAnswer)
        assert [chunk async for chunk in answer.reply.chunks]


async def ask_realtime(harness: Harness) -> None:
    side: Any = Side(types.RealtimeRequest(model="m"))
    async with AsyncExitStack() as closing:
        call, socket = await connect.connect(
            harness.gate, harness.gate.snapshot, harness.call("realtime", closing), side
        )
        assert isinstance(socket, NoSocket)
        assert call.target.provider
        assert call.inner is not None


async def ask_inner(harness: Harness) -> None:
    async with AsyncExitStack() as closing:
        inner = InnerModels(harness.gate, harness.gate.snapshot, harness.call("realtime", closing))
        assert [event async for event in inner.ask("m", "chat", chat_request("m"))]


WAYS: dict[str, Way] = {
    **{name: partial(ask_pipeline, name) for name in CHATS},
    "realtime": ask_realtime,
    "inner model": ask_inner,
}

every_way = pytest.mark.parametrize("ask", WAYS.values(), ids=WAYS.keys())


def run(ask: Way, harness: Harness, times: int = 1) -> None:
    async def main() -> None:
        for _ in range(times):
            await ask(harness)

    asyncio.run(main())


def fail(ask: Way, harness: Harness, times: int = 1) -> errors.GateError:
    for _ in range(times):
        with pytest.raises(errors.GateError) as caught:
            run(ask, harness)
    return caught.value


# Falling back


@every_way
def test_the_next_target_is_tried_when_one_fails(harness: Harness, ask: Way, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    run(ask, harness)
    (failed,), (served,) = harness.first.asked, harness.second.asked
    assert (failed.target.provider, served.target.provider) == ("first", "second")
    assert served.progress.attempts == 2
    assert harness.metric("first", "upstream_error") == 1
    (line,) = [record for record in caplog.records if record.message == "target failed: upstream_error"]
    fields = {"request_id": "r", "provider": "first", "model": "m", "upstream_model": "m", "status": 502}
    assert line.__dict__["fields"] == fields


@every_way
def test_what_a_failed_attempt_opened_is_closed_before_the_next_begins(harness: Harness, ask: Way) -> None:
    async def sees(_provider: FakeProvider, call: types.Call) -> AsyncIterator[types.StreamEvent]:
        assert harness.first.closed == ["r"]
        async for event in answers_videos_too(_provider, call):
            yield event

    harness.second.script = sees
    run(ask, harness)
    assert harness.first.closed == harness.second.closed == ["r"]


@every_way
def test_a_plugin_that_raises_is_passed_over(harness: Harness, ask: Way) -> None:
    harness.first.raises = KeyError("x")
    run(ask, harness)
    assert harness.metric("first", "plugin_failed") == 1


@every_way
def test_the_last_failure_is_the_answer_when_no_target_is_left(harness: Harness, ask: Way) -> None:
    harness.second.raises = errors.UpstreamTimeout("late")
    assert fail(ask, harness) is harness.second.raises
    assert (harness.metric("first", "upstream_error"), harness.metric("second", "upstream_timeout")) == (1, 1)


# What is no fault of the target


@every_way
def test_an_upstreams_own_400_is_the_answer_and_opens_no_circuit(harness: Harness, ask: Way) -> None:
    harness.first.raises = errors.UpstreamRefused("too long", status=400)
    assert fail(ask, harness, times=2 * FAILURES) is harness.first.raises
    assert len(harness.first.asked) == 2 * FAILURES
    assert not harness.second.asked
    assert harness.metric("first", "upstream_refused") == 2 * FAILURES


@every_way
def test_a_busy_target_stays_in_service_and_every_request_falls_back(harness: Harness, ask: Way) -> None:
    harness.first.raises = errors.UpstreamRateLimited("slow")
    run(ask, harness, times=40)
    assert len(harness.first.asked) == len(harness.second.asked) == 40


@every_way
def test_a_caller_who_leaves_gives_the_probe_back(harness: Harness, ask: Way) -> None:
    run(ask, harness, times=FAILURES)
    harness.now += OPEN_SECONDS
    harness.first.raises = asyncio.CancelledError()
    with pytest.raises(asyncio.CancelledError):
        run(ask, harness)
    assert harness.first.closed == ["r"] * (FAILURES + 1)
    harness.first.raises = None
    run(ask, harness)
    assert len(harness.first.asked) == FAILURES + 2


# Circuits


@every_way
def test_failures_open_the_circuit_and_the_target_is_skipped(harness: Harness, ask: Way) -> None:
    run(ask, harness, times=FAILURES + 5)
    assert len(harness.first.asked) == FAILURES
    assert [call.progress.attempts for call in harness.second.asked] == [2] * FAILURES + [1] * 5


@every_way
def test_one_request_probes_and_its_success_puts_the_target_back(harness: Harness, ask: Way) -> None:
    run(ask, harness, times=FAILURES)
    harness.now += OPEN_SECONDS
    run(ask, harness, times=3)  # the first of them is a probe that fails
    assert len(harness.first.asked) == FAILURES + 1
    harness.now += OPEN_SECONDS
    harness.first.raises = None
    run(ask, harness, times=3)
    assert len(harness.first.asked) == FAILURES + 4


@every_way
def test_with_every_circuit_open_the_answer_says_when_to_come_back(harness: Harness, ask: Way) -> None:
    harness.second.raises = DOWN
    fail(ask, harness, times=FAILURES)
    harness.now += 3.5
    refused = fail(ask, harness)
    assert isinstance(refused, errors.Unavailable)
    assert refused.message == "All targets of model 'm' are unavailable. Retry after 7 s."
    assert (refused.status, refused.headers) == (503, {"Retry-After": "7"})
    assert [len(harness.first.asked), len(harness.second.asked)] == [
        FAILURES + 1,
        FAILURES,
    ]  # the last resort has failed too


@every_way
def test_with_every_circuit_open_the_least_bad_target_is_tried(harness: Harness, ask: Way) -> None:
    harness.second.raises = DOWN
    fail(ask, harness, times=FAILURES)
    harness.now += 1
    harness.first.raises = harness.second.raises = None
    run(ask, harness)  # long before the circuits are due
    assert [len(harness.first.asked), len(harness.second.asked)] == [FAILURES + 1, FAILURES]
    run(ask, harness)
    assert len(harness.first.asked) == FAILURES + 2


def test_one_request_at_a_time_is_the_last_resort(harness: Harness) -> None:
    async def hangs(provider: FakeProvider, call: types.Call) -> AsyncIterator[types.StreamEvent]:
        reached.set()
        await go_on.wait()
        async for event in answers(provider, call):
            yield event

    async def main() -> None:
        last = asyncio.create_task(WAYS["chat"](harness))
        await reached.wait()
        with pytest.raises(errors.Unavailable) as refused:
            await WAYS["chat"](harness)
        assert refused.value.headers == {"Retry-After": "10"}
        go_on.set()
        await last

    config = replace(harness.gate.snapshot.config, models={"m": model("m", "first")})
    harness.services.replace(build(config, harness.gate.host, 2))
    fail(WAYS["chat"], harness, times=FAILURES)
    harness.first.raises, harness.first.script = None, hangs
    reached, go_on = asyncio.Event(), asyncio.Event()
    run(lambda _house: main(), harness)
    assert len(harness.first.asked) == FAILURES + 1


# Videos: asked later than they are accepted


def record(harness: Harness, provider: str) -> TaskRecord:
    request = encode_request(types.VideoRequest(model="m", prompt="a cat"))
    return TaskRecord(
        id=f"video_{0:032x}",
        account="a",
        model="m",
        provider=provider,
        upstream_model="m",
        created_at=harness.now,
        deadline=harness.now + 60,
        request=request,
    )


async def begin_upstream(harness: Harness) -> types.VideoOperation:
    """As a task does whose turn has come."""
    client = ProviderClient(harness.gate, harness.services.fetcher)
    return await client.begin(record(harness, "first"), types.VideoRequest(model="m", prompt="a cat"))


async def create_video(harness: Harness, **headers: str) -> str:
    """The provider for which a task is kept."""
    tasks = harness.services.tasks
    await tasks.engine.store.open()
    async with AsyncExitStack() as closing:
        call, _ = await tasks.create(
            harness.gate.snapshot,
            replace(harness.call("videos", closing), headers=headers),
            harness.wire("videos"),
            harness.gate.snapshot.formats["plain"],
        )
    return call.target.provider


def test_a_video_that_cannot_be_begun_counts_for_the_circuit_and_the_metrics(harness: Harness) -> None:
    fail(begin_upstream, harness, times=2)
    assert harness.metric("first", "upstream_error") == 2
    harness.first.raises = None
    run(begin_upstream, harness)
    harness.first.raises = DOWN
    fail(begin_upstream, harness, times=FAILURES - 1)
    assert asyncio.run(create_video(harness)) == "first"
    fail(begin_upstream, harness)
    assert asyncio.run(create_video(harness)) == "second"


def test_videos_avoid_a_dead_target_until_it_is_due_for_a_probe(harness: Harness) -> None:
    async def main() -> list[str]:
        return [await create_video(harness) for _ in range(3)]

    fail(begin_upstream, harness, times=FAILURES)
    assert asyncio.run(main()) == ["second"] * 3
    harness.now += OPEN_SECONDS
    assert asyncio.run(main()) == ["first"] * 3
    harness.first.raises = None
    run(begin_upstream, harness)
    circuit = harness.gate.health.circuits.find_circuit(
        types.Target(provider="first", plugin="", model="", upstream_model="m")
    )
    assert circuit is not None
    assert circuit.state("a", harness.now) == "closed"


def test_a_video_at_a_fallback_counts_for_the_circuit_that_requests_of_this_target_use(harness: Harness) -> None:
    async def begin_at_fallback(harness: Harness) -> None:
        client = ProviderClient(harness.gate, harness.services.fetcher)
        task = replace(record(harness, "second"), upstream_model="other")  # of a request for the model "m"
        await client.begin(task, types.VideoRequest(model="m", prompt="a cat"))

    async def ask_other(harness: Harness) -> None:
        async with AsyncExitStack() as closing:
            inner = InnerModels(harness.gate, harness.gate.snapshot, harness.call("realtime", closing))
            assert [event async for event in inner.ask("other", "chat", chat_request("other"))]

    harness.second.raises = DOWN
    fail(begin_at_fallback, harness, times=FAILURES)
    assert isinstance(fail(ask_other, harness), errors.Unavailable)


async def breaks_off(provider: FakeProvider, call: types.Call) -> AsyncIterator[types.StreamEvent]:
    async for event in answers(provider, call):
        if isinstance(event, types.PartEnd):
            raise DOWN
        yield event


def test_a_late_failure_of_an_inner_model_counts_too(harness: Harness) -> None:
    harness.first.raises, harness.first.script = None, breaks_off
    for _ in range(FAILURES):
        run(ask_inner, harness)  # the last event is a StreamError
    assert harness.metric("first", "upstream_error") == FAILURES
    assert not harness.second.asked
    run(ask_inner, harness)
    assert len(harness.second.asked) == 1


def test_with_every_circuit_open_no_video_is_accepted(harness: Harness) -> None:
    harness.second.raises = DOWN
    fail(ask_realtime, harness, times=FAILURES)
    config = replace(harness.gate.snapshot.config, models={"m": model("m", "first")})
    harness.services.replace(build(config, harness.gate.host, 2))
    refused = fail(create_video, harness)
    assert (refused.status, refused.headers) == (503, {"Retry-After": "10"})


def test_a_repeated_video_request_gets_its_task_although_every_circuit_is_open(harness: Harness) -> None:
    async def create(key: str) -> str:
        return await create_video(harness, **{"idempotency-key": key})

    assert asyncio.run(create("again")) == "first"
    fail(begin_upstream, harness, times=FAILURES)
    config = replace(harness.gate.snapshot.config, models={"m": model("m", "first")})
    harness.services.replace(build(config, harness.gate.host, 2))
    assert asyncio.run(create("again")) == "first"
    with pytest.raises(errors.Unavailable):
        asyncio.run(create("another"))


# _explain: a dry run


def explained(harness: Harness) -> dict[str, Any]:
    async def main() -> dict[str, Any]:
        async with AsyncExitStack() as closing:
            return await explain(
                harness.gate, harness.gate.snapshot, harness.call("chat", closing), harness.wire("chat")
            )

    return asyncio.run(main())


def test_explain_names_the_target_that_a_request_would_get(harness: Harness) -> None:
    assert explained(harness)["target"]["provider"] == "first"
    run(WAYS["chat"], harness, times=FAILURES)
    told = explained(harness)
    assert told["target"]["provider"] == "second"
    assert [target["circuit"] for target in told["targets"]] == ["open", "closed"]


def test_explain_takes_no_probe_and_counts_nothing(harness: Harness) -> None:
    run(WAYS["chat"], harness, times=FAILURES)
    harness.now += OPEN_SECONDS
    for _ in range(3):
        told = explained(harness)
        assert told["target"]["provider"] == "first"
        assert told["targets"][0]["circuit"] == "half-open"
    assert len(harness.first.asked) == FAILURES
    assert harness.metric("first", "upstream_error") == FAILURES
    harness.first.raises = None
    run(WAYS["chat"], harness)
    assert len(harness.first.asked) == FAILURES + 1


def test_explain_names_the_last_resort(harness: Harness) -> None:
    harness.second.raises = DOWN
    fail(WAYS["chat"], harness, times=FAILURES)
    told = explained(harness)
    assert told["target"]["provider"] == "first"
    assert told["why"].startswith("every circuit is open")
    assert len(harness.first.asked) == FAILURES


# Prices


def apply_prices(harness: Harness, prices: dict[str, PriceEntry]) -> None:
    config = replace(harness.gate.snapshot.config, unpriced="deny", prices=prices)
    harness.gate.replace(build(config, harness.gate.host, 2))


@pytest.mark.parametrize("ask", [*WAYS.values(), partial(ask_pipeline, "videos")], ids=[*WAYS.keys(), "videos"])
def test_a_model_without_a_price_is_refused_before_anything_is_sent(harness: Harness, ask: Way) -> None:
    apply_prices(harness, {})
    error = fail(ask, harness)
    assert (error.status, error.code, error.param) == (403, "unpriced_model", "model")
    assert not harness.first.asked + harness.second.asked


@every_way
def test_only_targets_with_a_price_are_tried(harness: Harness, ask: Way) -> None:
    apply_prices(harness, {"other": PriceEntry(per_request=Decimal(1))})
    run(ask, harness)
    assert [len(harness.first.asked), len(harness.second.asked)] == [0, 1]
