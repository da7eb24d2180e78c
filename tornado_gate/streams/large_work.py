"""The one thread in which all large responses are processed.

Several threads would delay the event loop several times as long, because Python runs one at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any, Final, TypeVar

Result = TypeVar("Result")

_THREAD: Final = ThreadPoolExecutor(1, "answers")  # it starts with the first large response


async def run_alone(function: Callable[..., Result], *arguments: Any) -> Result:
    """Return the result of a function that processes a large response. The function has the caller's context variables."""
    return await asyncio.get_running_loop().run_in_executor(_THREAD, partial(copy_context().run, function, *arguments))
