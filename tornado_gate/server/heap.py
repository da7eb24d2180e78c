"""What a server's process does with memory: when it looks for garbage, and how much of what was freed it keeps."""

from __future__ import annotations

import ctypes
import gc
import sys

GARBAGE_THRESHOLDS = (10_000, 20, 50)
"""Of `gc.set_threshold`: new objects before the youngest are looked at, and so on."""

RETAINED_BYTES = 32 * 1024 * 1024
"""How much free memory at the end of the heap is kept for what comes next. The most that glibc lets be said."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # glibc's malloc.h


def reduce_garbage_collection() -> None:
    """What is there at the start stays for good, so the collector need not look at it; and a request makes no cycles of
    references, which are all that the collector is for, so it may look seldom: for plugins that do.

    Nothing is collected before: that takes 25 ms and finds 1,600 of 80,000 objects, however large conf is.
    """
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    gc.enable()  # the command switched it off, for the time of all those imports


def retain_freed_memory() -> bool:
    """Keep what long bodies had for the next ones, where the allocator is glibc's; False where it is another.

    Left alone it gives them back, and the system fills every page anew with noughts: a third of the price of a picture of 5 MB.
    """
    if sys.platform != "linux":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and all(
        mallopt(option, RETAINED_BYTES) == 1 for option in (_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD)
    )
