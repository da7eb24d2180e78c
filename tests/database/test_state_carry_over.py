"""Kept values and client secrets of a data directory move to the database once, whenever the start is killed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.support.databases import empty
from tornado_gate.database import state_carry_over
from tornado_gate.database.engine import Database
from tornado_gate.database.state_calls import StateCalls
from tornado_gate.database.state_secrets import DatabaseClientSecretStore
from tornado_gate.database.state_values import DatabaseState
from tornado_gate.storage.client_secrets import ClientSecretFile
from tornado_gate.storage.conversation_state import MemoryStore

NAMES = [f"response {number:04d} \N{SNOWMAN}" for number in range(1200)]


@pytest.fixture
def target(migrated_postgres: str, tmp_path: Path) -> Iterator[Database]:
    empty(migrated_postgres)
    database = Database(tmp_path, migrated_postgres)
    yield database
    database.close()


def fill(data_dir: Path) -> None:
    store = MemoryStore(data_dir)
    for account in ("ann", "bob"):
        values = {name: orjson.dumps({"of": account, "name": name}) for name in NAMES}
        store.put(account, values, time.time() + 600)
    store.put("ann", {"expired": b"{}"}, time.time() - 1)
    store.put("ann", {"n" * 2000: b"{}"}, time.time() + 600)
    store.close()


async def read(address: str, data_dir: Path, account: str) -> dict[str, Any]:
    state = DatabaseState(StateCalls(Database(data_dir, address), lambda: None))
    values = await state.get(account, [*NAMES, "expired"])
    await state.close()
    return values


@pytest.mark.qa
def test_kept_values_move_to_the_database(target: Database, migrated_postgres: str, tmp_path: Path) -> None:
    assert not state_carry_over.has_state(tmp_path)
    fill(tmp_path)
    assert state_carry_over.has_state(tmp_path)
    for _ in range(2):
        state_carry_over.carry_over_state(target, tmp_path)
        for account in ("ann", "bob"):
            values = asyncio.run(read(migrated_postgres, tmp_path, account))
            assert values == {name: {"of": account, "name": name} for name in NAMES}
    assert not state_carry_over.has_state(tmp_path)
    fill(tmp_path)  # the operator has returned to the file, and comes back
    state_carry_over.carry_over_state(target, tmp_path)
    assert not state_carry_over.has_state(tmp_path)


@pytest.mark.qa
def test_a_value_that_was_deleted_after_a_killed_move_does_not_come_back(
    target: Database, migrated_postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path)
    real = state_carry_over._ValueMove._delete_until

    def die(move: state_carry_over._ValueMove, last: list[str] | None) -> None:
        if last is not None:
            raise KeyboardInterrupt
        real(move, last)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(state_carry_over._ValueMove, "_delete_until", die)
        state_carry_over.carry_over_state(target, tmp_path)

    async def delete() -> bool:
        state = DatabaseState(StateCalls(Database(tmp_path, migrated_postgres), lambda: None))
        deleted = await state.delete("ann", NAMES[0])
        await state.close()
        return deleted

    assert asyncio.run(delete()), "the first batch was inserted"
    state_carry_over.carry_over_state(target, tmp_path)
    assert sorted(asyncio.run(read(migrated_postgres, tmp_path, "ann"))) == NAMES[1:]
    assert sorted(asyncio.run(read(migrated_postgres, tmp_path, "bob"))) == NAMES


def test_client_secrets_move_until_they_expire(target: Database, migrated_postgres: str, tmp_path: Path) -> None:
    async def run() -> list[bytes | None]:
        file = ClientSecretFile(tmp_path)
        for name, seconds in (("a" * 64, 600.0), ("b" * 64, 0.2)):
            assert await file.add(name, "ann", b"claims", time.time() + seconds, 10)
        await file.close()
        await asyncio.to_thread(state_carry_over.carry_over_state, target, tmp_path)
        store = DatabaseClientSecretStore(StateCalls(Database(tmp_path, migrated_postgres), lambda: None))
        await asyncio.sleep(0.25)  # the time of the second secret
        found = [await store.find_secret(name * 64) for name in "ab"]
        await store.close()
        return found

    assert asyncio.run(run()) == [b"claims", None]
