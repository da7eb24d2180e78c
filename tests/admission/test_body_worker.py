"""Work on large bodies does not occupy the event loop, and no account or plugin holds up the others."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tornado_gate.admission import body_worker
from tornado_gate.admission.body_budget import BodyBudget
from tornado_gate.admission.body_worker import BodyWorker
from tornado_gate.errors import TooLarge, Unavailable


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


def test_another_account_waits_for_one_piece_of_work_only() -> None:
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


def test_what_the_work_raises_is_raised() -> None:
    async def main() -> None:
        worker, budget = BodyWorker(), BodyBudget(1 << 20, "x")
        with pytest.raises(TooLarge):
            await worker.load_object([b'{"a":[', b"[]," * 1000, b"[]]}"], budget.open("a"), 1000)
        body = await worker.load_object([b'{"a":[[]]}'], budget.open("a"), 1000)
        assert body.json == {"a": [[]]}
        assert budget.held > 0
        worker.close()

    asyncio.run(main())


def test_work_that_hangs_ends_and_the_next_gets_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_no_account_is_remembered() -> None:
    async def main() -> None:
        worker = BodyWorker()
        for number in range(10):
            await worker.run(f"account {number}", len, "")
        assert not worker._turns
        worker.close()

    asyncio.run(main())
