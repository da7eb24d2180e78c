"""Sessions that are open: how many a key and an account may have, and when they end with their key."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec import structs

from tests.support.gates import FakeProvider, make_config, make_services
from tornado_gate.accounts.keys import KeyStore, digest_key
from tornado_gate.config.model import Config, KeyEntry, RealtimeConfig, Secret
from tornado_gate.errors import GateError, RateLimited
from tornado_gate.pipeline.snapshot_builder import build
from tornado_gate.realtime.sessions import OpenSessions
from tornado_gate.server.services import Services
from tornado_gate.types import Caller

RULES = RealtimeConfig(sessions_per_key=2, sessions_per_account=4)


class Session:
    def __init__(self, caller: Caller, model: str = "m", key: str = "none") -> None:
        self.caller = caller
        self.model = model
        self.address = "127.0.0.1"
        self.operation = "realtime"
        self.key_digest = digest_key(key)
        self.was_shut_down = False
        self.refusal: asyncio.Future[GateError] = asyncio.get_running_loop().create_future()

    def shut_down(self) -> None:
        self.was_shut_down = True

    def revoke(self, error: GateError) -> None:
        if not self.refusal.done():
            self.refusal.set_result(error)


def config(tmp_path: Path, *keys: KeyEntry) -> Config:
    return structs.replace(make_config(tmp_path), keys=keys)


@asynccontextmanager
async def serving(tmp_path: Path, *keys: KeyEntry) -> AsyncIterator[Services]:
    services = make_services(tmp_path, config(tmp_path, *keys), fake=FakeProvider())
    await services.start()
    try:
        async with asyncio.timeout(60):
            yield services
    finally:
        await services.close()


async def opened(services: Services, key: str, model: str = "m") -> Session:
    changes = services.gate.keys.changes
    session = Session(await services.gate.callers.authenticate(key), model, key)
    services.sessions.add(session, RULES, changes)
    return session


def conf_key(name: str, key: str, **rest: tuple[str, ...]) -> KeyEntry:
    return KeyEntry(name=name, key=Secret(key), account=name, **rest)


@pytest.mark.gen_test
async def test_sessions_are_counted_by_key_and_by_account(tmp_path: Path) -> None:
    async with serving(tmp_path) as services:
        sessions, changes = services.sessions, services.gate.keys.changes
        key, second, third = (Caller(id=name, account="a") for name in ("k", "l", "m"))
        opened = [Session(key), Session(key), Session(second), Session(second)]
        for session in opened[:2]:
            sessions.add(session, RULES, changes)
        with pytest.raises(RateLimited, match="API key") as caught:
            sessions.add(Session(key), RULES, changes)
        assert caught.value.headers["Retry-After"]
        for session in opened[2:]:
            sessions.add(session, RULES, changes)
        with pytest.raises(RateLimited, match="account"):
            sessions.add(Session(third), RULES, changes)
        sessions.add(other := Session(Caller(id="o", account="b")), RULES, changes)
        for _ in range(2):
            sessions.remove(opened[0])
        sessions.add(Session(third), RULES, changes)
        assert len(sessions) == 5
        sessions.shut_down()
        assert [session.was_shut_down for session in (*opened, other)] == [False, True, True, True, True]


@pytest.mark.gen_test(timeout=30)
async def test_revoking_a_key_in_another_process_ends_its_sessions_and_no_others(tmp_path: Path) -> None:
    keys = KeyStore.open(tmp_path)  # its own connection, as `tornado-gate keys revoke` has
    (key, stored), (other_key, _) = keys.create("ann"), keys.create("bob")
    async with serving(tmp_path) as services:
        sessions = [await opened(services, key), await opened(services, key)]
        other = await opened(services, other_key)
        keys.revoke(stored.id)
        for session in sessions:
            error = await session.refusal
            assert (error.status, error.code) == (401, "invalid_api_key")
            assert len(error.message.encode()) <= 123, "it is the reason of the close frame"
        assert not other.refusal.done()


@pytest.mark.gen_test(timeout=30)
async def test_a_key_that_expires_ends_its_sessions(tmp_path: Path) -> None:
    keys = KeyStore.open(tmp_path)
    key, _ = keys.create("ann", expires=time.time() + 1)
    async with serving(tmp_path) as services:
        session = await opened(services, key)
        assert (await session.refusal).status == 401


@pytest.mark.gen_test(timeout=30)
@pytest.mark.parametrize(
    ("then", "status"),
    [
        ((), 401),
        ((conf_key("ann", "key-of-ann", models=("other",)),), 403),
        ((conf_key("ann", "key-of-ann", operations=("chat",)),), 403),
        ((conf_key("bob", "key-of-ann"),), 401),
        ((conf_key("ann", "key-of-ann", models=("m*",)),), 0),
    ],
    ids=["removed", "another model", "another operation", "another account", "still allowed"],
)
async def test_a_reload_ends_the_sessions_that_a_key_no_longer_allows(
    tmp_path: Path, then: tuple[KeyEntry, ...], status: int
) -> None:
    kept = conf_key("kept", "key-that-stays")
    async with serving(tmp_path, conf_key("ann", "key-of-ann"), kept) as services:
        session, other = await opened(services, "key-of-ann"), await opened(services, "key-that-stays")
        services.replace(build(config(tmp_path, *then, kept), services.gate.host, 2))
        if status:
            assert (await session.refusal).status == status
        await asyncio.gather(*services.sessions._checks)
        assert session.refusal.done() == bool(status)
        assert not other.refusal.done()


@pytest.mark.gen_test(timeout=30)
async def test_a_key_that_is_revoked_while_a_session_is_opened_ends_it(tmp_path: Path) -> None:
    keys = KeyStore.open(tmp_path)
    key, stored = keys.create("ann")
    async with serving(tmp_path) as services:
        changes = services.gate.keys.changes
        session = Session(await services.gate.callers.authenticate(key), key=key)
        keys.revoke(stored.id)
        await services.gate.keys.check()
        services.sessions.add(session, RULES, changes)
        assert (await session.refusal).status == 401


@pytest.mark.gen_test(timeout=30)
async def test_a_key_that_is_limited_to_other_addresses_ends_its_sessions(tmp_path: Path) -> None:
    keys = KeyStore.open(tmp_path)
    key, stored = keys.create("ann")
    async with serving(tmp_path) as services:
        session = await opened(services, key)
        keys.change(stored.id, addresses=["127.0.0.0/8"])
        await services.gate.keys.check()
        await asyncio.gather(*services.sessions._checks)
        assert not session.refusal.done()
        keys.change(stored.id, addresses=["192.0.2.7"])
        assert (await session.refusal).code == "address_not_allowed"
    keys.close()


@pytest.mark.gen_test(timeout=30)
async def test_a_key_store_that_cannot_be_read_ends_no_session(tmp_path: Path) -> None:
    keys = KeyStore.open(tmp_path)
    key, stored = keys.create("ann")
    async with serving(tmp_path) as services:
        session = await opened(services, key)
        hidden = keys.database.path.rename(tmp_path / "hidden.db")
        services.gate.keys.replace({})
        await services.gate.keys.check()
        await asyncio.gather(*services.sessions._checks)
        assert not session.refusal.done()
        hidden.rename(keys.database.path)
        keys.revoke(stored.id)
        assert (await session.refusal).status == 401


def test_a_session_that_has_ended_leaves_nothing(tmp_path: Path) -> None:
    async def main() -> OpenSessions:
        keys = KeyStore.open(tmp_path)
        key, _ = keys.create("ann", expires=time.time() + 3600)
        async with serving(tmp_path) as services:
            session = await opened(services, key)
            services.sessions.remove(session)
            return services.sessions

    sessions = asyncio.run(main())
    assert len(sessions) == 0
    assert not sessions._of_key
    assert not sessions._of_account
