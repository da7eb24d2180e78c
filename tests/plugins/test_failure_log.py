"""What a server notes of failing plugins, another process reads."""

from __future__ import annotations

from pathlib import Path

from tornado_gate.plugins import failure_log


def test_what_was_noted_is_read(tmp_path: Path) -> None:
    journal = failure_log.FailureLog(tmp_path, interval_seconds=1000)
    journal.note("acme", "first")
    journal.note("acme", "x" * 10_000)
    journal.note("other", "broke")
    journal.write()
    noted = failure_log.read(tmp_path)
    assert noted["other"]["error"] == "broke"
    assert len(noted["acme"]["error"]) == 500


def test_processes_do_not_wipe_out_each_others_notes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        journal = failure_log.FailureLog(tmp_path, interval_seconds=1000)
        journal.note(name, "broke")
        journal.write()
    assert set(failure_log.read(tmp_path)) == {"one", "two"}


def test_a_file_that_cannot_be_read_is_as_good_as_none(tmp_path: Path) -> None:
    assert failure_log.read(tmp_path) == {}
    (tmp_path / failure_log.FILE_NAME).write_text("[torn", encoding="utf-8")
    assert failure_log.read(tmp_path) == {}
    failure_log.clear(tmp_path)
    failure_log.clear(tmp_path)
    assert not (tmp_path / failure_log.FILE_NAME).exists()


def test_a_folder_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    journal = failure_log.FailureLog(tmp_path / "not-there", interval_seconds=1000)
    journal.note("acme", "broke")
    journal.write()
    assert failure_log.read(tmp_path / "not-there") == {}
