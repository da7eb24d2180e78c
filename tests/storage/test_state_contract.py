"""What every store of conversation state and of client secrets promises: the files of one machine, and PostgreSQL."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tornado.ioloop import IOLoop

from tests.support.databases import empty
from tornado_gate.database import state_values
from tornado_gate.database.engine import Database
from tornado_gate.database.state_calls import StateCalls
from tornado_gate.database.state_secrets import DatabaseClientSecretStore
from tornado_gate.database.state_values import DatabaseState
from tornado_gate.errors import GateError, RateLimited
from tornado_gate.realtime.client_secrets import SECRET_PREFIX, ClientSecrets
from tornado_gate.storage import conversation_state
from tornado_gate.storage.client_secrets import ClientSecretFile, ClientSecretStore
from tornado_gate.storage.conversation_state import MemoryStore, SharedMemory, StateStore
from tornado_gate.types import ClientSecretRequest

MakeState = Callable[[], StateStore]
MakeSecrets = Callable[[], ClientSecrets]
STORES = ("file", "database")
SECRET = ClientSecretRequest(seconds=60, model="m", session={"type": "realtime"})


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def address(store: str, request: pytest.FixtureRequest) -> str:
    """The address of an empty PostgreSQL database, "" for the files."""
    if store == "file":
        return ""
    address: str = request.getfixturevalue("migrated_postgres")
    empty(address)
    return address


@pytest.fixture
def sizes() -> list[int]:
    """What stores in the database have reported as the space of all values."""
    return []


@pytest.fixture
def make_state(address: str, tmp_path: Path, io_loop: IOLoop, sizes: list[int]) -> Iterator[MakeState]:
    """Makes the store of another process: of the same machine, or of another node. All are closed in the end."""
    made: list[StateStore] = []

    def make() -> StateStore:
        if address:
            calls = StateCalls(Database(tmp_path, address), lambda: None)
            made.append(DatabaseState(calls, state_values.MAX_BYTES, sizes.append))
        else:
            made.append(SharedMemory(MemoryStore(tmp_path)))
        return made[-1]

    yield make
    for state in made:
        io_loop.run_sync(state.close)


@pytest.fixture
def make_secrets(address: str, tmp_path: Path, io_loop: IOLoop) -> Iterator[MakeSecrets]:
    made: list[ClientSecrets] = []

    def make() -> ClientSecrets:
        store: ClientSecretStore = ClientSecretFile(tmp_path)
        if address:
            store = DatabaseClientSecretStore(StateCalls(Database(tmp_path, address), lambda: None))
        made.append(ClientSecrets(store, 10))
        return made[-1]

    yield make
    for secrets in made:
        io_loop.run_sync(secrets.close)


def bound(monkeypatch: pytest.MonkeyPatch, max_bytes: int, writes: int) -> None:
    """Set the space of all values, and how often it is checked. The file's cache is too small for any value."""
    monkeypatch.setattr(conversation_state, "CACHED_BYTES", 1)
    for module in (conversation_state, state_values):
        monkeypatch.setattr(module, "MAX_BYTES", max_bytes)
        monkeypatch.setattr(module, "WRITES_BETWEEN_PRUNES", writes)


async def finish_pruning(state: StateStore) -> None:
    """Wait until a store that prunes in the background has done so."""
    if isinstance(state, DatabaseState):
        await state.finish_pruning()


# Values


@pytest.mark.gen_test
async def test_a_value_is_there_for_its_account_only_in_any_process(make_state: MakeState) -> None:
    state = make_state()
    ann, bob = state.get_account_memory("ann"), state.get_account_memory("bob")
    await ann.put("name", {"a": [1, None]}, 60)
    assert await ann.get("name") == {"a": [1, None]}
    assert await bob.get("name") is None
    assert not await bob.delete("name")
    assert await make_state().get_account_memory("ann").get("name") == {"a": [1, None]}


@pytest.mark.gen_test
async def test_several_values_come_change_and_go(make_state: MakeState) -> None:
    ann = make_state().get_account_memory("ann")
    await ann.put_many({"a": 1, "b": 2}, 60)
    assert await ann.get_many(["a", "b", "c"]) == await ann.find_many(["a", "b", "c"]) == {"a": 1, "b": 2}
    await ann.put("b", 3, 60)
    assert await ann.delete("a")
    assert not await ann.delete("a")
    assert await ann.get_many(["a", "b"]) == {"b": 3}
    assert await ann.get_many([]) == {}
    await ann.put_many({}, 60)


@pytest.mark.gen_test
async def test_a_value_expires(make_state: MakeState) -> None:
    await make_state().get_account_memory("ann").put("name", 1, -1)
    assert await make_state().get_account_memory("ann").get("name") is None


@pytest.mark.gen_test
async def test_names_and_accounts_may_be_any_text(make_state: MakeState) -> None:
    """Ids of upstreams and callers are a part of names."""
    state = make_state()
    for text in ("", "\0", "a\0b", "é€😀", "'; --", "%_", "x" * 900):
        memory = state.get_account_memory(text)
        await memory.put_many({text: text, f"{text}:1": 1}, 60)
        assert await memory.get_many([text, f"{text}:1"]) == {text: text, f"{text}:1": 1}, text
        assert await memory.delete_group(text), text
    assert await state.get_account_memory("ann").get("unknown" * 10_000) is None


@pytest.mark.gen_test
async def test_a_value_too_long_is_not_kept(make_state: MakeState, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation_state, "LONGEST_VALUE", 10)
    ann = make_state().get_account_memory("ann")
    await ann.put("name", "x" * 20, 60)
    assert await ann.get("name") is None


@pytest.mark.gen_test
async def test_the_largest_account_loses_its_own_values_and_nobody_elses(
    make_state: MakeState, monkeypatch: pytest.MonkeyPatch, sizes: list[int]
) -> None:
    bound(monkeypatch, 20_000, 10)
    state = make_state()
    small, greedy = state.get_account_memory("small"), state.get_account_memory("greedy")
    for number in range(5):  # they expire first of all
        await small.put(f"{number}", "x" * 100, 60)
    for number in range(301):
        await greedy.put(f"{number}", "x" * 100, 3600 + number)
        await finish_pruning(state)
    assert len(await small.get_many([str(number) for number in range(5)])) == 5
    kept = await greedy.get_many([str(number) for number in range(301)])
    assert 40 < len(kept) < 140
    assert "300" in kept, "it loses its own values that expire soonest"
    assert all(size > 20_000 for size in sizes[1:]), "the space is measured, indexes included"


# Groups


@pytest.mark.gen_test
async def test_a_group_is_read_whole_in_the_order_of_its_names(make_state: MakeState) -> None:
    state = make_state()
    ann, bob = state.get_account_memory("ann"), state.get_account_memory("bob")
    assert await ann.extend_group("g", {"g": "head", "g:2": 2, "g:1": 1}, 60, new=True)
    await ann.put_many({"g;": "no member", "gh": "no member", "f": "no member"}, 60)
    group = await ann.read_group("g")
    assert list(group.values.items()) == [("g", "head"), ("g:1", 1), ("g:2", 2)]
    assert group.size > 0
    assert await bob.read_group("g") == ({}, 0)
    assert await ann.delete_group("g")
    assert not await ann.delete_group("g")
    assert await ann.read_group("g") == ({}, 0)
    assert await ann.get_many(["g;", "gh", "f"]) == {"g;": "no member", "gh": "no member", "f": "no member"}


@pytest.mark.gen_test
async def test_a_group_is_extended_only_where_it_exists(make_state: MakeState) -> None:
    state = make_state()
    ann, bob = state.get_account_memory("ann"), state.get_account_memory("bob")
    assert not await ann.extend_group("g", {"g:1": 1}, 60)
    assert await ann.extend_group("g", {"g": "head"}, 60, new=True)
    assert not await bob.extend_group("g", {"g:1": 1}, 60)
    assert await ann.extend_group("g", {"g:1": 1}, 60)
    assert (await make_state().get_account_memory("ann").read_group("g")).values == {"g": "head", "g:1": 1}
    assert await ann.extend_group("g", {}, -1)
    assert await ann.read_group("g") == ({}, 0)
    assert not await ann.extend_group("g", {"g:2": 2}, 60)


@pytest.mark.gen_test
async def test_processes_that_extend_and_delete_a_group_lose_no_part_and_leave_none(make_state: MakeState) -> None:
    processes = [make_state().get_account_memory("ann") for _ in range(3)]
    await processes[0].extend_group("g", {"g": "head"}, 60, new=True)
    extending = [processes[n % 3].extend_group("g", {f"g:{n:02}": n, "g:x": n}, 60) for n in range(12)]
    assert all(await asyncio.gather(*extending))
    assert len((await processes[0].read_group("g")).values) == 14
    extending = [processes[n % 3].extend_group("g", {f"g:{n:02}": n}, 60) for n in range(20, 30)]
    extended = await asyncio.gather(*extending[:5], processes[1].delete_group("g"), *extending[5:])
    assert extended[5]
    assert await processes[2].read_group("g") == ({}, 0)


@pytest.mark.gen_test
async def test_a_full_store_takes_a_group_from_its_head_on(
    make_state: MakeState, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a group never loses a part while the rest can be read."""
    bound(monkeypatch, 100_000, 2)
    state = make_state()
    greedy, small = state.get_account_memory("greedy"), state.get_account_memory("small")
    await small.extend_group("s", {"s": "head", "s:1": "x" * 100}, 60, new=True)
    await greedy.extend_group("g", {"g": "head", **{f"g:{n}": "x" * 1000 for n in range(10)}}, 60, new=True)
    size = (await greedy.read_group("g")).size
    bound(monkeypatch, size, 2)
    if isinstance(state, DatabaseState):
        state.max_bytes = size
    for number in range(3):
        await greedy.extend_group(f"h{number}", {f"h{number}": "head"}, 120, new=True)
        await finish_pruning(state)
    assert "g" not in (await greedy.read_group("g")).values
    assert not await greedy.extend_group("g", {"g:11": 1}, 60)
    assert list((await small.read_group("s")).values) == ["s", "s:1"]


@pytest.mark.gen_test
async def test_a_closed_store_opens_again(make_state: MakeState) -> None:
    state = make_state()
    await state.get_account_memory("ann").put("name", 1, 60)
    await state.close()
    assert await state.get_account_memory("ann").find_many(["name"]) == {"name": 1}


# Client secrets


@pytest.mark.gen_test
async def test_a_client_secret_stands_for_the_key_that_made_it_in_any_process(make_secrets: MakeSecrets) -> None:
    made = await make_secrets().make(SECRET, "a", b"\x01\x02")
    assert made.value.startswith(SECRET_PREFIX)
    assert abs(made.expires_at - time.time() - 60) < 5
    held = await make_secrets().find_claims(made.value)
    assert held is not None
    assert (held.key_digest, held.model, held.session) == (b"\x01\x02", "m", {"type": "realtime"})


@pytest.mark.gen_test
async def test_a_client_secret_that_never_was_and_one_that_has_expired_are_the_same(make_secrets: MakeSecrets) -> None:
    secrets = make_secrets()
    assert await secrets.find_claims(SECRET_PREFIX + "never") is None
    assert await secrets.find_claims(SECRET_PREFIX + "\udcff") is None
    expired = await secrets.make(ClientSecretRequest(seconds=-1, model="m", session={}), "a", b"\x01")
    assert await secrets.find_claims(expired.value) is None


@pytest.mark.gen_test
async def test_an_account_has_its_number_of_secrets_in_all_processes_together(make_secrets: MakeSecrets) -> None:
    processes = [make_secrets() for _ in range(2)]
    theirs = await processes[0].make(SECRET, "small", b"\x01")
    await processes[0].make(ClientSecretRequest(seconds=-1, model="m", session={}), "large", b"\x02")  # has expired
    asked = await asyncio.gather(
        *(processes[number % 2].make(SECRET, "large", b"\x02") for number in range(30)), return_exceptions=True
    )
    refused = [error for error in asked if isinstance(error, GateError)]
    assert len(refused) == 20
    assert {(type(error), error.code) for error in refused} == {(RateLimited, "too_many_client_secrets")}
    assert await processes[1].find_claims(theirs.value) is not None
