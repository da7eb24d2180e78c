"""Sessions that are open, and the short-lived keys of pages."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from tornado_gate.errors import RateLimited
from tornado_gate.realtime.sessions import SECRET_PREFIX, ClientSecrets, OpenSessions
from tornado_gate.storage.conversation_state import MemoryStore, SharedMemory
from tornado_gate.types import Caller, ClientSecretRequest

KEY = Caller(id="k", account="a")
OTHER = Caller(id="o", account="a")
REQUEST = ClientSecretRequest(seconds=60, model="m", session={"type": "realtime"})


def secrets_in(tmp_path: Path) -> ClientSecrets:
    return ClientSecrets(SharedMemory(MemoryStore(tmp_path)).get_account_memory("secrets"))


def test_a_secret_stands_for_the_key_that_made_it_in_any_process(tmp_path: Path) -> None:
    async def main() -> None:
        made = await secrets_in(tmp_path).make(REQUEST, b"\x01\x02")
        assert made.value.startswith(SECRET_PREFIX)
        assert abs(made.expires_at - time.time() - 60) < 5
        held = await secrets_in(tmp_path).find(made.value)
        assert held is not None
        assert (held.key_digest, held.model, held.session) == (b"\x01\x02", "m", {"type": "realtime"})

    asyncio.run(main())


def test_a_secret_is_kept_as_a_hash(tmp_path: Path) -> None:
    made = asyncio.run(secrets_in(tmp_path).make(REQUEST, b"\x01"))
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert made.value.encode() not in kept
    assert made.value.removeprefix(SECRET_PREFIX).encode() not in kept


def test_what_never_was_and_what_has_expired_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        secrets = secrets_in(tmp_path)
        made = await secrets.make(REQUEST, b"\x01")
        assert await secrets.find(SECRET_PREFIX + "never") is None
        later = time.time() + 61
        monkeypatch.setattr(time, "time", lambda: later)
        assert await secrets.find(made.value) is None

    asyncio.run(main())


def test_sessions_are_counted_by_key() -> None:
    sessions, closed = OpenSessions(), list[str]()
    sessions.add("one", KEY, 2, lambda: closed.append("one"))
    sessions.add("two", KEY, 2, lambda: closed.append("two"))
    with pytest.raises(RateLimited) as caught:
        sessions.add("three", KEY, 2, lambda: None)
    assert caught.value.headers["Retry-After"]
    sessions.add("other", OTHER, 2, lambda: closed.append("other"))
    sessions.remove("one", KEY)
    sessions.remove("one", KEY)
    sessions.add("three", KEY, 2, lambda: closed.append("three"))
    assert len(sessions) == 3
    sessions.close_all()
    assert closed == ["two", "other", "three"]
