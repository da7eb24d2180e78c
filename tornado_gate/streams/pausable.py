"""Functions that need no task until they must wait.

Such a function is a generator function. It yields each awaitable that it needs, and receives its result. So one definition
serves a callback, which runs it with `Work` as far as possible, and a coroutine, which awaits `complete`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")

Pausable = Generator[Awaitable[Any], Any, Result]


class Work(Generic[Result]):
    """The run of a pausable function, which begins in a callback. A task completes it if it must wait."""

    __slots__ = ("_pausable", "_waiting", "result")

    result: Result
    """The result, after `run` has returned True."""

    def __init__(self, pausable: Pausable[Result]) -> None:
        self._pausable = pausable
        self._waiting: Awaitable[Any] | None = None

    def run(self) -> bool:
        """Run the function until it ends or must wait. Return whether it has ended. Raises its errors."""
        try:
            self._waiting = next(self._pausable)
        except StopIteration as end:
            self.result = end.value
            return True
        return False

    async def complete(self) -> Result:
        """Return the result of a function that waits. Raises its errors."""
        assert self._waiting is not None
        return await _continue(self._pausable, self._waiting)


async def complete(pausable: Pausable[Result]) -> Result:
    """Return the result of a pausable function. Raises its errors."""
    try:
        waiting = next(pausable)
    except StopIteration as end:
        result: Result = end.value
        return result
    return await _continue(pausable, waiting)


async def _continue(pausable: Pausable[Result], waiting: Awaitable[Any]) -> Result:
    """Await what a pausable function waits for, until it ends."""
    try:
        while True:
            try:
                value = await waiting
            except BaseException as error:
                waiting = pausable.throw(error)
            else:
                waiting = pausable.send(value)
    except StopIteration as end:
        result: Result = end.value
        return result
