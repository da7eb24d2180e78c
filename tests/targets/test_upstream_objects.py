"""Which targets may get a request with ids of upstream objects, and how issued ids are recorded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.gates import FakeProvider, make_config, make_gate, model
from tornado_gate.config.model import ProviderConfig
from tornado_gate.errors import GateError, InvalidField, NotFound
from tornado_gate.hookspecs import Capabilities
from tornado_gate.storage.conversation_state import MemoryStore, SharedMemory
from tornado_gate.streams import batches
from tornado_gate.targets import upstream_objects
from tornado_gate.targets.configured_provider import ConfiguredProvider
from tornado_gate.targets.object_access import ObjectAccess
from tornado_gate.testing import call_to, target_of
from tornado_gate.types import (
    BufferedBody,
    Call,
    IssuedObjects,
    KeptObject,
    ObjectReference,
    ResponseRules,
    Target,
    replace,
)
from tornado_gate.types.upstream_objects import OBJECT_KINDS

Candidate = tuple[Target, ConfiguredProvider]
FILE = ObjectReference(kind="file", id="file-1", param="input.0.file_id")
TURN = ObjectReference(kind="response", id="resp_1", param="previous_response_id", only_verbatim=True)
KEPT = KeptObject(provider="first", model="m", upstream_model="up")


def candidate(name: str, *shared: str, speaks: str = "openai-responses") -> Candidate:
    entry = ProviderConfig(name=name, plugin="openai", shared_objects=frozenset(shared))
    target = replace(
        target_of(provider=name, plugin="openai", model="m", upstream_model="up"), shared_objects=entry.shared_objects
    )
    return target, ConfiguredProvider.from_entry(entry, None, Capabilities(speaks=frozenset({speaks})))


def select(*targets: Candidate, **access: Any) -> list[str]:
    selected = ObjectAccess("openai-responses", **access).select_targets(list(targets))
    return [target.provider for target, _ in selected]


def test_a_recorded_id_goes_only_to_the_entry_that_keeps_it() -> None:
    targets = candidate("second"), candidate("first"), candidate("third")
    assert select(*targets, kept=((TURN, KEPT),)) == ["first"]


def test_a_copied_object_goes_first_to_the_entry_that_keeps_it() -> None:
    targets = candidate("second"), candidate("first"), candidate("third")
    assert select(*targets, copied=(KEPT,)) == ["first", "second", "third"]
    assert select(candidate("second"), copied=(KEPT,)) == ["second"]


def test_objects_at_two_entries_cannot_be_used_together() -> None:
    kept = (TURN, KEPT), (FILE, replace(KEPT, provider="second", model="n"))
    with pytest.raises(InvalidField, match="Use the model 'n'") as caught:
        select(candidate("first"), candidate("second"), kept=kept)
    assert (caught.value.param, caught.value.code) == ("input.0.file_id", "object_kept_elsewhere")


@pytest.mark.parametrize("kind", OBJECT_KINDS)
def test_an_unknown_id_goes_only_where_its_kind_is_shared(kind: str) -> None:
    reference = replace(FILE, kind=kind)
    others = [name for name in OBJECT_KINDS if name != kind]
    targets = candidate("none"), candidate("others", *others), candidate("this", kind), candidate("all", "all")
    assert select(*targets, unknown=(reference,)) == ["this", "all"]
    with pytest.raises(NotFound) as caught:
        select(*targets[:2], unknown=(reference,))
    assert (caught.value.status, caught.value.code, caught.value.param) == (404, f"{kind}_not_found", FILE.param)


def test_an_id_that_the_format_resolves_may_take_the_common_lane() -> None:
    targets = candidate("verbatim"), candidate("common", speaks="openai-chat")
    assert select(*targets, unknown=(TURN,)) == ["common"]
    with pytest.raises(NotFound):
        select(*targets, unknown=(TURN, FILE))


class CountingStore(MemoryStore):
    """Counts the transactions that write."""

    writes = 0

    def put(self, account: str, values: Mapping[str, bytes], expires: float) -> None:
        self.writes += 1
        super().put(account, values, expires)


@pytest.fixture
def store(tmp_path: Path) -> CountingStore:
    return CountingStore(tmp_path)


def call_of(store: MemoryStore, account: str = "ann") -> Call:
    call = call_to(memory=SharedMemory(store).get_account_memory(account))
    return replace(call, model="m", target=replace(call.target, provider="first", upstream_model="up"))


async def record(call: Call, issued: IssuedObjects, chunks: AsyncIterator[bytes]) -> list[bytes]:
    return [chunk async for chunk in await upstream_objects.record_issued(call, issued, chunks)]


def is_known(store: MemoryStore, account: str, reference: ObjectReference) -> bool:
    """Whether another process knows the id: its memory has no cache yet."""
    try:
        asyncio.run(upstream_objects.find_kept(call_of(store, account), reference))
    except GateError:
        return False
    return True


def test_a_whole_response_is_one_write(store: CountingStore) -> None:
    issued = IssuedObjects(ids=[("response", "resp_1"), ("item", "msg_1")])
    assert asyncio.run(record(call_of(store), issued, BufferedBody(b"{}"))) == [b"{}"]
    assert store.writes == 1
    assert is_known(store, "ann", TURN)
    assert not is_known(store, "bob", TURN)


@pytest.mark.parametrize("ids", [(), (("response", "resp_1"),)])
def test_what_the_format_saves_is_saved_once_and_before_the_ids(
    store: CountingStore, ids: tuple[tuple[str, str], ...]
) -> None:
    saves: list[int] = []

    async def save() -> None:
        saves.append(store.writes)

    async def upstream() -> AsyncIterator[bytes]:
        yield b"first"
        issued.due = True
        yield b"last"

    issued = IssuedObjects(ids=list(ids), save=save)

    async def run() -> list[bytes]:
        call = call_of(store)
        chunks = await record(call, issued, upstream())
        await call.closing.aclose()
        return chunks

    assert asyncio.run(run()) == [b"first", b"last"]
    assert saves == [0]
    assert store.writes == len(ids)


def test_a_stream_is_recorded_before_its_last_chunk_and_only_once(store: CountingStore) -> None:
    issued = IssuedObjects()
    seen: list[tuple[bytes, int]] = []

    async def upstream() -> AsyncIterator[bytes]:
        issued.ids.append(("response", "resp_1"))
        yield b"first"
        yield b"more"
        issued.ids.append(("item", "msg_1"))
        issued.due = True
        yield b"last"

    async def read() -> None:
        call = call_of(store)
        async for chunk in await upstream_objects.record_issued(call, issued, upstream()):
            seen.append((chunk, store.writes))
        await call.closing.aclose()

    asyncio.run(read())
    assert seen == [(b"first", 0), (b"more", 0), (b"last", 1)]
    assert store.writes == 1


def test_what_an_interrupted_stream_issued_is_recorded_at_the_end_of_the_request(store: CountingStore) -> None:
    issued = IssuedObjects(ids=[("response", "resp_1")])

    async def upstream() -> AsyncIterator[bytes]:
        yield b"first"
        yield b"never read"

    async def read() -> None:
        call = call_of(store)
        chunks = await upstream_objects.record_issued(call, issued, upstream())
        assert await anext(chunks) == b"first"
        await batches.close(chunks)
        await call.closing.aclose()

    asyncio.run(read())
    assert is_known(store, "ann", TURN)


def test_a_response_without_objects_writes_nothing(store: CountingStore) -> None:
    asyncio.run(record(call_of(store), IssuedObjects(due=True), BufferedBody(b"{}")))
    assert store.writes == 0


def test_conf_says_how_long_an_id_is_known(store: CountingStore) -> None:
    call = replace(call_of(store), responses=ResponseRules(seconds=-1))
    asyncio.run(record(call, IssuedObjects(ids=[("response", "resp_1")]), BufferedBody(b"{}")))
    assert not is_known(store, "ann", TURN)


def test_targets_know_what_their_entry_shares(tmp_path: Path) -> None:
    config = make_config(tmp_path, {"m": model("m", "fake")})
    entry = replace(config.providers["fake"], shared_objects=frozenset({"file"}))
    gate = make_gate(tmp_path, replace(config, providers={"fake": entry}), fake=FakeProvider())
    ((target, _),) = gate.snapshot.targets.select_targets(call_to(model="m"), ("chat",))
    assert (target.shares("file"), target.shares("prompt")) == (True, False)
