"""What some work leaves for the garbage collector, in a process in which threads of earlier tests may still run."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

TIMES = 3


def is_of_the_gateway(value: object) -> bool:
    return type(value).__module__.startswith("tornado_gate")


async def find_garbage(
    work: Callable[[], Awaitable[object]], is_meant: Callable[[Any], bool] = is_of_the_gateway
) -> Counter[str]:
    """Await `work`, and return the types of the objects that it has made and that only the collector can free.

    A thread of an earlier test may leave objects meanwhile, but not each time: `work` is awaited again, up to TIMES times, until
    nothing is left.
    """
    left: Counter[str] = Counter()
    for _ in range(TIMES):
        left = await _find_garbage_once(work, is_meant)
        if not left:
            break
    return left


async def _find_garbage_once(work: Callable[[], Awaitable[object]], is_meant: Callable[[Any], bool]) -> Counter[str]:
    for _ in range(3):  # what has finalizers is freed in steps
        gc.collect()
    gc.disable()
    earlier = {id(value) for value in gc.get_objects()}
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        await work()
        gc.collect()
        return Counter(type(value).__name__ for value in gc.garbage if id(value) not in earlier and is_meant(value))
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
