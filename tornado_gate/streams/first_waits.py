"""A coroutine that calls a function before its first wait: a chunk is held back until more of its stream must be awaited."""

from __future__ import annotations

import types
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

Result = TypeVar("Result")


@types.coroutine
def call_before_wait(work: Coroutine[Any, Any, Result], function: Callable[[], object]) -> Generator[Any, Any, Result]:
    """Return the result of `work`. Call `function` before the first wait of `work`, and not if `work` never waits.

    Raises the errors of both.
    """
    try:
        waiting = work.send(None)
        try:
            function()
        except BaseException:
            work.close()
            raise
        while True:
            try:
                value = yield waiting
            except BaseException as error:
                waiting = work.throw(error)
            else:
                waiting = work.send(value)
    except StopIteration as end:
        result: Result = end.value
        return result
