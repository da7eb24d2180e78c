"""Time limits that do not count the time in which this process did not run.

On a busy machine a process may not run for a second. Then all its timers are due, although the responses that it waits for
arrived long ago.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

LATE_SECONDS: Final = 0.05
"""The lateness of a timer that proves that this process did not run."""


@asynccontextmanager
async def limit_running_time(seconds: float) -> AsyncIterator[None]:
    """Raise TimeoutError if the block takes longer than `seconds` while this process runs."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(None) as limit:
        expiry = loop.call_later(seconds, expire_or_extend, limit, loop.time() + seconds, seconds)
        try:
            yield
        finally:
            expiry.cancel()


def expire_or_extend(limit: asyncio.Timeout, due: float, seconds: float) -> None:
    """End `limit`, which was due at `due`. If this process did not run at that time, give `seconds` once more."""
    now = asyncio.get_running_loop().time()
    limit.reschedule(now + seconds if now > due + LATE_SECONDS else now)
