"""What happens to an owner or a team takes effect on keys within a second, in every process and on both databases."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from sqlalchemy import event, insert

from tests.accounts.support import add_team, add_user
from tornado_gate.accounts.accounts import Accounts
from tornado_gate.accounts.key_record import KeyRecord
from tornado_gate.accounts.key_ring import KeyRing
from tornado_gate.accounts.keys import KeyStore, digest_key
from tornado_gate.accounts.people import Actor
from tornado_gate.database import tables
from tornado_gate.database.engine import Database
from tornado_gate.types import Budget, Limits

ACTOR = Actor(id="command", name="test", role="administrator")
PATIENCE_SECONDS = 60.0
REVOKE = """
import pathlib, sys
from tornado_gate.accounts.keys import KeyStore
store = KeyStore.open(pathlib.Path(sys.argv[1]), sys.argv[2])
print(store.revoke(sys.argv[3]))
"""


@asynccontextmanager
async def watch(database: Database, address: str) -> AsyncIterator[KeyRing]:
    """The keys of a process with connections of its own."""
    ring = KeyRing(KeyStore(Database(database.data_dir, address)), {})
    await ring.start()
    try:
        async with asyncio.timeout(30):
            yield ring
    finally:
        await ring.stop()


async def wait_until(ring: KeyRing, key: str, holds: Callable[[KeyRecord | None], bool]) -> None:
    """Wait until the record of a key is as `holds` says: the ring looks every POLL_SECONDS, when this process runs."""
    began = time.monotonic()
    while not holds(await ring.find_key(key)):
        await asyncio.sleep(0.01)
        assert time.monotonic() < began + PATIENCE_SECONDS


def is_gone(record: KeyRecord | None) -> bool:
    return record is None


@pytest.mark.gen_test(timeout=60)
async def test_a_revocation_by_another_process_is_in_force_within_a_second(
    database: Database, database_address: str
) -> None:
    text, made = KeyStore(database).create("a")
    async with watch(database, database_address) as ring, watch(database, database_address) as other:
        assert await ring.find_key(text) is not None
        assert await other.find_key(text) is not None
        command = [sys.executable, "-c", REVOKE, str(database.data_dir), database_address, made.id]
        assert await asyncio.to_thread(subprocess.check_output, command, text=True, timeout=20) == "True\n"
        await asyncio.gather(wait_until(ring, text, is_gone), wait_until(other, text, is_gone))


@pytest.mark.qa
@pytest.mark.gen_test(timeout=60)
async def test_owners_and_teams_limit_keys_within_a_second(database: Database, database_address: str) -> None:
    accounts, store = Accounts(database, session_seconds=60), KeyStore(database)
    root, ann = add_user(database, "root", role="administrator"), add_user(database, "ann", role="administrator")
    team = add_team(database, "t", ann)
    key, of_ann = store.create("a", user=ann.id, role="administrator")
    of_team = [store.create("b", user=ann.id, team=team)[0] for _ in range(2)]
    async with watch(database, database_address) as ring:
        for text in (key, *of_team):
            assert await ring.find_key(text) is not None
        accounts.users.set_role(ann.id, "member", ACTOR)
        await wait_until(ring, key, lambda record: record is not None and record.role == "member")
        accounts.users.set_state(ann.id, "disabled", ACTOR)
        await wait_until(ring, key, is_gone)
        accounts.users.set_state(ann.id, "active", ACTOR)
        await wait_until(ring, key, lambda record: record is not None)
        accounts.teams.update(team, ACTOR, models=["local-*"])
        await wait_until(ring, of_team[0], lambda record: record is not None and record.models == ("local-*",))
        accounts.teams.update(team, ACTOR, limits={"concurrent_requests": 3}, budget={"usd_per_day": 5})
        await wait_until(
            ring, of_team[0], lambda record: record is not None and record.team_limits == Limits(concurrent_requests=3)
        )
        found = await ring.find_key(of_team[0])
        assert found is not None
        assert found.team_budget == Budget(usd_per_day=5)
        accounts.members.remove(team, ann.id, ACTOR)
        await wait_until(ring, of_team[0], is_gone)
        kept, _ = store.create("c", user=root.id, team=team)
        await wait_until(ring, kept, lambda record: record is not None)
        accounts.teams.delete(team, ACTOR)
        await wait_until(ring, kept, is_gone)
        store.change(of_ann.id, tags=["new"])
        await wait_until(ring, key, lambda record: record is not None and record.tags == ("new",))
        accounts.users.delete(ann.id, ACTOR)
        await wait_until(ring, key, is_gone)


KEYS = 10_000


@pytest.mark.gen_test(timeout=120)
async def test_ten_thousand_keys_are_listed_and_found_quickly(database: Database) -> None:
    texts = [f"tg-{number:05}-of-many" for number in range(KEYS)]
    ann = add_user(database, "ann")
    rows = [
        {
            "id": f"key_{number:012}",
            "name": f"nightly run {number}",
            "account": "a",
            "user": ann.id if number % 10 == 0 else None,
            "team": None,
            "role": "member",
            "digest": digest_key(text),
            "prefix": text[:10],
            **dict.fromkeys(("models", "operations", "addresses", "tags"), ()),
            "limits": {},
            "budget": {},
            "hidden": False,
            "created_by": "command",
            "created": float(number),
            "expires": 1.0 if number % 3 == 0 else None,
        }
        for number, text in enumerate(texts)
    ]
    with database.write() as connection:
        connection.execute(insert(tables.keys), rows)
    store = KeyStore(database)
    for given in ({}, {"search": "run 99"}, {"user": ann.id}, {"state": "active"}, {"offset": KEYS - 50}):
        seconds = []
        for _ in range(3):
            began = time.perf_counter()
            page, _total = store.list_page(limit=50, **given)
            seconds.append(time.perf_counter() - began)
        assert page, given
        assert min(seconds) < 0.3, given
    writes: list[str] = []
    event.listen(
        database._engine,
        "before_cursor_execute",
        lambda *given: given[2].startswith("UPDATE") and writes.append(given[2]),
    )
    ring = KeyRing(store, {})
    for text in [text for number, text in enumerate(texts[:300]) if number % 3]:
        await ring.find_key(text)
        assert ring.find_cached(digest_key(text)) is not None
    assert not writes, "a use is written later"
    await ring._write_last_used()
    assert len(writes) == 1, "all uses are written by one statement"
    assert store.get("key_000000000001").last_used is not None
