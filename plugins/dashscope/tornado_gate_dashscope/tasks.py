"""Image tasks: created by one request, polled until they end, cancelled when the caller disconnects or times out.

Between polls, only a coroutine is kept, no connection. A timeout or a disconnected caller cancels the coroutine; a background
request then cancels the upstream's task, which is possible only while it is queued.

Source: https://docs.qwencloud.com/api-reference/image-generation/wan-text-to-image-v2/create-task and /query-result;
https://help.aliyun.com/zh/model-studio/developer-reference/manage-asynchronous-tasks (POST …/tasks/{id}/cancel, only while it
is queued).
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from typing import Final

from tornado_gate.errors import UpstreamError, UpstreamKeyRefused, UpstreamTimeout
from tornado_gate.http import upstream
from tornado_gate.types import BufferedBody, Call, UpstreamRequest, UpstreamResponse
from tornado_gate.types.value import replace
from tornado_gate.types.wire import parse_json
from tornado_gate_dashscope.address import build_task_url
from tornado_gate_dashscope.settings import DashScopeSettings
from tornado_gate_openai.wire.dashscope_images import FailureReport, ImageTask, make_error, parse_task

log = logging.getLogger(__name__)

POLL_TIMEOUT_SECONDS: Final = 20.0
"""Timeout of one poll, including its response."""
CANCEL_TIMEOUT_SECONDS: Final = 5.0
CREATE_TASK_HEADER: Final = "x-dashscope-async"
MAX_FAILURES: Final = 5
"""The number of consecutive failed polls after which the task fails."""

_cancellations: set[asyncio.Task[None]] = set()
"""Running cancellations; the event loop has only weak references to tasks."""


async def run_task(call: Call, outgoing: UpstreamRequest) -> UpstreamResponse:
    """Create a task and return the response of the completed one. Raises UpstreamError or a subclass for any other end."""
    task, _ = await _call_for_task(call, outgoing)
    if task.fault and not task.is_waiting:
        raise make_error(call, task.fault)
    url, headers = build_task_url(call.target.base_url, task.id), _select_poll_headers(outgoing)
    poll = UpstreamRequest(method="GET", url=url, headers=headers)
    try:
        task, body = await _wait_for_end(call, poll)
    except BaseException:
        _cancel_later(call, task.id, outgoing)
        raise
    if task.status != "SUCCEEDED":
        raise make_error(call, task.fault or FailureReport(code=f"task {task.status or 'without a state'}", message=""))
    return UpstreamResponse(chunks=BufferedBody(body), headers={"content-type": "application/json"})


async def _wait_for_end(call: Call, poll: UpstreamRequest) -> tuple[ImageTask, bytes]:
    """Return the finished task, and the body of its last poll."""
    facts: DashScopeSettings = call.target.settings
    failures = 0
    for pause in facts.iterate_pauses():
        await asyncio.sleep(pause)
        try:
            task, body = await _poll_task(call, poll)
        except UpstreamError as error:
            failures += 1
            if not error.retryable or isinstance(error, UpstreamKeyRefused) or failures >= MAX_FAILURES:
                raise
            log.info("upstream '%s': poll of an image task failed, %d in a row", call.target.provider, failures)
            continue
        if not task.is_waiting:
            return task, body
        failures = 0
    raise AssertionError("unreachable: iterate_pauses is infinite")


async def _poll_task(call: Call, poll: UpstreamRequest) -> tuple[ImageTask, bytes]:
    try:
        async with asyncio.timeout(POLL_TIMEOUT_SECONDS):
            return await _call_for_task(call, poll)
    except TimeoutError as error:
        raise UpstreamTimeout(
            f"The provider '{call.target.provider}' did not return the task's state within {POLL_TIMEOUT_SECONDS:g} s."
        ) from error


async def _call_for_task(call: Call, outgoing: UpstreamRequest) -> tuple[ImageTask, bytes]:
    """Send one request and read its whole response. Closes its resources immediately, because a task needs many requests."""
    async with AsyncExitStack() as closing:
        incoming = await upstream.call_upstream(replace(call, closing=closing), outgoing)
        body = await incoming.read()
    return parse_task(parse_json(body, call.target.provider)), body


def _cancel_later(call: Call, task_id: str, outgoing: UpstreamRequest) -> None:
    """Cancel the upstream's task in the background."""
    url = build_task_url(call.target.base_url, task_id, cancel=True)
    apart = replace(call, closing=AsyncExitStack())
    farewell = asyncio.create_task(
        _cancel_task(apart, UpstreamRequest(url=url, headers=_select_poll_headers(outgoing), body=b""))
    )
    _cancellations.add(farewell)
    farewell.add_done_callback(_cancellations.discard)


def _select_poll_headers(outgoing: UpstreamRequest) -> dict[str, str]:
    """Return the headers for requests about an existing task, without the header that creates tasks."""
    return {name: value for name, value in outgoing.headers.items() if name != CREATE_TASK_HEADER}


async def _cancel_task(call: Call, outgoing: UpstreamRequest) -> None:
    """Cancel the task, best effort: a running task cannot be cancelled, and errors are only logged."""
    try:
        async with asyncio.timeout(CANCEL_TIMEOUT_SECONDS), call.closing:
            incoming = await upstream.call_upstream(call, outgoing)
            await incoming.read()
    except Exception as error:
        log.info("upstream '%s': could not cancel an image task: %s", call.target.provider, type(error).__name__)
