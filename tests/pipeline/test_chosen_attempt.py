"""A request whose target is chosen, measured, repeated or limited begins without a task, and ends like any other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.test_direct import RESPONSES, Scripted, compare, observe, play
from tests.support.direct import OK, Stage, echo, make_request, reply
from tests.support.raw import Peer
from tests.support.variants import choose, vary
from tornado_gate import types
from tornado_gate.config.model import ModelEntry, ModelTarget, Secret, TargetConcurrency
from tornado_gate.config.routing import Affinity, RetriesConfig
from tornado_gate.errors import UpstreamOverloaded
from tornado_gate.types.value import replace

RETRIES = RetriesConfig(same_target=2, backoff_seconds=0.001, max_wait_seconds=0.01)
WORK = "one", "two"


def make_entry(*models: str, **rest: Any) -> Mapping[str, ModelEntry]:
    targets = tuple(ModelTarget(provider="sender", model=name) for name in models)
    return {"m": ModelEntry(name="m", targets=targets, **rest)}


ENTRIES: dict[str, Mapping[str, ModelEntry]] = {
    "retries": make_entry("one", retries=RETRIES),
    "retries, two targets": make_entry(*WORK, retries=RETRIES),
    "latency": make_entry(*WORK, strategy="latency"),
    "least_busy": make_entry(*WORK, strategy="least_busy"),
    "affinity": make_entry(*WORK, affinity=Affinity(sources=("session",))),
    "affinity without a session": make_entry(*WORK, affinity=Affinity(sources=("other",), otherwise="none")),
    "no failover": make_entry(*WORK, failover=False),
    "no failover, one target": make_entry("one", failover=False),
    "all": make_entry(*WORK, retries=RETRIES, strategy="least_busy", affinity=Affinity(sources=("session",))),
}
FEW = (
    *("whole", "chunked in two reads", "500 A", "503 A", "429 A", "400 A", "an error in a 200", "no JSON"),
    *("closed before the head", "reset in the body", "events, whole", "events in two reads", "events that break off"),
)
"""The responses that are played in `make test`."""


def describe_loads(stage: Stage) -> dict[str, Any]:
    loads = stage.gate.snapshot.targets.loads._loads
    return {
        f"load of {name}": (load.in_flight, load.retries, sorted(load._averages))
        for (_, name), load in loads.items()
        if load._averages or load.in_flight or load.retries
    }


async def look(stage: Stage, request: bytes) -> dict[str, Any]:
    """Observe a request. What was measured before is forgotten, and chance chooses the same target."""
    table = stage.gate.snapshot.targets
    table.loads._loads.clear()
    table.chance.seed(7)
    stage.gate.health.moved_sessions._targets.clear()
    seen = await observe(stage, request)
    moved = {place for place, _ in stage.gate.health.moved_sessions._targets.values()}
    return {**seen, "loads": describe_loads(stage), "moved": moved}


@pytest.mark.parametrize("kinds", vary(list(FEW), list(RESPONSES)), ids=["few", "all"])
@pytest.mark.parametrize("name", choose(ENTRIES, ["retries, two targets", "all", "no failover"]))
def test_every_response_of_an_upstream_ends_like_that_of_any_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, kinds: list[str]
) -> None:
    script = Scripted()
    failed: dict[tuple[str, bool], list[str]] = {}

    async def test(stage: Stage) -> None:
        stage.reload(models=ENTRIES[name])
        for kind in kinds:
            script.steps = RESPONSES[kind]
            for stream in (False, True):
                request = make_request(stream=stream, session="of-a-conversation")
                differences = await compare(stage, monkeypatch, request, partial(look, stage))
                if differences:
                    failed[kind, stream] = differences

    play(tmp_path, script, test)
    assert not failed, "\n".join(f"{kind}: {differences}" for kind, differences in failed.items())


def serve(folder: Path, test: Callable[[Stage], Coroutine[Any, Any, None]], script: Any = None, **rest: Any) -> None:
    play(folder, script or echo(), test, **rest)


def test_the_first_attempt_needs_no_task_and_only_its_failure_is_repeated(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        stage.reload(models=ENTRIES["retries"])
        assert [answer.status for answer in await stage.running.ask(*[make_request()] * 3)] == [200] * 3
        assert stage.direct == 3
        failures = iter([True, True, False])

        def fail(_call: types.Call) -> None:
            if next(failures):
                raise UpstreamOverloaded("busy")

        stage.sender.hook = fail
        [answer] = await stage.running.ask(make_request())
        assert (answer.status, answer.headers["X-Gate-Attempts"]) == (200, "3")
        assert stage.direct == 4
        assert describe_loads(stage) == {"load of one": (0, 0, [False])}

    serve(tmp_path, test)


class Slow:
    """An upstream that responds to a request only after `go_on`. It counts the requests."""

    def __init__(self) -> None:
        self.arrived = asyncio.Condition()
        self.requests = 0
        self.go_on = asyncio.Event()

    async def __call__(self, peer: Peer) -> None:
        while True:
            await peer.request()
            async with self.arrived:
                self.requests += 1
                self.arrived.notify_all()
            await self.go_on.wait()
            await peer.say(reply())

    async def wait_for(self, count: int) -> None:
        async with self.arrived:
            await self.arrived.wait_for(lambda: self.requests >= count)


def test_a_request_counts_in_the_load_of_its_target_until_it_ends(tmp_path: Path) -> None:
    slow = Slow()

    async def test(stage: Stage) -> None:
        stage.reload(models=ENTRIES["least_busy"])
        clients = [await stage.running.connect() for _ in range(4)]
        for number, client in enumerate(clients):
            await client.send(make_request())
            await slow.wait_for(number + 1)
        assert [call.target.upstream_model for call in stage.sender.calls].count("one") == 2
        assert describe_loads(stage) == {"load of one": (2, 0, []), "load of two": (2, 0, [])}
        await clients[0].close()
        await stage.wait_for_entries(1)
        left = stage.sender.calls[0].target.upstream_model
        assert describe_loads(stage)[f"load of {left}"] == (1, 0, [])
        slow.go_on.set()
        for client in clients[1:]:
            assert (await client.answer()).status == 200
            await client.close()
        assert stage.direct == 4
        assert {load[0] for load in describe_loads(stage).values()} == {0}

    serve(tmp_path, test, slow)


def limit(stage: Stage, most: int, **rest: Any) -> None:
    entry = stage.config.providers["sender"]
    stage.reload(providers={"sender": replace(entry, concurrency=TargetConcurrency(most=most, **rest))})


def test_a_request_waits_for_a_slot_in_a_task_and_needs_none_while_one_is_free(tmp_path: Path) -> None:
    slow = Slow()

    async def test(stage: Stage) -> None:
        limit(stage, 1, queue=1, wait=30)
        first, second, third = [await stage.running.connect() for _ in range(3)]
        await first.send(make_request())
        await slow.wait_for(1)
        queue = stage.gate.target_queues.find_queue("sender")
        waiting = asyncio.Event()
        report = queue._report
        queue._report = lambda *counts: (report(*counts), waiting.set() if counts[2] else None)[0]
        await second.send(make_request())
        await waiting.wait()
        await third.send(make_request())
        refused = await third.answer()
        assert (refused.status, queue.running, queue.waiting) == (503, 1, 1)
        slow.go_on.set()
        assert [(await client.answer()).body for client in (first, second)] == [OK, OK]
        await stage.wait_for_entries(3)
        assert (queue.running, queue.waiting) == (0, 0)
        assert stage.direct == 1
        for client in (first, second, third):
            await client.close()

    serve(tmp_path, test, slow)


@pytest.mark.parametrize("speaks", ["plain", "other"])
def test_every_end_frees_the_slot(tmp_path: Path, speaks: str) -> None:
    script = Scripted()

    async def test(stage: Stage) -> None:
        limit(stage, 1, queue=0, wait=1)
        queue = stage.gate.target_queues.find_queue("sender")
        for name in FEW:
            script.steps = RESPONSES[name]
            for stream in (False, True):
                await observe(stage, make_request(stream=stream))
                assert queue.running == 0, (name, stream)

    serve(tmp_path, test, script, speaks=frozenset({speaks}))


def test_a_conversation_stays_at_its_target_and_key_without_a_task(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        entry = stage.config.providers["sender"]
        keys = (Secret("first-key-0123456789"), Secret("second-key-0123456789"))
        stage.reload(
            models=ENTRIES["affinity"],
            providers={"sender": replace(entry, api_keys=keys, api_key=Secret(""))},
        )
        places: dict[str, set[tuple[str, str]]] = {}
        for _ in range(4):
            for number in range(8):
                session = f"conversation-{number}"
                [answer] = await stage.running.ask(make_request(session=session))
                assert answer.status == 200
                target = stage.sender.calls[-1].target
                places.setdefault(session, set()).add((target.upstream_model, target.key))
        assert {len(of_session) for of_session in places.values()} == {1}
        assert len(set.union(*places.values())) > 1
        assert stage.direct == 32

    serve(tmp_path, test)


def test_a_conversation_whose_target_fails_moves_and_stays(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        stage.reload(models=ENTRIES["affinity"])
        await stage.running.ask(make_request(session="s"))
        home = stage.sender.calls[-1].target.upstream_model

        def fail(call: types.Call) -> None:
            if call.target.upstream_model == home:
                raise UpstreamOverloaded("busy")

        stage.sender.hook = fail
        [answer] = await stage.running.ask(make_request(session="s"))
        assert (answer.status, answer.headers["X-Gate-Model"] != home) == (200, True)
        assert stage.direct == 2
        stage.sender.hook = None
        stage.gate.health.circuits._circuits.clear()
        [after] = await stage.running.ask(make_request(session="s"))
        assert after.headers["X-Gate-Model"] == answer.headers["X-Gate-Model"]
        assert stage.direct == 3

    serve(tmp_path, test)


def test_hooks_see_that_no_other_target_may_be_tried(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        for name in ("no failover", "no failover, one target"):
            stage.reload(models=ENTRIES[name])
            assert (await stage.running.ask(make_request()))[0].status == 200
            assert stage.sender.calls[-1].failover is False
        assert stage.direct == 2

    serve(tmp_path, test)
