"""Which target and key is tried next: strategies, several keys, retries, drained targets, affinity."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from decimal import Decimal
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from tests.support.gates import FakeProvider, answers, make_config, make_gate
from tornado_gate import config as conf
from tornado_gate import errors, provider_impl, types
from tornado_gate.config.model import Config, ModelEntry, ModelTarget, Secret
from tornado_gate.config.prices import PriceEntry, Rates
from tornado_gate.config.routing import Affinity, RetriesConfig, RetryBudget
from tornado_gate.hookspecs import Capabilities, ProviderEntry
from tornado_gate.pipeline import pipeline
from tornado_gate.pipeline.conf_secrets import collect_secrets
from tornado_gate.pipeline.gate import Gate
from tornado_gate.pipeline.snapshot_builder import build
from tornado_gate.targets import loads
from tornado_gate.targets.candidates import Candidates, Needs, select_candidates
from tornado_gate.targets.loads import TargetLoad
from tornado_gate.targets.object_access import ObjectAccess
from tornado_gate.targets.offers import list_retries
from tornado_gate.telemetry.redaction import make_mask
from tornado_gate.types import replace

KEYS = ("first-key-0123456789", "second-key-012345678", "third-key-0123456789")
LIMITED = errors.UpstreamRateLimited("slow down", headers={"Retry-After": "30"})


def refused(status: int) -> errors.UpstreamKeyRefused:
    error = errors.UpstreamKeyRefused("refused")
    error.upstream_status = status
    return error


class Upstream(FakeProvider):
    """Answers; `refusals` are the errors by key."""

    def __init__(self, **rest: Any) -> None:
        super().__init__(**rest)
        self.refusals: dict[str, BaseException] = {}

    @provider_impl
    def configure(self, entry: ProviderEntry) -> Capabilities:
        if " " in entry.api_key:
            raise errors.ConfigError([(("api_key",), "must not contain a space")])
        return Capabilities(operations=self.operations, settings={"made_for": entry.api_key})

    @provider_impl
    async def call_upstream(self, call: types.Call) -> types.UpstreamResponse:
        self.asked.append(call)
        error = self.refusals.get(call.target.api_key, self.raises)
        if error is not None:
            raise error
        return types.UpstreamResponse(chunks=self._chunks())

    @property
    def keys(self) -> list[str]:
        """The keys of its calls."""
        return [call.target.api_key.partition("-")[0] for call in self.asked]


def make_entry(*targets: ModelTarget, **rest: Any) -> ModelEntry:
    return ModelEntry(name="m", targets=targets, **rest)


def targets(*names: str, **weights: int) -> tuple[ModelTarget, ...]:
    return tuple(ModelTarget(provider=name, weight=weights.get(name, 1)) for name in names)


class Setup:
    """A gate with the model "m" at some providers, whose clock is `now`."""

    def __init__(self, tmp_path: Path, entry: ModelEntry, *names: str, keys: tuple[str, ...] = (), **rest: Any) -> None:
        self.upstreams = {name: Upstream() for name in names}
        config = make_config(tmp_path, {"m": entry}, providers=names, **rest)
        secrets = tuple(map(Secret, keys))
        first = Secret(keys[0]) if keys else Secret("")
        provided = {
            name: replace(entry, api_key=first, api_keys=secrets if len(keys) > 1 else ())
            for name, entry in config.providers.items()
        }
        self.config: Config = replace(config, providers=provided)
        self.gate: Gate = make_gate(tmp_path, self.config, **self.upstreams)
        self.gate.snapshot.targets.chance.seed(1)
        self.now = 1000.0
        self.gate.health.circuits.clock = lambda: self.now

    async def ask(self, account: str = "a", model: str = "m", **headers: str) -> str:
        """The provider that answered one request."""
        async with AsyncExitStack() as closing:
            call, wire = make_request(self.gate, closing, account, model, headers)
            prepared = await pipeline.answer(self.gate, self.gate.snapshot, call, wire)
            assert [chunk async for chunk in prepared.reply.chunks]
            return prepared.call.target.provider

    def run(self, times: int = 1, **rest: str) -> Counter[str]:
        async def main() -> Counter[str]:
            return Counter([await self.ask(**rest) for _ in range(times)])

        return asyncio.run(main())


def make_request(
    gate: Gate, closing: AsyncExitStack, account: str, model: str, headers: dict[str, str]
) -> tuple[types.Call, types.WireRequest]:
    route = next(route for route in gate.snapshot.formats["plain"].routes if route.operation == "chat")
    body = {"model": model, "ask": "hi"}
    wire = types.WireRequest(
        route=route, path=route.path, path_arguments={}, query={}, headers=headers, raw=orjson.dumps(body), json=body
    )
    caller = types.Caller(id="key_1", account=account)
    call = types.Call(
        id="r", operation="chat", format="plain", caller=caller, closing=closing,
        headers={name.replace("_", "-"): value for name, value in headers.items()},
    )  # fmt: skip
    return call, wire


# Several keys


@pytest.fixture
def keyed(tmp_path: Path) -> Setup:
    return Setup(tmp_path, make_entry(*targets("up")), "up", keys=KEYS)


def test_a_key_that_the_plugin_refuses_is_a_fault_of_conf(keyed: Setup) -> None:
    keys = (*map(Secret, KEYS), Secret("bad key"))
    up = replace(keyed.config.providers["up"], api_keys=keys)
    with pytest.raises(errors.ConfigError) as caught:
        build(replace(keyed.config, providers={"up": up}), keyed.gate.host, 2)
    assert caught.value.faults == [(("providers", "up", "api_keys"), "must not contain a space")]


def test_keys_take_turns_and_each_is_configured_by_the_plugin(keyed: Setup) -> None:
    keyed.run(6)
    assert keyed.upstreams["up"].keys == ["first", "second", "third"] * 2
    assert all(call.target.settings == {"made_for": call.target.api_key} for call in keyed.upstreams["up"].asked)


@pytest.mark.parametrize("error", [refused(401), refused(402), refused(403), LIMITED], ids=lambda error: error.code)
def test_a_refused_or_limited_key_is_replaced_within_the_request_and_suspended(keyed: Setup, error: Exception) -> None:
    up = keyed.upstreams["up"]
    up.refusals[KEYS[0]] = error
    keyed.run(6)
    assert up.keys == ["first", "second", "third", "second", "third", "second", "third"]
    assert keyed.gate.health.circuits.find_circuit(up.asked[0].target) is None  # no circuit counts it


def test_a_limited_key_is_used_again_after_its_retry_after(keyed: Setup) -> None:
    up = keyed.upstreams["up"]
    up.refusals[KEYS[0]] = LIMITED
    keyed.run(3)
    del up.refusals[KEYS[0]]
    keyed.now += 29
    keyed.run(6)
    assert up.keys.count("first") == 1
    keyed.now += 2
    keyed.run(6)
    assert up.keys.count("first") == 3


def test_a_limit_concerns_one_model_of_the_key_and_a_refusal_all(tmp_path: Path) -> None:
    setup = Setup(tmp_path, make_entry(*targets("up")), "up", keys=KEYS[:2])
    other = ModelEntry(name="n", targets=targets("up"))
    setup.gate.replace(build(replace(setup.config, models={**setup.config.models, "n": other}), setup.gate.host, 2))
    up = setup.upstreams["up"]
    up.refusals[KEYS[0]] = LIMITED
    setup.run(4)
    assert up.keys.count("first") == 1
    setup.run(2, model="n")
    assert up.keys.count("first") == 2  # unknown for this model until it was tried
    setup.now += 60
    up.refusals[KEYS[0]] = refused(401)
    setup.run(2)
    setup.run(4, model="n")
    assert up.keys.count("first") == 3


def test_a_suspended_key_is_tried_if_all_keys_are_suspended(keyed: Setup) -> None:
    up = keyed.upstreams["up"]
    up.refusals = dict.fromkeys(KEYS, LIMITED)
    with pytest.raises(errors.UpstreamRateLimited) as caught:
        keyed.run()
    assert caught.value is LIMITED
    assert up.keys == ["first", "second", "third"]
    up.refusals = {}
    assert keyed.run() == {"up": 1}
    assert len(up.keys) == 4


def test_the_only_key_is_suspended_while_it_is_limited_and_not_when_it_is_refused(tmp_path: Path) -> None:
    setup = Setup(tmp_path, make_entry(*targets("up", "other", up=1000)), "up", "other", keys=KEYS[:1])
    up = setup.upstreams["up"]
    up.refusals[KEYS[0]] = refused(401)
    setup.run(2)
    assert len(up.asked) == 2
    assert setup.gate.health.circuits.find_circuit(up.asked[0].target) is not None  # the circuit counts it
    up.refusals[KEYS[0]] = LIMITED
    setup.run(4)
    assert len(up.asked) == 3
    changed = {name: replace(entry, api_key=Secret(KEYS[1])) for name, entry in setup.config.providers.items()}

    async def main() -> None:
        setup.gate.replace(build(replace(setup.config, providers=changed), setup.gate.host, 2))
        await asyncio.gather(*setup.gate.pools._closing)
        for _ in range(4):
            await setup.ask()

    asyncio.run(main())
    assert len(up.asked) == 7  # the suspension of the old key does not apply to the new one


def test_another_target_comes_before_suspended_keys(tmp_path: Path) -> None:
    setup = Setup(tmp_path, make_entry(*targets("up", "other", up=1000, other=1)), "up", "other", keys=KEYS[:2])
    setup.upstreams["up"].refusals = dict.fromkeys(KEYS, LIMITED)
    setup.run(20)
    assert setup.upstreams["up"].keys == ["first", "second"]
    assert len(setup.upstreams["other"].asked) == 20


def test_a_failure_that_is_not_the_fault_of_the_key_tries_no_other_key(keyed: Setup) -> None:
    keyed.upstreams["up"].raises = errors.UpstreamError("down")
    with pytest.raises(errors.UpstreamError):
        keyed.run()
    assert len(keyed.upstreams["up"].asked) == 1


def test_a_refused_key_is_reported_by_its_number(keyed: Setup, caplog: pytest.LogCaptureFixture) -> None:
    keyed.upstreams["up"].refusals[KEYS[1]] = refused(401)
    keyed.run(4)
    (line,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert "the provider 'up' refused key 2 of its keys, which rests for 300 s" in line
    series = 'tornado_gate_provider_key_rests_total{key="2",provider="up",reason="upstream_authentication"} 1.0'
    assert series in keyed.gate.metrics.render()[0].decode()
    assert not any(key in caplog.text for key in KEYS)


def test_all_keys_are_masked_independent_of_the_key_in_use(keyed: Setup) -> None:
    keyed.run()
    target = keyed.upstreams["up"].asked[0].target
    mask = make_mask(target)
    assert mask is not None
    assert mask.mask_text(f"a {KEYS[0]} b {KEYS[2]}") == "a *** b ***"
    assert set(KEYS) <= collect_secrets(keyed.config)
    assert not any(key in repr((target, keyed.config, keyed.gate.snapshot.targets.providers)) for key in KEYS)


def test_an_object_is_read_with_the_key_that_created_it(keyed: Setup) -> None:
    keyed.run(2)
    second = keyed.upstreams["up"].asked[1].target
    kept = types.KeptObject(provider="up", model="m", upstream_model="m", key=second.key)
    target = keyed.gate.snapshot.targets.make_task_target("m", "up", "m", kept.key)
    assert target.api_key == KEYS[1]
    gone = keyed.gate.snapshot.targets.make_task_target("m", "up", "m", "0" * 12)
    assert gone.api_key == KEYS[0]


# Strategies


def test_weights_share_the_requests(tmp_path: Path) -> None:
    setup = Setup(tmp_path, make_entry(*targets("a", "b", a=3, b=1)), "a", "b")
    served = setup.run(200)
    assert 120 < served["a"] < 180


def test_cost_takes_the_cheapest_known_price_first(tmp_path: Path) -> None:
    entry = make_entry(*targets("unknown", "dear", "cheap", unknown=100), strategy="cost")
    setup = Setup(tmp_path, entry, "unknown", "dear", "cheap")
    prices = {
        name: replace(
            setup.config.providers[name],
            prices={"m": PriceEntry(rates=Rates(input=Decimal(price), output=Decimal(price)))},
        )
        for name, price in (("dear", 10), ("cheap", 1))
    }
    setup.gate.replace(build(replace(setup.config, providers={**setup.config.providers, **prices}), setup.gate.host, 2))
    assert setup.run(10) == {"cheap": 10}
    setup.upstreams["cheap"].raises = errors.UpstreamError("down")
    assert setup.run(3) == {"dear": 3}
    setup.upstreams["dear"].raises = errors.UpstreamError("down")
    assert setup.run() == {"unknown": 1}


def test_latency_prefers_the_faster_target_and_still_measures_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]

    def take(seconds: float) -> Any:
        async def script(provider: FakeProvider, call: types.Call) -> AsyncIterator[types.StreamEvent]:
            now[0] += seconds
            async for event in answers(provider, call):
                yield event

        return script

    monkeypatch.setattr(loads, "time", SimpleNamespace(monotonic=lambda: now[0]))
    setup = Setup(tmp_path, make_entry(*targets("slow", "fast", slow=3), strategy="latency"), "slow", "fast")
    setup.upstreams["slow"].script, setup.upstreams["fast"].script = take(0.02), take(0.001)
    served = setup.run(100)
    assert served["fast"] > 60
    assert served["slow"] >= 1


def test_the_average_latency_follows_a_target_that_becomes_fast() -> None:
    load = TargetLoad()
    load.note_latency(2.0, 1000.0, streamed=True)
    load.note_latency(0.1, 1001.0, streamed=True)
    assert load.latency == pytest.approx(1.81)
    load.note_latency(0.1, 1100.0, streamed=True)  # what was measured long ago has no weight
    assert load.latency == pytest.approx(0.1, abs=0.01)
    load.note_latency(9.0, 1101.0, streamed=False)  # a whole response takes longer: it is averaged apart
    assert load.latency == pytest.approx(0.1, abs=0.01)


def test_least_busy_avoids_the_target_with_more_requests_in_flight(tmp_path: Path) -> None:
    waiting, all_there = 40, asyncio.Event()

    async def hangs(provider: FakeProvider, call: types.Call) -> AsyncIterator[types.StreamEvent]:
        if sum(len(upstream.asked) for upstream in setup.upstreams.values()) == waiting:
            all_there.set()
        await asyncio.Event().wait()
        yield types.StreamError(error=errors.UpstreamError("never"))

    async def main() -> None:
        tasks = [asyncio.create_task(setup.ask()) for _ in range(waiting)]
        await all_there.wait()
        loads = [
            setup.gate.snapshot.targets.loads.find_load(upstream.asked[0].target)
            for upstream in setup.upstreams.values()
        ]
        assert [load.in_flight for load in loads] == [30, 10]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert [load.in_flight for load in loads] == [0, 0]

    setup = Setup(tmp_path, make_entry(*targets("large", "small", large=3), strategy="least_busy"), "large", "small")
    for upstream in setup.upstreams.values():
        upstream.script = hangs
    asyncio.run(main())


def test_a_model_that_needs_no_measurement_is_not_measured(tmp_path: Path) -> None:
    setup = Setup(tmp_path, make_entry(*targets("a")), "a")
    setup.run(3)
    assert setup.gate.snapshot.targets.measured == frozenset()
    assert setup.gate.snapshot.targets.loads.find_load(setup.upstreams["a"].asked[0].target).latency is None


# Drained targets


def test_a_drained_target_gets_only_requests_for_objects_that_it_keeps(tmp_path: Path) -> None:
    setup = Setup(tmp_path, make_entry(*targets("old", "new", old=0)), "old", "new")
    assert setup.run(20) == {"new": 20}
    setup.upstreams["new"].raises = errors.UpstreamError("down")
    with pytest.raises(errors.UpstreamError):
        setup.run()
    assert not setup.upstreams["old"].asked  # not even as a last resort
    kept = types.KeptObject(provider="old", model="m", upstream_model="m")
    reference = types.ObjectReference(kind="response", id="r1", param="x")
    call = types.Call(id="r", operation="chat", format="plain", model="m", caller=types.Caller(id="k", account="a"))
    needs = Needs(access=ObjectAccess("plain", ((reference, kept),)))
    (only,) = select_candidates(setup.gate.health, setup.gate.snapshot.targets, call, ("chat",), needs)
    assert only[0].provider == "old"
    first, *_ = select_candidates(setup.gate.health, setup.gate.snapshot.targets, call, ("chat",), Needs(issuer="old"))
    assert first[0].provider == "old"


# Retries at the same target


def retrying(tmp_path: Path, *names: str, **rest: Any) -> Setup:
    rules = RetriesConfig(**{"same_target": 2, "backoff_seconds": 0.001, **rest})
    return Setup(tmp_path, make_entry(*targets(*names)), *names, retries=rules)


class FailsFirst:
    """A script whose first `times` calls raise."""

    def __init__(self, times: int, error: BaseException) -> None:
        self.left = times
        self.error = error

    async def __call__(self, provider: FakeProvider, call: types.Call) -> AsyncIterator[types.StreamEvent]:
        if self.left:
            self.left -= 1
            raise self.error
        async for event in answers(provider, call):
            yield event


@pytest.mark.parametrize(
    ("error", "attempts"),
    [
        (errors.UpstreamError("500"), 3),
        (errors.UpstreamUnreachable("refused"), 3),
        (errors.UpstreamOverloaded("busy", headers={"Retry-After": "60"}), 1),
        (errors.UpstreamTimeout("late"), 1),
        (errors.UpstreamRefused("bad", status=400), 1),
    ],
    ids=["500", "unreachable", "busy for long", "timeout", "400"],
)
def test_a_request_is_repeated_after_failures_that_may_be_over_a_moment_later(
    tmp_path: Path, error: errors.GateError, attempts: int
) -> None:
    setup = retrying(tmp_path, "up")
    setup.upstreams["up"].script = FailsFirst(2, error)
    if attempts == 3:
        assert setup.run() == {"up": 1}
    else:
        with pytest.raises(type(error)):
            setup.run()
    assert len(setup.upstreams["up"].asked) == attempts
    assert setup.gate.snapshot.targets.loads.find_load(setup.upstreams["up"].asked[0].target).retries == 0


def test_only_a_retry_waits(tmp_path: Path) -> None:
    setup = retrying(tmp_path, "first", "second", same_target=1, backoff_seconds=1.0)
    call = types.Call(id="r", operation="chat", format="plain", model="m", caller=types.Caller(id="k", account="a"))
    targets = select_candidates(setup.gate.health, setup.gate.snapshot.targets, call, ("chat",))
    candidates = Candidates(setup.gate.health, setup.gate.snapshot.targets, "a", targets)
    pauses = []
    for target, _ in candidates:
        pauses.append((target.provider, candidates.pause > 0))
        candidates.failure = errors.UpstreamError("down")
    (first, _), (second, _) = pauses[0], pauses[2]
    assert pauses == [(first, False), (first, True), (second, False), (second, True)]


def test_a_model_has_its_own_retries(tmp_path: Path) -> None:
    text = """
        plugins: {local: true}
        providers: {local: {plugin: local}}
        retries: {same_target: 2, backoff_seconds: 0.5}
        models:
          usual: {provider: local}
          often: {provider: local, retries: {same_target: 5, budget: {minimum: 9}}}
          never: {provider: local, retries: {same_target: 0}}
    """
    retries = list_retries(conf.load(tmp_path / "gate.yaml", {}, text=dedent(text)))
    assert {
        name: (rules.same_target, rules.backoff_seconds, rules.budget.minimum) for name, rules in retries.items()
    } == {
        "usual": (2, 0.5, 3),
        "often": (5, 0.5, 9),
    }


def test_retries_have_a_budget_and_other_targets_do_not(tmp_path: Path) -> None:
    async def main() -> None:
        done = await asyncio.gather(*(setup.ask() for _ in range(50)))
        assert set(done) == {"good"}

    setup = retrying(
        tmp_path, "bad", "good", same_target=1, budget=RetryBudget(share=0.0, minimum=3), backoff_seconds=0.05
    )
    entry = make_entry(ModelTarget(provider="bad"), fallback=("n",))
    good = ModelEntry(name="n", targets=targets("good"))
    circuits = replace(setup.config.circuits, failures=1000, window=1000)
    setup.gate.replace(
        build(replace(setup.config, models={"m": entry, "n": good}, circuits=circuits), setup.gate.host, 2)
    )
    setup.upstreams["bad"].raises = errors.UpstreamError("down")
    asyncio.run(main())
    assert len(setup.upstreams["bad"].asked) == 53
    assert len(setup.upstreams["good"].asked) == 50


# Cache affinity


def affine(tmp_path: Path, *names: str, keys: tuple[str, ...] = (), **rest: Any) -> Setup:
    return Setup(tmp_path, make_entry(*targets(*names), affinity=Affinity(**rest)), *names, keys=keys)


def test_a_conversation_stays_at_one_target_and_key_and_conversations_spread(tmp_path: Path) -> None:
    setup = affine(tmp_path, "a", "b", "c", keys=KEYS)
    places = Counter[str]()
    for number in range(60):
        served = setup.run(3, session_id=f"s{number}")
        assert len(served) == 1
        places[next(iter(served))] += 1
    assert min(places.values()) >= 10
    for upstream in setup.upstreams.values():
        by_session = [upstream.keys[start : start + 3] for start in range(0, len(upstream.keys), 3)]
        assert all(len(set(keys)) == 1 for keys in by_session)
        assert len(set(upstream.keys)) == 3


def test_the_target_of_a_conversation_is_the_same_in_every_process(tmp_path: Path) -> None:
    first, second = affine(tmp_path / "1", "a", "b", "c"), affine(tmp_path / "2", "a", "b", "c")
    for number in range(20):
        assert first.run(session_id=f"s{number}") == second.run(session_id=f"s{number}")


def test_a_removed_target_moves_only_its_own_conversations(tmp_path: Path) -> None:
    setup = affine(tmp_path, "a", "b", "c")
    before = {number: setup.run(session_id=f"s{number}") for number in range(40)}
    entry = replace(setup.config.models["m"], targets=targets("a", "b"))
    setup.gate.replace(build(replace(setup.config, models={"m": entry}), setup.gate.host, 2))
    after = {number: setup.run(session_id=f"s{number}") for number in range(40)}
    assert all(after[number] == target for number, target in before.items() if "c" not in target)


def test_a_conversation_that_had_to_move_stays_until_its_ttl_ends(tmp_path: Path) -> None:
    setup = affine(tmp_path, "a", "b", ttl=100.0)
    (home,) = setup.run(session_id="s")
    (other,) = {"a", "b"} - {home}
    setup.upstreams[home].raises = errors.UpstreamError("down")
    assert setup.run(session_id="s") == {other: 1}
    setup.upstreams[home].raises = None
    for _ in range(3):
        setup.now += 90
        assert setup.run(session_id="s") == {other: 1}
    setup.now += 101
    assert setup.run(session_id="s") == {home: 1}
    assert len(setup.gate.health.moved_sessions) == 0


def test_the_next_requests_of_a_conversation_go_elsewhere_if_its_target_has_too_many(tmp_path: Path) -> None:
    setup = affine(tmp_path, "a", "b", "c")
    (home,) = setup.run(session_id="s")
    loads = setup.gate.snapshot.targets.loads
    busy = [loads.find_load(setup.upstreams[home].asked[0].target) for _ in range(8)]
    for load in busy[:7]:
        load.begin()
    assert setup.run(session_id="s") == {home: 1}, "a few requests at once are no overload"
    busy[7].begin()
    (other,) = setup.run(session_id="s")
    assert other != home
    for load in busy:
        load.end()
    assert setup.run(session_id="s") == {home: 1}, "the conversation has not moved"


def test_a_target_may_have_more_requests_by_its_weight_and_by_conf(tmp_path: Path) -> None:
    for most_load, weight, served in ((1.25, 1, "b"), (1.25, 10, "a"), (2.0, 1, "a")):
        places = targets("a", "b", a=weight)
        entry = make_entry(*places, affinity=Affinity(most_load=most_load))
        setup = Setup(tmp_path / f"{most_load}-{weight}", entry, "a", "b")
        session = next(name for name in map(str, range(100)) if setup.run(session_id=name) == {"a": 1})
        for upstream, count in (("a", 12), ("b", 4)):
            target = replace(setup.upstreams["a"].asked[0].target, provider=upstream)
            for _ in range(count):
                setup.gate.snapshot.targets.loads.find_load(target).begin()
        assert setup.run(session_id=session) == {served: 1}, (most_load, weight)


def test_one_account_cannot_choose_the_target_of_another(tmp_path: Path) -> None:
    setup = affine(tmp_path, "a", "b")
    places = {next(iter(setup.run(account=f"account{number}", session_id="same"))) for number in range(20)}
    assert places == {"a", "b"}


def test_explain_names_the_conversation_as_the_reason_of_the_choice(tmp_path: Path) -> None:
    from tornado_gate.pipeline.explain import explain

    async def main() -> dict[str, Any]:
        async with AsyncExitStack() as closing:
            call, wire = make_request(setup.gate, closing, "a", "m", {"session_id": "s"})
            return await explain(setup.gate, setup.gate.snapshot, call, wire)

    setup = affine(tmp_path, "a", "b", keys=KEYS[:2])
    (home,) = setup.run(session_id="s")
    told = asyncio.run(main())
    assert told["target"]["provider"] == home
    assert told["target"]["key"] in (1, 2)
    assert "cache affinity by session_headers" in told["why"]
    assert told["targets"][0]["keys"] == [{"key": 1, "rests_seconds": 0.0}, {"key": 2, "rests_seconds": 0.0}]
