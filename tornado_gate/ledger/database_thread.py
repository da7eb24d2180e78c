"""Database calls with a time limit. A call that takes longer goes on in its thread, and the caller need not wait for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

from tornado_gate.database.engine import DatabaseError

Result = TypeVar("Result")


class DatabaseHangs(DatabaseError):
    """The database has not answered in time. The call may still succeed later."""


class DatabaseThread:
    """A thread for the database calls of one other thread, one at a time. It ends with the process, or by `close`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._last: Future[Any] | None = None

    def run(self, call: Callable[[], Result], seconds: float) -> Result:
        """Return the result of `call`, and raise its exceptions.

        Raises DatabaseHangs if it takes longer than `seconds`, or if an earlier call has not ended.
        """
        if self._last is not None and not self._last.done():
            raise DatabaseHangs("an earlier call has not ended")
        if self._thread is None:
            self._thread = threading.Thread(target=self._run_calls, name=self._name, daemon=True)
            self._thread.start()
        future: Future[Result] = Future()
        self._last = future
        self._calls.put((future, call))
        try:
            return future.result(seconds)
        except TimeoutError:
            if future.done():  # it has ended just now, or the error is that of the call
                return future.result()
            raise DatabaseHangs(f"no answer within {seconds:g} s") from None

    def close(self) -> None:
        """End the thread after its current call."""
        if self._thread is not None:
            self._calls.put(None)
            self._thread = None

    def _run_calls(self) -> None:
        while (item := self._calls.get()) is not None:
            future, call = item
            try:
                future.set_result(call())
            except BaseException as error:
                future.set_exception(error)
            del item, future, call  # they hold rows until the next call
