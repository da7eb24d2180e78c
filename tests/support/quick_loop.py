"""An event loop whose time passes only while nothing else is to be done: it does not depend on how busy the machine is."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class _QuickSelector(selectors.DefaultSelector):
    """Does not wait for a time, but moves the clock."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            return super().select(None)
        ready = super().select(0)
        if not ready:
            self.now += max(0.0, timeout)
        return ready


class _QuickLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._quick = _QuickSelector()
        super().__init__(self._quick)

    def time(self) -> float:
        return self._quick.now


def run_quickly(main: Coroutine[Any, Any, Result]) -> Result:
    """Run `main`, which uses no threads or processes. A sleep takes no time, and what is ready is done before it ends."""
    with asyncio.Runner(loop_factory=_QuickLoop) as runner:
        return runner.run(main)
