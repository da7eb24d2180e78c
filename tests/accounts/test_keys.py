"""Keys made by command, in a real file, from several real processes."""

import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import update

from tornado_gate.accounts.errors import AccountError
from tornado_gate.accounts.keys import KeyStore, digest_key
from tornado_gate.database import tables
from tornado_gate.database.engine import DatabaseError

DAY = 86_400


@pytest.fixture
def store(tmp_path: Path) -> Iterator[KeyStore]:
    opened = KeyStore.open(tmp_path / "var")
    yield opened
    opened.close()


def python(code: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def output(process: subprocess.Popen[str]) -> str:
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 0, stderr
    return stdout.strip()


# The store


def test_a_created_key_is_found_by_its_digest_and_its_text_is_kept_nowhere(store: KeyStore) -> None:
    text, made = store.create("dev", models=["local-*"], operations=["chat"], expires=time.time() + DAY)
    assert text.startswith("tg-")
    assert len(text) == 46
    assert made.id.startswith("key_")
    assert len(made.id) == 16
    assert made.prefix == text[:10]
    assert store.find_key(digest_key(text)) == made
    files = b"".join(path.read_bytes() for path in store.database.path.parent.iterdir())
    assert text.encode() not in files


def test_a_key_is_its_own_account_unless_it_is_given_one(store: KeyStore) -> None:
    _, own = store.create("a")
    _, shared = store.create("b", account="team")
    assert (own.account, shared.account) == (own.id, "team")


def test_keys_are_listed_oldest_first_revoked_ones_too(store: KeyStore) -> None:
    made = [store.create(name)[1] for name in "abc"]
    assert store.revoke(made[1].id)
    listed = store.list()
    assert [key.name for key in listed] == ["a", "b", "c"]
    assert [key.revoked is None for key in listed] == [True, False, True]
    assert listed[0].models == ()


def test_a_revoked_key_is_not_found_and_cannot_be_revoked_twice(store: KeyStore) -> None:
    text, made = store.create("a")
    assert store.revoke(made.id) is True
    assert store.find_key(digest_key(text)) is None
    assert store.revoke(made.id) is False
    assert store.revoke("key_000000000000") is False


def test_an_expired_key_is_not_found(store: KeyStore) -> None:
    text, made = store.create("a", expires=time.time() + DAY)
    assert store.find_key(digest_key(text)) is not None
    with store.database.write() as connection:
        connection.execute(update(tables.keys).values(expires=time.time() - 1))
    assert store.find_key(digest_key(text)) is None
    assert store.get(made.id).get_state(time.time()) == "expired"


def test_every_change_bumps_the_revision_and_use_does_not(store: KeyStore) -> None:
    revisions = [store.revision()]
    _, made = store.create("a")
    revisions.append(store.revision())
    store.revoke(made.id)
    revisions.append(store.revision())
    assert len(set(revisions)) == 3
    store.touch({made.id: 5.0})
    assert store.revision() == revisions[-1]


def test_last_use_is_noted_and_never_goes_back(store: KeyStore) -> None:
    _, made = store.create("a")
    store.touch({made.id: 50.0, "key_unknown": 1.0})
    store.touch({made.id: 40.0})
    assert store.list()[0].last_used == 50.0


def test_any_key_counts_revoked_ones(store: KeyStore) -> None:
    assert store.has_keys() is False
    _, made = store.create("a")
    store.revoke(made.id)
    assert store.has_keys() is True


@pytest.mark.parametrize("name", ["", "  ", "x" * 101])
def test_an_unfit_name_is_refused(store: KeyStore, name: str) -> None:
    with pytest.raises(AccountError, match="1 to 100 characters"):
        store.create(name)


def test_a_key_of_odd_characters_is_only_unknown(store: KeyStore) -> None:
    assert store.find_key(digest_key("\ud800 ' OR 1=1 --\x00")) is None


def test_repr_does_not_show_the_digest(store: KeyStore) -> None:
    _, made = store.create("a")
    assert "digest" not in repr(made)


def test_the_folder_and_its_files_are_for_their_owner_only(store: KeyStore) -> None:
    store.create("a")
    assert stat.S_IMODE(store.database.path.parent.stat().st_mode) == 0o700
    files = list(store.database.path.parent.iterdir())
    assert {path.name for path in files} >= {"gate.db", "gate.db-wal"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


def test_a_file_that_others_may_read_is_closed_to_them(tmp_path: Path) -> None:
    KeyStore.open(tmp_path).close()
    (tmp_path / "gate.db").chmod(0o644)
    KeyStore.open(tmp_path).close()
    assert stat.S_IMODE((tmp_path / "gate.db").stat().st_mode) == 0o600


# A file that cannot be used


def test_a_file_of_a_newer_version_is_refused_with_what_to_do(store: KeyStore) -> None:
    with store.database.write() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999_future'")
    store.close()
    with pytest.raises(
        DatabaseError, match=r"gate\.db was created by a newer tornado-gate \(its schema is 9999_future.*Upgrade"
    ):
        KeyStore.open(store.database.path.parent)


def test_a_corrupt_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "gate.db").write_bytes(b"not a database, whatever its name says. " * 200)
    with pytest.raises(DatabaseError, match=r"gate\.db is damaged.*backup"):
        KeyStore.open(tmp_path)


def test_a_damaged_row_is_a_damaged_file(store: KeyStore) -> None:
    store.create("a")
    with store.database.write() as connection:
        connection.exec_driver_sql("UPDATE keys SET models = 'no json'")
    with pytest.raises(DatabaseError, match="is damaged"):
        store.list()


def test_a_file_that_may_not_be_written_says_so(store: KeyStore) -> None:
    with store.database.read() as connection:
        connection.exec_driver_sql("PRAGMA query_only = ON")
    with pytest.raises(DatabaseError, match=r"cannot be written: it, or its folder, is read-only.*server\.data_dir"):
        store.create("a")


def test_a_full_disk_says_so_and_loses_no_key(store: KeyStore) -> None:
    text, _ = store.create("before")
    with store.database.read() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(DatabaseError, match="its disk is full"):
        store.create("after", models=["x" * 196 + f"{number:04}" for number in range(100)])
    assert [key.name for key in store.list()] == ["before"]
    assert store.find_key(digest_key(text)) is not None


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DatabaseError, match=r"var/gate\.db cannot be used: .*Not a directory"):
        KeyStore.open(tmp_path / "file" / "var")


def test_a_lock_that_is_held_too_long_is_an_error_and_not_a_wait_without_end(
    store: KeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tornado_gate.database.engine.BUSY_SECONDS", 0.05)
    other = KeyStore.open(store.database.path.parent)
    with store.database.write(), pytest.raises(DatabaseError, match="locked by another process"):
        other.create("a")
    other.close()


def test_a_file_that_is_gone_is_not_silently_made_anew(store: KeyStore) -> None:
    store.database.path.unlink()
    with pytest.raises(DatabaseError, match="is missing"):
        store.revision()
    assert not store.database.path.exists()


def test_a_file_that_was_replaced_is_read_anew(store: KeyStore, tmp_path: Path) -> None:
    store.create("old")
    replacement = KeyStore.open(tmp_path / "elsewhere")
    replacement.create("new")
    replacement.close()
    for suffix in ("-wal", "-shm"):  # as SQLite asks of whoever puts a backup back
        store.database.path.with_name(store.database.path.name + suffix).unlink()
    replacement.database.path.rename(store.database.path)
    assert [key.name for key in store.list()] == ["new"]


# Several threads and processes


def test_threads_share_a_store(store: KeyStore) -> None:
    threads = [threading.Thread(target=store.create, args=(f"t{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store.list()) == 8


def test_a_fork_opens_the_file_for_itself(store: KeyStore) -> None:
    store.create("parent")
    code = (
        "import os, sys, pathlib\nfrom tornado_gate.accounts.keys import KeyStore\n"
        "store = KeyStore.open(pathlib.Path(sys.argv[1])); store.create('before')\n"
        "child = os.fork()\n"
        "store.create('child' if not child else 'after')\n"
        "if not child: os._exit(0)\n"
        "sys.exit(os.waitpid(child, 0)[1])\n"
    )
    output(python(code, store.database.path.parent))
    assert sorted(key.name for key in store.list()) == ["after", "before", "child", "parent"]


CHURN = """
import pathlib, sys
from tornado_gate.accounts.keys import KeyStore
sys.stdin.readline()
store = KeyStore.open(pathlib.Path(sys.argv[1]))
for number in range(15):
    _, made = store.create(f"{sys.argv[2]}-{number}")
    if number % 3 == 0:
        assert store.revoke(made.id)
"""


@pytest.mark.qa
def test_four_processes_that_create_and_revoke_at_once_lose_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "var"
    command = [sys.executable, "-c", CHURN, str(folder)]
    workers = [
        subprocess.Popen([*command, str(worker)], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for worker in range(4)
    ]
    for worker in workers:  # all are waiting; let them go together, at a file that is not there yet
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    for worker in workers:
        _, stderr = worker.communicate(timeout=60)
        assert worker.returncode == 0, stderr
    store = KeyStore.open(folder)
    keys = store.list()
    assert len({key.name for key in keys}) == len(keys) == 60
    assert sum(key.revoked is not None for key in keys) == 20
    assert store.revision() == 80
    store.close()
