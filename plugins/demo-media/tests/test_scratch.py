"""Folders for temporary files: theirs alone, and gone however the process that made them ends."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys

import pytest

from tornado_gate_demo_media import scratch
from tornado_gate_demo_media.scratch import PREFIX, ScratchFolder

HOLDS_ONE = """
import sys, tempfile
tempfile.tempdir = sys.argv[1]
from tornado_gate_demo_media.scratch import ScratchFolder
scratch = ScratchFolder()
(scratch.make_folder("job") / "0.mp4").write_bytes(b"x" * 1000)
print(scratch.path, flush=True)
"""
UNTIL_ITS_INPUT_ENDS = HOLDS_ONE + "sys.stdin.read()\n"
FORKS = (
    HOLDS_ONE
    + """
import os
if os.fork() == 0:
    try:
        scratch.make_folder("other")
    except OSError:
        sys.exit(7)
print(os.waitstatus_to_exitcode(os.wait()[1]), os.path.exists(scratch.path / "job" / "0.mp4"), flush=True)
"""
)


@pytest.fixture
def held():
    """A folder of this process."""
    made = ScratchFolder()
    yield made
    made.close()


@pytest.fixture
def other(temporary):
    """Another process with a folder, and the folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", UNTIL_ITS_INPUT_ENDS, str(temporary)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    yield process, scratch.Path(process.stdout.readline().decode().strip())
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


def test_nobody_else_can_look_into_it_and_its_name_tells_whose_it_is(temporary, held):
    folder = held.make_folder("job")
    assert held.path.parent == temporary
    assert held.path.name.startswith(f"{PREFIX}{os.getpid()}-")
    assert folder == held.path / "job"
    for each in (folder, held.path):
        assert stat.S_IMODE(each.stat().st_mode) == 0o700


def test_it_is_made_when_it_is_needed_and_closed_it_is_gone_for_good(temporary, held):
    assert list(temporary.iterdir()) == []
    (held.make_folder("job") / "file").write_bytes(b"x")
    assert [path.name for path in temporary.iterdir()] == [held.path.name]
    held.close()
    assert list(temporary.iterdir()) == []
    with pytest.raises(OSError, match="closed"):
        held.make_folder("job")
    assert list(temporary.iterdir()) == []


def test_two_of_one_process_do_not_touch_each_other(temporary, held):
    second = ScratchFolder()
    one, other = held.make_folder("job"), second.make_folder("job")
    assert one != other
    second.close()
    assert one.exists()
    assert not other.exists()


def test_a_folder_that_a_cleaner_has_removed_is_made_again(temporary, held):
    held.make_folder("one")
    shutil.rmtree(held.path)
    assert held.make_folder("two").is_dir()
    assert len(list(temporary.iterdir())) == 1


def test_what_a_killed_process_left_is_removed_by_the_next_that_needs_a_folder(temporary, held, other):
    process, folder = other
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert (folder / "job" / "0.mp4").exists()
    held.make_folder("job")
    assert list(temporary.iterdir()) == [held.path]


def test_the_folder_of_a_process_that_lives_stays(held, other):
    _, folder = other
    held.make_folder("job")
    assert (folder / "job" / "0.mp4").exists()


def test_a_process_that_ends_by_itself_removes_its_own(temporary, other):
    process, folder = other
    process.stdin.close()
    process.wait()
    assert not folder.exists()


def test_what_belongs_to_another_user_stays(temporary, held, monkeypatch):
    theirs = temporary / f"{PREFIX}1-theirs"
    theirs.mkdir()
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    held.make_folder("job")
    assert theirs.exists()


def test_a_link_in_the_place_of_a_leftover_is_not_followed(temporary, tmp_path, held):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_bytes(b"x")
    (temporary / f"{PREFIX}1-link").symlink_to(precious)
    (temporary / f"{PREFIX}2-file").write_bytes(b"x")
    held.make_folder("job")
    assert (precious / "file").exists()
    assert (temporary / f"{PREFIX}2-file").exists()


def test_the_child_of_a_fork_leaves_the_folder_to_its_parent(temporary):
    done = subprocess.run(
        [sys.executable, "-c", FORKS, str(temporary)], capture_output=True, text=True, check=True, timeout=50
    )
    assert done.stdout.splitlines()[1:] == ["7 True"]
    assert list(temporary.iterdir()) == []


def test_a_file_that_appears_while_the_folder_is_removed_goes_too(tmp_path, monkeypatch):
    folder, really = tmp_path / "job", shutil.rmtree
    folder.mkdir()

    def meanwhile(path, ignore_errors):
        really(path, ignore_errors=ignore_errors)
        monkeypatch.setattr(shutil, "rmtree", really)
        folder.mkdir()
        (folder / "0.mp4").write_bytes(b"x")

    monkeypatch.setattr(shutil, "rmtree", meanwhile)
    scratch.remove_folder(folder)
    assert not folder.exists()
