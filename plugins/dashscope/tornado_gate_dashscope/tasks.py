"""Pictures by task: made with one request, asked about until it ends, cancelled when nobody waits for it any more.

Between questions nothing is held but a coroutine. The core's deadline, or the caller who leaves, cancels that one; the upstream
is then asked in the background to forget the task, which it does only while the task is still queued.

Source: https://docs.qwencloud.com/api-reference/image-generation/wan-text-to-image-v2/create-task and /query-result;
https://help.aliyun.com/zh/model-studio/developer-reference/manage-asynchronous-tasks (POST …/tasks/{id}/cancel, only while it
is queued).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any, Final

import orjson

from tornado_gate.errors import UpstreamError, UpstreamRefused, UpstreamTimeout
from tornado_gate.http import upstream
from tornado_gate.types import Call, UpstreamRequest, UpstreamResponse
from tornado_gate.types.value import Value, replace
from tornado_gate.wire.dashscope_images import Fault, Task, failure, mended, parse_task
from tornado_gate_dashscope.address import task_url
from tornado_gate_dashscope.facts import Facts

log = logging.getLogger(__name__)

QUESTION_SECONDS: Final = 20.0
"""One question about a task, its answer included."""
CANCEL_SECONDS: Final = 5.0
MAKE_TASK: Final = "x-dashscope-async"
MOST_FAILURES: Final = 5
"""Questions in a row that may fail before the task is given up."""

_CREDENTIALS: Final = "upstream_authentication"
_farewells: set[asyncio.Task[None]] = set()
"""Cancellations under way: the loop itself holds tasks only weakly."""


class _Held(Value, frozen=True):
    """The connections as they were: a cancellation must not open new ones for an entry that conf has dropped meanwhile."""

    kept: Any

    def session(self) -> Any:
        return self.kept


async def send(call: Call, outgoing: UpstreamRequest) -> UpstreamResponse:
    """The default call, but with what is about the operator's account kept from the caller."""
    try:
        return await upstream.call_upstream(call, outgoing)
    except UpstreamRefused as refused:
        raise mended(call, refused) from None


async def run(call: Call, outgoing: UpstreamRequest) -> UpstreamResponse:
    """Make a task and return the answer of the one that succeeded. Raises UpstreamError and its kin for any other end."""
    task, _ = await _exchange(call, outgoing)
    if task.fault and not task.waiting:
        raise failure(call, task.fault)
    asked = UpstreamRequest(method="GET", url=task_url(call.target.base_url, task.id), headers=_plain(outgoing))
    try:
        task, body = await _ended(call, asked)
    except BaseException:
        _cancel_later(call, task.id, outgoing)
        raise
    if task.status != "SUCCEEDED":
        raise failure(call, task.fault or Fault(code=f"task {task.status or 'without a state'}", message=""))
    return UpstreamResponse(chunks=_whole(body), headers={"content-type": "application/json"})


async def _ended(call: Call, asked: UpstreamRequest) -> tuple[Task, bytes]:
    """The task when it waits for nothing more, and the answer that said so."""
    facts: Facts = call.target.settings
    failures = 0
    for pause in facts.pauses():
        await asyncio.sleep(pause)
        try:
            task, body = await _question(call, asked)
        except UpstreamError as error:
            failures += 1
            if not error.retryable or error.code == _CREDENTIALS or failures >= MOST_FAILURES:
                raise
            log.info("upstream '%s' did not say how a task stands, %d in a row", call.target.provider, failures)
            continue
        if not task.waiting:
            return task, body
        failures = 0
    raise AssertionError("the pauses never end")


async def _question(call: Call, asked: UpstreamRequest) -> tuple[Task, bytes]:
    try:
        async with asyncio.timeout(QUESTION_SECONDS):
            return await _exchange(call, asked)
    except TimeoutError as error:
        raise UpstreamTimeout(
            f"The provider '{call.target.provider}' did not say in time how a task stands."
        ) from error


async def _exchange(call: Call, outgoing: UpstreamRequest) -> tuple[Task, bytes]:
    """One request and its whole answer. What it opened is closed when it is done: a task takes many of them."""
    async with AsyncExitStack() as closing:
        incoming = await send(replace(call, closing=closing), outgoing)
        body = await incoming.read()
    try:
        return parse_task(orjson.loads(body)), body
    except orjson.JSONDecodeError as error:
        raise UpstreamError(f"The provider '{call.target.provider}' sent an answer that is not JSON.") from error


def _cancel_later(call: Call, task_id: str, outgoing: UpstreamRequest) -> None:
    """Ask for the task to be forgotten, and wait for nothing."""
    url = task_url(call.target.base_url, task_id, cancel=True)
    apart = replace(call, pool=_Held(call.pool.session()), closing=AsyncExitStack())
    farewell = asyncio.create_task(_cancel(apart, UpstreamRequest(url=url, headers=_plain(outgoing), body=b"")))
    _farewells.add(farewell)
    farewell.add_done_callback(_farewells.discard)


def _plain(outgoing: UpstreamRequest) -> dict[str, str]:
    """Headers for what is said about a task that is there: without the one that makes tasks."""
    return {name: value for name, value in outgoing.headers.items() if name != MAKE_TASK}


async def _cancel(call: Call, outgoing: UpstreamRequest) -> None:
    """Best effort: a task that runs already cannot be cancelled, and nobody is left to be told."""
    try:
        async with asyncio.timeout(CANCEL_SECONDS), call.closing:
            incoming = await upstream.call_upstream(call, outgoing)
            await incoming.read()
    except Exception as error:
        log.info("upstream '%s' did not cancel a task: %s", call.target.provider, type(error).__name__)


async def _whole(body: bytes) -> AsyncIterator[bytes]:
    yield body
