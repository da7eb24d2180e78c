"""Work on large bodies does not occupy the event loop, and no account or plugin holds up the others."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import orjson
import pytest

from tornado_gate.admission import body_worker
from tornado_gate.admission.body_budget import BodyBudget
from tornado_gate.admission.body_worker import LOOP_BYTES, BodyWorker
from tornado_gate.codec.json_bounds import measure_json
from tornado_gate.errors import GateError, TooLarge, Unavailable


def test_the_loop_runs_while_a_body_is_processed() -> None:
    async def main() -> None:
        worker, go = BodyWorker(), threading.Event()
        working = asyncio.ensure_future(worker.run("a", go.wait))
        await asyncio.sleep(0.01)
        assert not working.done()
        go.set()
        assert await working
        worker.close()

    asyncio.run(main())


def test_another_account_waits_for_at_most_one_body() -> None:
    async def main() -> None:
        worker, go, order = BodyWorker(), threading.Event(), []
        first = [asyncio.ensure_future(worker.run("a", go.wait))]
        first += [asyncio.ensure_future(worker.run("a", order.append, "a")) for _ in range(5)]
        await asyncio.sleep(0)
        other = asyncio.ensure_future(worker.run("b", order.append, "b"))
        await asyncio.sleep(0)
        go.set()
        await asyncio.gather(*first, other)
        assert order.index("b") <= 1
        worker.close()

    asyncio.run(main())


def test_an_error_of_the_work_is_raised() -> None:
    async def main() -> None:
        worker, budget = BodyWorker(), BodyBudget(1 << 20, "x")
        with pytest.raises(TooLarge):
            await worker.load_object([b'{"a":[', b"[]," * 1000, b"[]]}"], budget.open("a"), 1000)
        body = await worker.load_object([b'{"a":[[]]}'], budget.open("a"), 1000)
        assert body.json == {"a": [[]]}
        assert budget.held > 0
        worker.close()

    asyncio.run(main())


TEXT = {"a": [{"text": "x" * 1000} for _ in range(100)]}
BODIES: dict[str, dict[str, Any]] = {
    "one text": {"a": "x" * 100_000, "b": "é"},
    "texts": TEXT,
    "many arrays": {"a": [[] for _ in range(20_000)]},
    "arrays near the limit": {"a": [[] for _ in range(45_000)]},
    "long": {"a": "x" * LOOP_BYTES},
    "long and dense": {"a": ["short"] * 100_000},
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_every_way_to_load_a_body_reserves_the_same_memory(body: dict[str, Any]) -> None:
    raw = orjson.dumps(body)
    pieces = [raw[start : start + 60_000] for start in range(0, len(raw), 60_000)]

    async def main() -> None:
        worker, budget = BodyWorker(), BodyBudget(1 << 30, "x")
        claim = budget.open("a")
        loaded = await worker.load_object(pieces, claim, 500_000)
        assert (loaded.raw, loaded.json, pieces) == (raw, body, [])
        assert claim.held == measure_json(raw, 500_000).parsed_bytes
        assert claim not in claim.bodies.incomplete
        worker.close()

    asyncio.run(main())


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_a_parsed_value_waits_for_its_memory(body: dict[str, Any]) -> None:
    raw = orjson.dumps(body)

    async def main() -> None:
        worker, waits = BodyWorker(), asyncio.Event()
        total = measure_json(raw, 500_000).parsed_bytes + 10
        budget = BodyBudget(total, "x", lambda _held, waiting, _refused: waits.set() if waiting else None)
        other = budget.open("b")
        assert other.grow(20) is None
        other.complete()
        claim = budget.open("a")
        loading = asyncio.ensure_future(worker.load_object([raw], claim, 500_000))
        await waits.wait()
        assert (claim.held, loading.done()) == (0, False)
        other.release()
        assert (await loading).json == body
        assert claim.held == budget.held
        worker.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("raw", "status", "code"),
    [
        (b'{"a":[' + b"[]," * 60_000 + b"[]]}", 413, "too_many_values"),
        (b'{"a":[' + b"1," * 300_000 + b"1]}", 413, "too_many_values"),
        (b"[" * 70_000, 413, "too_many_values"),
        (b":" * 130_000, 413, "too_many_values"),
        (b"[" * 15_000, 400, "invalid_json"),
        (b'{"a":' * 30_000, 413, "too_many_values"),
        (b'{"a":"' + b"\\" * 3_000_001, 400, "invalid_json"),
        (b" " * 100_000, 400, "invalid_json"),
        (b'{"a":' + b"[" * 200 + b"]" * 200 + b',"b":"' + b"x" * 100_000 + b'"}', 400, "invalid_json"),
        (b'{"a":1,"a":2,"b":"' + b"x" * 100_000 + b'"}', 400, "duplicate_name"),
        (b'{"a":1,"a":2,"b":[' + b'"x",' * 30_000 + b'"x"]}', 400, "duplicate_name"),
    ],
)
def test_hostile_bodies_are_refused(raw: bytes, status: int, code: str) -> None:
    async def main() -> None:
        worker, budget = BodyWorker(), BodyBudget(1 << 30, "x")
        with pytest.raises(GateError) as caught:
            await worker.load_object([raw], budget.open("a"), 200_000)
        assert (caught.value.status, caught.value.code) == (status, code)
        worker.close()

    asyncio.run(main())


def test_hanging_work_ends_and_the_next_work_gets_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_worker, "WORK_SECONDS", 0.05)

    async def main() -> None:
        worker, go = BodyWorker(), threading.Event()
        with pytest.raises(Unavailable) as caught:
            await worker.run("a", go.wait)
        assert caught.value.code == "overloaded"
        monkeypatch.setattr(body_worker, "WORK_SECONDS", 20)
        assert await worker.run("a", len, "four") == 4
        go.set()
        worker.close()

    asyncio.run(main())


def test_accounts_without_work_are_removed() -> None:
    async def main() -> None:
        worker = BodyWorker()
        for number in range(10):
            await worker.run(f"account {number}", len, "")
        assert not worker._turns
        worker.close()

    asyncio.run(main())
