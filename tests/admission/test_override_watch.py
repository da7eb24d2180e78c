"""When the overrides of limits are read again: the newest read counts, whatever the order in which reads end."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from tests.admission.test_overrides import make_override
from tornado_gate.accounts.limit_overrides import Override
from tornado_gate.admission import override_watch
from tornado_gate.admission.override_watch import OverrideWatch
from tornado_gate.admission.overrides import Overrides
from tornado_gate.database.engine import Database


@pytest.mark.gen_test
async def test_a_read_that_ends_late_does_not_replace_a_newer_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, released = threading.Event(), threading.Event()
    adopted: asyncio.Queue[Overrides] = asyncio.Queue()
    results = [[], [make_override(value=1, until=2e9)], [make_override(value=2, until=3e9)]]

    def read(_database: Database) -> list[Override]:
        result = results.pop(0)
        if len(results) == 1:
            began.set()
            assert released.wait(60)
        return result

    monkeypatch.setattr(override_watch, "read_overrides", read)
    database = Database(tmp_path)
    watch = OverrideWatch(database, adopted.put_nowait)
    await watch.start()
    others = asyncio.all_tasks()
    watch.read_again()
    late = asyncio.all_tasks() - others
    assert await asyncio.to_thread(began.wait, 20)
    watch.read_again()
    assert [(await adopted.get()).next_end for _ in range(2)] == [None, 3e9]
    released.set()
    await asyncio.wait(late)
    assert adopted.empty(), "the late read has the older limits"
    watch.close()
    database.close()
