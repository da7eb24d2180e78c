"""One SQLite file: shared by threads, processes and forks, replaced while it is open, and explained when it fails."""

from __future__ import annotations

import errno
import os
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tornado_gate.storage import sqlite
from tornado_gate.storage.sqlite import Schema, SqliteFile, explain_error

SCHEMA = Schema(version=3, statements=("CREATE TABLE IF NOT EXISTS notes (text TEXT)",))


class FileError(Exception):
    """What the file raises."""


@pytest.fixture
def file(tmp_path: Path) -> SqliteFile:
    file = SqliteFile(tmp_path / "folder" / "notes.db", SCHEMA, FileError)
    file.make()
    return file


def write(file: SqliteFile, text: str) -> None:
    with file.transaction() as connection:
        connection.execute("INSERT INTO notes VALUES (?)", (text,))


def read(file: SqliteFile) -> list[str]:
    with file.use_connection() as connection:
        return [text for (text,) in connection.execute("SELECT text FROM notes ORDER BY rowid")]


def list_open_files(folder: Path) -> list[str]:
    links = (Path(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd"))
    return [str(link.readlink()) for link in links if link.exists() and str(link.readlink()).startswith(str(folder))]


def test_the_file_is_made_with_its_folder_for_its_owner_only(file: SqliteFile) -> None:
    assert read(file) == []
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert file.path.parent.stat().st_mode & 0o777 == 0o700
    file.path.chmod(0o644)
    write(file, "kept")
    file.make()
    assert read(file) == ["kept"]
    assert file.path.stat().st_mode & 0o777 == 0o600


def test_threads_write_one_after_another(file: SqliteFile) -> None:
    barrier = threading.Barrier(8)

    def work(number: int) -> None:
        barrier.wait()
        for _ in range(10):
            write(file, str(number))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert sorted(read(file)) == sorted([str(number) for number in range(8)] * 10)


def test_a_failed_transaction_leaves_nothing_and_the_next_one_works(file: SqliteFile) -> None:
    with pytest.raises(KeyError), file.transaction() as connection:
        connection.execute("INSERT INTO notes VALUES ('half')")
        raise KeyError
    assert read(file) == []
    with pytest.raises(FileError, match="no such table"), file.transaction() as connection:
        connection.execute("INSERT INTO notes VALUES ('half')")
        connection.execute("INSERT INTO missing VALUES (1)")
    write(file, "whole")
    assert read(SqliteFile(file.path, SCHEMA, FileError)) == ["whole"]


def test_a_closed_file_has_no_descriptor_and_opens_again(file: SqliteFile) -> None:
    write(file, "kept")
    assert list_open_files(file.path.parent)
    file.close()
    file.close()
    assert list_open_files(file.path.parent) == []
    assert read(file) == ["kept"]


def test_a_replaced_file_is_noticed_and_the_old_one_closed(file: SqliteFile, tmp_path: Path) -> None:
    write(file, "old")
    other = SqliteFile(tmp_path / "other.db", SCHEMA, FileError)
    other.make()
    write(other, "new")
    other.close()
    file.path.unlink()
    for path in file.path.parent.iterdir():
        path.unlink()
    other.path.rename(file.path)
    assert read(file) == ["new"]
    assert not [name for name in list_open_files(file.path.parent) if name.endswith("(deleted)")]


def test_a_missing_file_is_an_error_and_not_made_by_a_reader(file: SqliteFile) -> None:
    file.path.unlink()
    with pytest.raises(FileError, match="is missing"):
        read(file)
    assert not file.path.exists()


def test_a_fork_has_a_connection_of_its_own_and_leaves_that_of_its_parent_alone(file: SqliteFile) -> None:
    write(file, "parent")
    pid = os.fork()
    if not pid:
        status = 1
        try:
            write(file, "child")
            status = 0 if read(file) == ["parent", "child"] else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    write(file, "parent again")
    assert read(file) == ["parent", "child", "parent again"]


def test_processes_that_start_together_make_the_tables_once(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from tornado_gate.storage.sqlite import Schema, SqliteFile\n"
        "schema = Schema(version=3, statements=('CREATE TABLE IF NOT EXISTS notes (text TEXT)',))\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        "file = SqliteFile(Path(sys.argv[1]), schema, RuntimeError); file.make()\n"
        "with file.transaction() as connection: connection.execute('INSERT INTO notes VALUES (1)')\n"
    )
    path = tmp_path / "new" / "notes.db"
    processes = [
        subprocess.Popen([sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(4)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
    assert [process.wait() for process in processes] == [0] * 4
    for process in processes:
        process.communicate()
    assert len(read(SqliteFile(path, SCHEMA, FileError))) == 4


def test_a_file_of_a_newer_version_is_left_alone(file: SqliteFile) -> None:
    file.close()
    older = SqliteFile(file.path, Schema(version=2, statements=("CREATE TABLE more (x)",)), FileError)
    with pytest.raises(FileError, match="its schema is 3, this version supports 2"):
        read(older)
    assert list_open_files(file.path.parent) == []
    newer = SqliteFile(file.path, Schema(version=4, statements=("CREATE TABLE more (x)",)), FileError)
    with newer.use_connection() as connection:
        assert connection.execute("SELECT * FROM more").fetchall() == []
        assert connection.execute("PRAGMA user_version").fetchone() == (4,)
    newer.close()


def test_a_file_that_another_process_has_locked_is_waited_for_a_limited_time(
    file: SqliteFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.close()
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.05)
    other = sqlite3.connect(file.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(FileError, match="was locked by another process"):
        write(file, "late")
    other.execute("ROLLBACK")
    other.close()
    write(file, "in time")
    assert read(file) == ["in time"]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOSPC, "x"), "its disk is full"),
        (OSError(errno.EDQUOT, "x"), "its disk is full"),
        (OSError(errno.EROFS, "x"), "read-only for this user"),
        (PermissionError(errno.EACCES, "x"), "read-only for this user"),
        (FileNotFoundError(errno.ENOENT, "x"), "is missing"),
        (OSError(errno.EIO, "broken disk"), "cannot be used: "),
        (ValueError("x"), "is damaged"),
        (TypeError("x"), "is damaged"),
    ],
)
def test_an_error_is_explained_with_what_to_do(error: Exception, words: str) -> None:
    assert words in explain_error(error)
    assert explain_error(error).endswith(".")
