"""What would happen to a request is told without anything happening."""

from __future__ import annotations

import asyncio
from pathlib import Path

import orjson
import pytest

from tests.support.gates import FakeProvider, make_services
from tests.support.served import CHAT, Ask, error_of
from tornado_gate.config.routing import CircuitsConfig
from tornado_gate.pipeline.explain import explain
from tornado_gate.pipeline.gate import Gate
from tornado_gate.types import Call, Caller, Route, Target, WireRequest

EXPLAIN = "/v1/_explain?route=/plain"


@pytest.mark.gen_test
async def test_target_lane_and_losses_are_told_and_nothing_is_called(ask: Ask, fake: FakeProvider) -> None:
    fake.loses = ("top_k",)
    response = await ask(EXPLAIN, CHAT)
    told = orjson.loads(response.body)
    assert response.code == 200
    assert told["target"] == {"provider": "fake", "model": "m"}
    assert told["targets"] == [{"provider": "fake", "model": "m", "entry": "m", "circuit": "closed"}]
    assert (told["lane"], told["losses"], told["operation"]) == ("translated", ["top_k"], "chat")
    assert not fake.asked


@pytest.mark.gen_test
async def test_what_the_caller_would_be_refused_is_refused(ask: Ask) -> None:
    assert (await ask(EXPLAIN, {"model": "no-such"})).code == 404
    assert error_of(await ask(EXPLAIN, {"model": "m", "ask": 1}))["param"] == "ask"
    assert (await ask(EXPLAIN, CHAT, headers={"Authorization": None})).code == 401
    assert (await ask(EXPLAIN, CHAT, headers={"Authorization": "Bearer narrow-key-0123"})).code == 403


@pytest.mark.gen_test
async def test_a_request_that_the_limits_would_refuse_is_said_with_its_code_and_counts_nothing(
    ask: Ask, fake: FakeProvider
) -> None:
    headers = {"Authorization": "Bearer limited-key-0123"}
    for _ in range(2):
        explanation = orjson.loads((await ask(EXPLAIN, CHAT, headers=headers)).body)
        assert "refused" not in explanation
        assert explanation["limits"]["requests"] == {"limit": 1, "remaining": 1}
    assert (await ask("/plain", CHAT, headers=headers)).code == 200
    refused = await ask("/plain", CHAT, headers=headers)
    explanation = orjson.loads((await ask(EXPLAIN, CHAT, headers=headers)).body)
    assert explanation["refused"]["status"] == refused.code == 429
    assert explanation["refused"]["code"] == error_of(refused)["code"] == "rate_limited"
    assert explanation["refused"]["message"].startswith("The API key 'limited' may use 1 requests per minute")
    assert explanation["limits"]["requests"] == {"limit": 1, "remaining": 0}
    assert explanation["target"] == {"provider": "fake", "model": "m"}
    assert len(fake.asked) == 1


@pytest.mark.gen_test
@pytest.mark.parametrize(("route", "code"), [("", 400), ("plain", 400), ("/nowhere", 404), ("/v1/_explain", 404)])
async def test_a_route_that_is_none_is_said_so(ask: Ask, route: str, code: int) -> None:
    assert (await ask(f"/v1/_explain?route={route}", CHAT)).code == code


@pytest.mark.gen_test
async def test_the_method_is_post(ask: Ask) -> None:
    assert (await ask(EXPLAIN)).code in (404, 405)


def make_target() -> Target:
    return Target(provider="fake", plugin="fake", model="m", upstream_model="m")


@pytest.mark.gen_test
async def test_with_every_circuit_open_the_last_resort_is_explained_and_not_probed(
    ask: Ask, fake: FakeProvider, gate: Gate
) -> None:
    circuits = gate.health.circuits
    circuit = circuits.find_or_create(make_target(), "test")
    assert circuit is not None
    circuit.record_failure("test", circuits.clock(), CircuitsConfig(failures=1, open_seconds=300))
    for _ in range(2):
        response = await ask(EXPLAIN, CHAT)
        assert response.code == 200, response.body
        explanation = orjson.loads(response.body)
        assert explanation["why"].startswith("every circuit is open: ")
        assert explanation["target"] == {"provider": "fake", "model": "m"}
        assert explanation["targets"][0]["circuit"] == "open"
    assert circuits.take_last_resort(make_target()), "the probe is free for a request"
    response = await ask(EXPLAIN, CHAT)
    assert response.code == 503, "while the last resort is probed, a request would be refused"
    assert not fake.asked


@pytest.mark.gen_test
async def test_with_a_closed_circuit_the_strategy_is_the_reason(ask: Ask) -> None:
    explanation = orjson.loads((await ask(EXPLAIN, CHAT)).body)
    assert explanation["why"].startswith("the first target whose circuit is closed")
    assert ", in a random order by weight, " in explanation["why"]
    assert explanation["strategy"] == "weighted"


def test_a_request_without_a_model_is_answered_by_the_gateway_itself(tmp_path: Path, fake: FakeProvider) -> None:
    async def run() -> None:
        services = make_services(tmp_path, None, fake=fake)
        await services.start()
        try:
            route = Route("POST", "/notes", "notes", model="none")
            wire = WireRequest(
                route=route, path=route.path, path_arguments={}, query={}, headers={}, raw=b"{}", json={}
            )
            call = Call(id="r1", operation="notes", format="plain", caller=Caller(id="k", account="a"))
            explanation = await explain(services.gate, services.gate.snapshot, call, wire)
        finally:
            await services.close()
        assert explanation == {"operation": "notes", "format": "plain", "answered_by": "the gateway itself"}

    asyncio.run(run())
