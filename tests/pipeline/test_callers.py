"""The callers of keys are cached, and a connection that repeats its head sees every change of its key."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from tornado_gate.accounts.key_record import make_conf_records
from tornado_gate.accounts.key_ring import KeyRing
from tornado_gate.accounts.keys import KeyStore, digest_key
from tornado_gate.admission.reservations import Admission
from tornado_gate.config.model import Config, KeyEntry, Secret
from tornado_gate.pipeline import callers
from tornado_gate.pipeline.callers import Callers

DIGEST = digest_key("key-a")


def make_records(*names: str, **rest: Any) -> Any:
    return make_conf_records(KeyEntry(name=name, key=Secret(f"key-{name}"), account=name, **rest) for name in names)


@pytest.fixture
def ring(tmp_path: Path) -> Iterator[KeyRing]:
    store = KeyStore.open(tmp_path)
    yield KeyRing(store, make_records("a", "b", "c"))
    store.close()


@pytest.fixture
def known_callers(ring: KeyRing) -> Callers:
    return Callers(ring, Admission(cast(Any, None)), Config(path=Path("gate.yaml")))


def test_a_known_key_is_unchanged_until_its_record_or_the_limits_change(ring: KeyRing, known_callers: Callers) -> None:
    caller = known_callers.find_cached(DIGEST)
    assert caller is not None
    known = known_callers.note_key(DIGEST, caller)
    assert known is not None
    assert known_callers.is_unchanged(known)

    known_callers.forget()
    assert not known_callers.is_unchanged(known)
    again = known_callers.find_cached(DIGEST)
    assert again is not None
    known = known_callers.note_key(DIGEST, again)
    assert known is not None
    assert known_callers.is_unchanged(known)

    ring.replace(make_records("a", "b", models=("other",)))
    assert not known_callers.is_unchanged(known)
    ring.replace({})
    assert not known_callers.is_unchanged(known)


def test_the_key_of_an_outdated_caller_is_not_known(known_callers: Callers) -> None:
    caller = known_callers.find_cached(DIGEST)
    assert caller is not None
    known_callers.forget()
    assert known_callers.note_key(DIGEST, caller) is None
    assert known_callers.note_key(digest_key("no such key"), caller) is None


@pytest.mark.gen_test
async def test_a_key_that_has_expired_is_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = KeyStore.open(tmp_path)
    key, made = store.create("short", expires=time.time() + 50)
    known_callers = Callers(KeyRing(store, {}), Admission(cast(Any, None)), Config(path=Path("gate.yaml")))
    known = known_callers.note_key(digest_key(key), await known_callers.authenticate(key))
    assert known is not None
    assert known_callers.is_unchanged(known)
    monkeypatch.setattr(time, "time", lambda: made.expires)
    assert not known_callers.is_unchanged(known)
    store.close()


def test_the_oldest_callers_leave_the_cache(known_callers: Callers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callers, "MAX_CALLERS", 2)
    first, second, third = (known_callers.find_cached(digest_key(f"key-{name}")) for name in "abc")
    assert known_callers.find_cached(digest_key("key-c")) is third
    assert known_callers.find_cached(digest_key("key-b")) is second
    assert known_callers.find_cached(DIGEST) is not first
    assert len(known_callers._callers) == 2
