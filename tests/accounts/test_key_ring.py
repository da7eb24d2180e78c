"""The ring of keys: conf and store together, asked from the event loop, told of changes by other processes."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tornado_gate.accounts import key_ring as keys
from tornado_gate.accounts.key_record import KeyRecord, make_conf_records
from tornado_gate.accounts.key_ring import KeyRing
from tornado_gate.accounts.keys import KeyStore, StoredKey, digest_key
from tornado_gate.config.model import KeyEntry, Secret
from tornado_gate.database.engine import Database, DatabaseError
from tornado_gate.errors import Unavailable

DAY = 86_400


class CountingStore(KeyStore):
    """Counts look-ups, and can be told to fail or to do something in the midst of one."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.finds = 0
        self.broken = False
        self.after_find: Callable[[], object] = lambda: None
        self.after_revision: Callable[[], object] = lambda: None
        self.after_find_keys: Callable[[], object] = lambda: None

    def go_away(self) -> None:
        self.broken = True

    def find_key(self, wanted: bytes) -> StoredKey | None:
        self.finds += 1
        self.fail_if_broken()
        found = super().find_key(wanted)
        self.after_find()
        return found

    def revision(self) -> int:
        self.fail_if_broken()
        revision = super().revision()
        self.after_revision()
        return revision

    def find_keys(self, digests: Sequence[bytes], seconds: float) -> dict[bytes, StoredKey]:
        self.fail_if_broken()
        found = super().find_keys(digests, seconds)
        self.after_find_keys()
        return found

    def fail_if_broken(self) -> None:
        if self.broken:
            raise DatabaseError("gate.db cannot be used")


@pytest.fixture
def counting(tmp_path: Path) -> Iterator[CountingStore]:
    KeyStore.open(tmp_path).close()
    opened = CountingStore(Database(tmp_path))
    yield opened
    opened.close()


def entry(name: str, key: str, requests_per_minute: int | None = None) -> dict[bytes, KeyRecord]:
    made = KeyEntry(
        name=name,
        key=Secret(key),
        account=name,
        models=("local-*",),
        requests_per_minute=requests_per_minute,
    )
    return make_conf_records([made])


@pytest.mark.gen_test
async def test_keys_of_conf_are_found_without_the_store(counting: CountingStore) -> None:
    ring = KeyRing(counting, entry("ci", "conf-key", requests_per_minute=60))
    record = await ring.find_key("conf-key")
    assert record is not None
    assert (record.id, record.account, record.name, record.source) == ("conf:ci", "ci", "ci", "conf")
    assert (record.models, record.requests_per_minute, record.tokens_per_minute) == (("local-*",), 60, None)
    assert counting.finds == 0


@pytest.mark.gen_test
async def test_conf_keys_are_replaced_on_a_reload(counting: CountingStore) -> None:
    ring = KeyRing(counting, entry("old", "old-key"))
    ring.replace(entry("new", "new-key"))
    assert await ring.find_key("old-key") is None
    assert await ring.find_key("new-key") is not None


@pytest.mark.gen_test
async def test_an_empty_key_is_no_key(counting: CountingStore) -> None:
    ring = KeyRing(counting, entry("empty", ""))
    assert await ring.find_key("") is None


@pytest.mark.gen_test
async def test_a_stored_key_is_read_once_and_its_use_is_noted(counting: CountingStore) -> None:
    text, made = counting.create("a", models=["m"], operations=["chat"])
    ring = KeyRing(counting, {})
    await ring.start()
    first, second = await ring.find_key(text), await ring.find_key(text)
    assert first is not None
    assert first == second
    assert (first.id, first.source, first.models, first.operations) == (made.id, "store", ("m",), ("chat",))
    assert counting.finds == 1
    await ring.stop()
    assert counting.list()[0].last_used is not None


@pytest.mark.gen_test
async def test_an_unknown_key_is_looked_up_once_for_a_while(
    counting: CountingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring = KeyRing(counting, {})
    await ring.check()
    assert await ring.find_key("tg-wrong") is None
    assert await ring.find_key("tg-wrong") is None
    assert counting.finds == 1
    monkeypatch.setattr(keys, "UNKNOWN_KEY_SECONDS", 0.0)
    ring = KeyRing(counting, {})
    await ring.check()
    assert await ring.find_key("tg-other") is None
    assert await ring.find_key("tg-other") is None
    assert counting.finds == 3


@pytest.mark.gen_test
async def test_what_is_remembered_is_bounded(counting: CountingStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "CACHED_KEYS", 2)
    texts = [counting.create(name)[0] for name in "abc"]
    ring = KeyRing(counting, {})
    await ring.check()
    for text in (texts[0], texts[1], texts[0], texts[2]):  # b was not used for longest when c came
        await ring.find_key(text)
    for number in range(10):
        await ring.find_key(f"tg-wrong-{number}")
    assert set(ring._found) == {digest_key(texts[0]), digest_key(texts[2])}
    assert len(ring._unknown) == 2


@pytest.mark.gen_test
async def test_a_change_makes_the_ring_ask_again(counting: CountingStore) -> None:
    text, made = counting.create("a")
    ring = KeyRing(counting, {})
    await ring.check()
    assert await ring.find_key(text) is not None
    counting.revoke(made.id)
    await ring.check()
    assert await ring.find_key(text) is None


@pytest.mark.gen_test
async def test_a_key_that_expires_is_refused_from_memory_too(
    counting: CountingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, made = counting.create("a", expires=time.time() + DAY)
    ring = KeyRing(counting, {})
    await ring.check()
    assert await ring.find_key(text) is not None
    assert made.expires is not None
    later = made.expires
    monkeypatch.setattr(time, "time", lambda: later)
    assert await ring.find_key(text) is None
    assert counting.finds == 1


@pytest.mark.gen_test
async def test_a_look_up_that_a_revocation_overtook_is_not_remembered(counting: CountingStore) -> None:
    text, made = counting.create("a")
    ring = KeyRing(counting, {})
    await ring.check()
    loop = asyncio.get_running_loop()

    def revoke_meanwhile() -> None:
        counting.revoke(made.id)
        asyncio.run_coroutine_threadsafe(ring.check(), loop).result(10)

    counting.after_find = revoke_meanwhile
    assert await ring.find_key(text) is None, "it is read again"
    assert counting.finds == 2


@pytest.mark.gen_test
async def test_losing_the_store_keeps_known_keys_working_and_is_logged_once(
    counting: CountingStore, caplog: pytest.LogCaptureFixture
) -> None:
    text, _ = counting.create("a")
    unseen, _ = counting.create("b")
    ring = KeyRing(counting, entry("conf", "conf-key"))
    await ring.check()
    await ring.find_key(text)
    counting.broken = True
    for _ in range(3):
        await ring.check()
    assert await ring.find_key(text) is not None
    assert await ring.find_key("conf-key") is not None
    with pytest.raises(Unavailable):
        await ring.find_key(unseen)
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    counting.broken = False
    await ring.check()
    assert await ring.find_key(unseen) is not None
    assert caplog.records[-1].message.startswith("the key store is readable again")


@pytest.mark.gen_test
async def test_a_revocation_during_a_loss_is_seen_when_the_store_is_back(counting: CountingStore) -> None:
    text, made = counting.create("a")
    ring = KeyRing(counting, {})
    await ring.check()
    await ring.find_key(text)
    counting.broken = True
    await ring.check()
    counting.revoke(made.id)
    counting.broken = False
    await ring.check()
    assert await ring.find_key(text) is None


@pytest.mark.gen_test
async def test_the_watch_outlives_a_fault_of_its_own(
    counting: CountingStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    seen = asyncio.Event()
    answers = iter([RuntimeError("unforeseen")])
    ring = KeyRing(counting, {}, poll_seconds=0.001)
    await ring.start()

    async def check() -> None:
        for error in answers:
            raise error
        seen.set()

    monkeypatch.setattr(ring, "check", check)
    await asyncio.wait_for(seen.wait(), 5)
    await ring.stop()
    assert "unexpected error while polling the key store" in caplog.text


REVOKE = """
import pathlib, sys
from tornado_gate.accounts.keys import KeyStore
store = KeyStore.open(pathlib.Path(sys.argv[1]))
print(store.revoke(sys.argv[2]))
"""


@pytest.mark.gen_test(timeout=30)
async def test_a_revocation_by_another_process_is_in_force_within_a_second(counting: CountingStore) -> None:
    text, made = counting.create("a")
    ring = KeyRing(counting, {})
    await ring.start()
    assert await ring.find_key(text) is not None
    command = [sys.executable, "-c", REVOKE, str(counting.database.data_dir), made.id]
    assert await asyncio.to_thread(subprocess.check_output, command, text=True, timeout=20) == "True\n"
    revoked = time.monotonic()
    while await ring.find_key(text) is not None:
        await asyncio.sleep(0)
        assert time.monotonic() < revoked + 20
    await ring.stop()


@pytest.mark.gen_test
async def test_the_ring_starts_and_stops_without_a_store(
    counting: CountingStore, caplog: pytest.LogCaptureFixture
) -> None:
    counting.broken = True
    ring = KeyRing(counting, entry("conf", "conf-key"))
    await ring.start()
    assert await ring.find_key("conf-key") is not None
    await ring.stop()
    await ring.stop()
    assert len(caplog.records) == 1


@pytest.mark.gen_test
async def test_after_a_change_the_keys_used_lately_are_cached_again(counting: CountingStore) -> None:
    ring = KeyRing(counting, {})
    await ring.check()
    (used, made), idle = counting.create("used"), counting.create("idle")[0]
    await ring.check()
    assert await ring.find_key(used) is not None
    assert await ring.peek(digest_key(idle)) is not None
    counting.change(made.id, models=["m"])
    await ring.check()
    counting.broken = True
    record = await ring.find_key(used)
    assert record is not None
    assert record.models == ("m",)
    with pytest.raises(Unavailable):
        await ring.find_key(idle)


@pytest.mark.gen_test
async def test_a_key_used_lately_works_if_the_store_fails_between_a_change_and_its_keys(
    counting: CountingStore,
) -> None:
    text, _ = counting.create("used")
    ring = KeyRing(counting, {})
    await ring.check()
    assert await ring.find_key(text) is not None
    counting.create("another")
    counting.after_revision = counting.go_away
    changes = ring.changes
    await ring.check()
    assert counting.broken
    assert await ring.find_key(text) is not None
    assert ring.changes == changes, "the change is noticed when its keys can be read"


@pytest.mark.gen_test
async def test_a_revocation_that_could_not_be_read_takes_effect_when_the_store_is_back(counting: CountingStore) -> None:
    text, made = counting.create("used")
    ring = KeyRing(counting, {})
    await ring.check()
    assert await ring.find_key(text) is not None
    counting.revoke(made.id)
    counting.after_revision = counting.go_away
    await ring.check()
    counting.after_revision, counting.broken = lambda: None, False
    await ring.check()
    assert ring.find_cached(digest_key(text)) is None
    counting.broken = True
    with pytest.raises(Unavailable):
        await ring.find_key(text)


@pytest.mark.gen_test
async def test_a_key_is_cached_though_a_change_is_noticed_during_its_look_up(counting: CountingStore) -> None:
    text, _ = counting.create("a")
    ring = KeyRing(counting, {})
    await ring.check()
    loop = asyncio.get_running_loop()

    def change_meanwhile() -> None:
        counting.create("another")
        asyncio.run_coroutine_threadsafe(ring.check(), loop).result(10)

    counting.after_find = change_meanwhile
    assert await ring.find_key(text) is not None
    counting.broken = True
    assert await ring.find_key(text) is not None


@pytest.mark.gen_test
@pytest.mark.parametrize("is_revoked", [False, True])
async def test_a_key_that_is_looked_up_while_others_are_read_again_is_read_again_next(
    counting: CountingStore, is_revoked: bool
) -> None:
    text, made = counting.create("a")
    ring = KeyRing(counting, {})
    await ring.check()
    loop = asyncio.get_running_loop()

    def look_up_meanwhile() -> None:
        counting.after_find_keys = lambda: None
        asyncio.run_coroutine_threadsafe(ring.find_key(text), loop).result(10)
        if is_revoked:
            counting.revoke(made.id)

    counting.create("another")
    counting.after_find_keys = look_up_meanwhile
    await ring.check()
    assert ring.find_cached(digest_key(text)) is not None
    await ring.check()
    assert (ring.find_cached(digest_key(text)) is None) is is_revoked


@pytest.mark.gen_test
async def test_only_the_keys_used_last_are_read_again(counting: CountingStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "MOST_READ_AGAIN", 1)
    texts = [counting.create(name)[0] for name in "ab"]
    ring = KeyRing(counting, {})
    await ring.check()
    now = time.time()
    for seconds, text in enumerate(texts):
        monkeypatch.setattr(time, "time", lambda moment=now + seconds: moment)
        assert await ring.find_key(text) is not None
    counting.create("another")
    await ring.check()
    assert [ring.find_cached(digest_key(text)) is not None for text in texts] == [False, True]


def test_keys_for_which_the_time_does_not_suffice_are_left_out(counting: CountingStore) -> None:
    digests = [digest_key(counting.create(name)[0]) for name in "ab"]
    assert list(counting.find_keys(digests, 60.0)) == digests
    assert counting.find_keys(digests, -1.0) == {}
