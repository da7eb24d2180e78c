"""Memory settings of a server process: the garbage collector, and how much freed memory the allocator retains."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import sys
from collections.abc import Iterator

GARBAGE_THRESHOLDS = (10_000, 20, 50)
"""The arguments of `gc.set_threshold`: the number of new objects before the youngest generation is collected, and so on."""

_NEVER = 1_000_000

RETAINED_BYTES = 32 * 1024 * 1024
"""The free memory at the end of the heap that is retained for reuse: the maximum that glibc accepts."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # glibc's malloc.h


def reduce_garbage_collection() -> None:
    """Exclude the existing objects from garbage collection, and run the collector less often.

    Objects that exist at start live as long as the process. The gateway creates no reference cycles per request, so the collector
    is only needed for plugins that do. No collection runs first: it takes 25 ms and frees 1,600 of 80,000 objects, independent of
    the size of conf.
    """
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    gc.enable()  # the command line disables it while modules are imported


@contextlib.contextmanager
def shorten_garbage_collection() -> Iterator[None]:
    """Make many objects that live long with short collections only. Exclude the surviving objects from later collections.

    A collection of an older generation examines all of them in one step, also in a thread. The objects of 10,000 keys and models
    block the event loop for 90 ms. The youngest generation has `GARBAGE_THRESHOLDS[0]` objects. It is still collected, because a
    reference cycle that exists at the end is never freed.
    """
    gc.collect(1)
    gc.set_threshold(GARBAGE_THRESHOLDS[0], _NEVER, _NEVER)
    try:
        yield
    finally:
        gc.collect(0)
        gc.freeze()
        gc.set_threshold(*GARBAGE_THRESHOLDS)


def retain_freed_memory() -> bool:
    """Make glibc retain the memory of freed large bodies. Return False when the allocator is not glibc's.

    By default glibc returns this memory, and the kernel zeroes every page on the next allocation: a third of the cost of an image
    of 5 MB.
    """
    return _set_malloc_options((_M_MMAP_THRESHOLD, RETAINED_BYTES), (_M_TRIM_THRESHOLD, RETAINED_BYTES))


def share_arena() -> bool:
    """Make all threads of glibc allocate from one arena; call this before threads start. Return False if that is not possible.

    By default each thread gets its own arena and retains the memory that it has freed there, where no other thread can use it:
    after 6,000 pages of the console, 10 MB of 31 MB. The operator's own setting is not changed.
    """
    if "MALLOC_ARENA_MAX" in os.environ or "glibc.malloc.arena_max" in os.environ.get("GLIBC_TUNABLES", ""):
        return False
    return _set_malloc_options((_M_ARENA_MAX, 1))


def _set_malloc_options(*options: tuple[int, int]) -> bool:
    """Return whether all options were set: only glibc has them."""
    if sys.platform != "linux":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and all(mallopt(option, value) == 1 for option, value in options)
