"""Plans live as long as their configuration, are bounded, and belong to what a key may use."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Generator
from pathlib import Path
from typing import Any

import pytest

from tests.support import front
from tests.support.direct import ALICE, BOB, KEYS, NARROW, PROVIDER_KEY, Stage, echo, make_request, serving
from tests.support.front import Answer
from tornado_gate import format_impl, guard_impl, provider_impl
from tornado_gate.config.model import ModelEntry, ModelTarget, PluginOptions, Secret
from tornado_gate.errors import InvalidField, UpstreamOverloaded
from tornado_gate.pipeline import plans
from tornado_gate.pipeline.plans import Plan
from tornado_gate.types import Call, Caller
from tornado_gate.types.value import replace

RENAMED = {"m": ModelEntry(name="m", targets=(ModelTarget(provider="sender", model="renamed"),))}


def play(folder: Path, test: Callable[[Stage], Coroutine[Any, Any, None]], **rest: Any) -> None:
    async def check() -> None:
        async with serving(folder, echo(), **rest) as stage:
            await test(stage)

    front.run("httptools", check())


def list_plans() -> list[Plan]:
    return [value for value in gc.get_objects() if type(value) is Plan]


def count_new_plans(earlier: list[Plan]) -> int:
    return len({id(plan) for plan in list_plans()} - {id(plan) for plan in earlier})


async def ask(client: front.Client, request: bytes) -> Answer:
    await client.send(request)
    return await client.answer()


@pytest.mark.qa
def test_the_number_of_plans_is_bounded_on_one_connection_and_on_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plans, "MAX_PLANS", 8)

    async def test(stage: Stage) -> None:
        earlier = list_plans()
        first, second = await stage.running.connect(), await stage.running.connect()
        for number in range(30):
            for client, key in ((first, ALICE), (second, BOB)):
                answer = await ask(client, make_request(model=f"any-{number}", key=key))
                assert answer.headers["X-Gate-Model"] == str(number)
            if number % 10 == 9:  # it looks at all objects of the process
                assert count_new_plans(earlier) <= 8
        await first.close()
        await second.close()
        assert stage.direct == 60

    play(tmp_path, test)


def test_the_number_of_scopes_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "MAX_PLANS", 8)

    async def test(stage: Stage) -> None:
        snapshot, table = stage.gate.snapshot, stage.gate.plans
        served = snapshot.routes.find_exclusive("POST", "/plain").served
        scopes = [table.find_scope(served, Caller(id="k", account="a", models=(str(number),))) for number in range(50)]
        assert len(table._scopes) <= 8
        assert all(scopes[-1] is not scope for scope in scopes[:-1])

    play(tmp_path, test)


def test_plans_go_with_their_configuration_even_if_connections_stay(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        earlier = list_plans()  # of other tests
        client = await stage.running.connect()
        assert (await ask(client, make_request())).headers["X-Gate-Model"] == "m"
        assert count_new_plans(earlier) == 1
        stage.reload(models=RENAMED)
        assert count_new_plans(earlier) == 0
        assert (await ask(client, make_request())).headers["X-Gate-Model"] == "renamed"
        assert (await ask(client, make_request())).headers["X-Gate-Model"] == "renamed"
        assert count_new_plans(earlier) == 1
        await client.close()

    play(tmp_path, test)


def test_a_request_that_began_before_a_reload_makes_no_plan_for_the_new_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its key was read from the database, and meanwhile the configuration has changed."""

    async def test(stage: Stage) -> None:
        callers = stage.gate.callers
        is_reading, may_go_on = asyncio.Event(), asyncio.Event()

        async def authenticate(digest: bytes) -> Caller:
            is_reading.set()
            await may_go_on.wait()
            return find(digest)

        find = callers.find_cached
        with monkeypatch.context() as patch:
            patch.setattr(callers, "find_cached", lambda _digest: None)
            patch.setattr(callers, "authenticate_digest", authenticate)
            client = await stage.running.connect()
            await client.send(make_request())
            await is_reading.wait()
        stage.reload(models=RENAMED)
        may_go_on.set()
        assert (await client.answer()).headers["X-Gate-Model"] == "m"
        await client.close()
        [answer] = await stage.running.ask(make_request())
        assert answer.headers["X-Gate-Model"] == "renamed"

    play(tmp_path, test)


def test_a_body_may_come_after_its_configuration_was_replaced(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        client = await stage.running.connect()
        assert (await ask(client, make_request())).status == 200
        head, _, body = make_request("later").partition(b"\r\n\r\n")
        await client.send(head + b"\r\n\r\n")
        await stage.wait_for_bodies()
        entry = stage.config.providers["sender"]
        stage.reload(models=RENAMED, providers={"sender": replace(entry, api_key=Secret("another-key-0123456789"))})
        await client.send(body)
        answer = await client.answer()
        assert (answer.status, answer.headers["X-Gate-Model"]) == (200, "m")
        answer = await ask(client, make_request())
        assert (answer.status, answer.headers["X-Gate-Model"]) == (200, "renamed")
        await client.close()

    play(tmp_path, test)


def test_a_key_never_uses_the_plan_of_a_key_that_may_do_more(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        other = replace(
            KEYS[2], name="nothing", key=Secret("nobod-key-0123456789"), operations=("embeddings",), models=()
        )
        stage.reload(keys=(*KEYS, other))
        for _ in range(2):
            answers = await stage.running.ask(
                make_request(key=ALICE),
                make_request(model="other", key=NARROW),
                make_request(key=NARROW),
                make_request(model="other", key=NARROW),
                make_request(key=ALICE, model="other"),
                make_request(key="nobod-key-0123456789"),
            )
            assert [answer.status for answer in answers] == [200, 200, 403, 200, 200, 403]

    play(tmp_path, test)


def test_plans_hold_no_key_of_a_caller(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        await stage.running.ask(make_request(key=ALICE), make_request(model="other", key=NARROW))
        texts = [text for plan in list_plans() for text in find_texts(plan)]
        assert "sender" in texts
        assert PROVIDER_KEY in texts, "the search finds texts of plans"
        assert not any(key[:10] in text for text in texts for key in (ALICE, NARROW))

    play(tmp_path, test)


def find_texts(plan: Plan) -> list[str]:
    """The texts that a plan refers to, without those of plugins, modules and the pool's loop."""
    seen, texts = {id(plan)}, []
    queue = deque(getattr(plan, name) for name in ("model", "facts", "target", "operation", "marks"))
    while queue:
        value = queue.popleft()
        if id(value) in seen or isinstance(value, type):
            continue
        seen.add(id(value))
        if isinstance(value, (str, bytes)):
            texts.append(value if isinstance(value, str) else value.decode("latin-1"))
        queue.extend(gc.get_referents(value))
    return texts


def test_requests_with_rules_of_their_own_have_no_plan(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        [answer] = await stage.running.ask(make_request("hi", "x-gate-stream: failover=never"))
        assert answer.status == 200
        assert stage.direct == 0
        assert (await stage.running.ask(make_request()))[0].status == 200
        assert stage.direct == 1

    play(tmp_path, test)


class Guard:
    """A guard that allows everything."""

    @guard_impl
    def review_request(self) -> None:
        return None


@pytest.mark.parametrize(
    ("options", "covered"),
    [
        ({}, {("m", ALICE), ("other", ALICE), ("m", BOB)}),
        ({"models": ("other",)}, {("other", ALICE)}),
        ({"keys": ("alice",)}, {("m", ALICE), ("other", ALICE)}),
        ({"operations": ("images",)}, set()),
    ],
)
def test_only_requests_that_a_guard_covers_and_cannot_see_need_a_task(
    tmp_path: Path, options: dict[str, Any], covered: set[tuple[str, str]]
) -> None:
    async def test(stage: Stage) -> None:
        stage.gate.host.add("guard", Guard())
        stage.reload(
            plugins={**stage.config.plugins, "guard": True}, plugin_options={"guard": PluginOptions(**options)}
        )
        for _ in range(2):
            for model_name, key in (("m", ALICE), ("other", ALICE), ("m", BOB), ("m", ALICE)):
                before = stage.direct
                [answer] = await stage.running.ask(make_request(model=model_name, key=key))
                assert answer.status == 200
                assert stage.direct - before == ((model_name, key) not in covered), (model_name, key)
                assert ("guard:guard" in answer.headers.get("X-Gate-Loss", "")) == ((model_name, key) in covered)

    play(tmp_path, test)


def make_entry(*targets: tuple[str, float], **rest: Any) -> ModelEntry:
    return ModelEntry(
        name="m",
        targets=tuple(ModelTarget(provider="sender", model=name, weight=weight) for name, weight in targets),
        **rest,
    )


def test_each_of_several_targets_is_asked_by_its_weight_without_a_task(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        stage.reload(models={"m": make_entry(("one", 1), ("two", 3), ("none", 0))})
        answers = await stage.running.ask(*[make_request()] * 200)
        asked = Counter(answer.headers["X-Gate-Model"] for answer in answers)
        assert stage.direct == 200
        assert set(asked) == {"one", "two"}
        assert 110 <= asked["two"] <= 190

    play(tmp_path, test)


def test_a_failed_attempt_goes_on_at_the_other_targets_in_order(tmp_path: Path) -> None:
    """The first attempt began without a task; its failure, the fallback and the headers are those of any request."""

    async def test(stage: Stage) -> None:
        other = ModelEntry(name="other", targets=(ModelTarget(provider="sender", model="last"),))
        stage.reload(models={"m": make_entry(("one", 1), fallback=("other",)), "other": other})
        stage.sender.hook = lambda call: fail_at(call, "one")
        answers = await stage.running.ask(*[make_request()] * 2)
        assert [(answer.status, answer.headers["X-Gate-Model"]) for answer in answers] == [(200, "last")] * 2
        assert [answer.headers["X-Gate-Attempts"] for answer in answers] == ["2", "2"]
        assert [call.target.upstream_model for call in stage.sender.calls] == ["one", "last"] * 2
        assert stage.direct == 1  # then something is known against the first target
        entries = await stage.wait_for_entries(2)
        assert [(entry.target.upstream_model, entry.status, entry.progress.attempts) for entry in entries] == [
            ("last", 200, 2)
        ] * 2

        stage.sender.hook = lambda call: fail_at(call, "one", "last")
        [answer] = await stage.running.ask(make_request())
        assert answer.status == 503
        [*_, entry] = await stage.wait_for_entries(3)
        assert (entry.target.upstream_model, entry.progress.attempts) == ("last", 2)

    play(tmp_path, test)


def test_a_request_whose_fault_is_the_callers_is_not_sent_elsewhere(tmp_path: Path) -> None:
    def refuse(_call: Call) -> None:
        raise InvalidField("ask", "no")

    async def test(stage: Stage) -> None:
        stage.reload(models={"m": make_entry(("one", 1), ("two", 1))})
        stage.sender.hook = refuse
        [answer] = await stage.running.ask(make_request())
        assert (answer.status, len(stage.sender.calls), stage.direct) == (400, 1, 1)

    play(tmp_path, test)


def test_the_keys_of_a_provider_take_turns_without_a_task(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        provider = stage.config.providers["sender"]
        keys = (Secret("first-key-0123456789"), Secret("second-key-0123456789"))
        stage.reload(providers={"sender": replace(provider, api_keys=keys, api_key=Secret(""))})
        await stage.running.ask(*[make_request()] * 4)
        assert [call.target.api_key for call in stage.sender.calls] == [*keys, *keys]
        assert stage.direct == 4

    play(tmp_path, test)


def test_a_target_that_has_failed_is_chosen_by_the_general_way(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        stage.reload(models={"m": make_entry(("one", 1), ("two", 1))})
        stage.sender.hook = lambda call: fail_at(call, "one")
        await stage.running.ask(*[make_request()] * 30)
        assert stage.direct < 30
        assert {call.target.upstream_model for call in stage.sender.calls} == {"one", "two"}

    play(tmp_path, test)


def fail_at(call: Call, *models: str) -> None:
    if call.target.upstream_model in models:
        raise UpstreamOverloaded("busy")


class Wrapper:
    """A wrapper of all hooks at which requests pass. `log` has the targets of the calls that it sees."""

    def __init__(self) -> None:
        self.log: list[tuple[str, str]] = []

    @format_impl(wrapper=True)
    def forward_request(self, call: Call) -> Generator[None, Any, Any]:
        self.log.append(("format", call.target.upstream_model))
        return (yield)

    @provider_impl(wrapper=True)
    def call_upstream(self, call: Call) -> Generator[None, Any, Any]:
        self.log.append(("provider", call.target.upstream_model))
        return (yield)


@pytest.mark.parametrize(
    ("options", "wrapped"),
    [
        ({}, {("m", ALICE), ("other", ALICE), ("m", BOB)}),
        ({"models": ("other",)}, {("other", ALICE)}),
        ({"keys": ("alice",)}, {("m", ALICE), ("other", ALICE)}),
        ({"operations": ("images",)}, set()),
    ],
)
def test_a_wrapper_is_called_for_its_scope_and_costs_other_models_nothing(
    tmp_path: Path, options: dict[str, Any], wrapped: set[tuple[str, str]]
) -> None:
    async def test(stage: Stage) -> None:
        wrapper = Wrapper()
        stage.gate.host.add("wrap", wrapper)
        stage.reload(plugins={**stage.config.plugins, "wrap": True}, plugin_options={"wrap": PluginOptions(**options)})
        for _ in range(2):
            for model_name, key in (("m", ALICE), ("other", ALICE), ("m", BOB)):
                before = stage.direct
                wrapper.log.clear()
                [answer] = await stage.running.ask(make_request(model=model_name, key=key))
                assert answer.status == 200
                is_wrapped = (model_name, key) in wrapped
                assert wrapper.log == [("format", model_name), ("provider", model_name)] * is_wrapped
                if not options.get("keys"):  # the plan of a wrapper of some keys is that of all keys
                    assert stage.direct - before == (not is_wrapped)

    play(tmp_path, test)


@pytest.mark.parametrize("models", [("last",), ("other",), ("one",), ("unused",)])
def test_an_attempt_that_goes_on_at_another_target_calls_its_wrappers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, models: tuple[str, ...]
) -> None:
    """The first attempt has a plan, whose hooks have only the wrappers of its own target."""

    async def test(stage: Stage) -> None:
        wrapper = Wrapper()
        stage.gate.host.add("wrap", wrapper)
        other = ModelEntry(name="other", targets=(ModelTarget(provider="sender", model="last"),))
        stage.reload(
            models={"m": make_entry(("one", 1), fallback=("other",)), "other": other},
            plugins={**stage.config.plugins, "wrap": True},
            plugin_options={"wrap": PluginOptions(models=models)},
        )
        stage.sender.hook = lambda call: fail_at(call, "one")
        logs = []
        for has_plan in (True, False):
            if not has_plan:
                monkeypatch.setattr(plans, "make_plan", lambda *_: None)
            stage.gate.health.circuits._circuits.clear()
            stage.gate.plans.clear()
            wrapper.log.clear()
            [answer] = await stage.running.ask(make_request())
            assert answer.headers["X-Gate-Model"] == "last"
            logs.append(wrapper.log.copy())
        assert logs[0] == logs[1]
        assert bool(logs[0]) == (models != ("unused",))

    play(tmp_path, test)
