"""A call of the database has a time limit, and its result is never lost at the limit."""

from __future__ import annotations

import threading
from concurrent.futures import Future

import pytest

from tornado_gate.ledger.database_thread import DatabaseHangs, DatabaseThread


def test_a_call_that_ends_at_the_limit_has_its_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait has ended, then the call ends, and only then the caller looks."""
    result = Future.result

    def wait_too_short(future: Future[object], timeout: float | None = None) -> object:
        value = result(future)
        if timeout is not None:
            raise TimeoutError
        return value

    monkeypatch.setattr(Future, "result", wait_too_short)
    calls = DatabaseThread("test")
    assert calls.run(lambda: 5, 0.1) == 5
    calls.close()


def test_the_errors_of_a_call_are_raised() -> None:
    def fail() -> None:
        raise TimeoutError("of the call")

    calls = DatabaseThread("test")
    with pytest.raises(TimeoutError, match="of the call"):
        calls.run(fail, 30)
    calls.close()


def test_no_call_begins_while_another_one_hangs() -> None:
    release, calls = threading.Event(), DatabaseThread("test")
    with pytest.raises(DatabaseHangs, match="no answer within"):
        calls.run(release.wait, 0.01)
    with pytest.raises(DatabaseHangs, match="an earlier call"):
        calls.run(lambda: None, 30)
    release.set()
    assert calls._last is not None
    assert calls._last.result(30)
    assert calls.run(lambda: "next", 30) == "next"
    calls.close()
