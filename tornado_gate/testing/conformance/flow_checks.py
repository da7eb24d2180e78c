"""Checks with callers who leave and callers who do not read."""

from __future__ import annotations

import asyncio
from typing import Final

from tornado_gate.testing.conformance import answer_checks
from tornado_gate.testing.conformance.driver import Driver, Exchange, hang_after, model_name, only_first
from tornado_gate.testing.conformance.report import PluginReport, Row
from tornado_gate.testing.scripted_upstream import Endless, Fault, UpstreamAnswer
from tornado_gate.types.value import replace

CLOSE_SECONDS: Final = 3.0
OFFERED_BYTES: Final = 32 * 1024 * 1024
MOST_BYTES: Final = 12 * 1024 * 1024
"""The allowed number of bytes in transit to a caller who does not read. Most are in socket buffers between upstream and
gateway.
"""
STALLED_SECONDS: Final = 0.25
_PIECE_BYTES: Final = 32 * 1024


async def check_cancellation(driver: Driver, report: PluginReport, row: Row, usual: Exchange) -> None:
    """Check a caller who leaves in the middle: the upstream's connection is closed, and no task is left."""
    if row.operation == "videos":  # the task continues without its caller
        return
    report.count("cancellation")
    where = answer_checks.describe(row)
    if not usual.answers:
        return await _check_left_tasks(driver, report, where, usual)
    begins = row.streamed and len(usual.answers[0].steps) > 1
    hanging = hang_after(usual.answers[0]) if begins else UpstreamAnswer(steps=(Fault.HANG,))
    driver.begin(only_first(hanging), usual.example)
    try:
        async with asyncio.timeout(CLOSE_SECONDS):
            await _leave_response(driver, usual, begins=begins)
    except TimeoutError:
        what = "Half of the upstream's frames have arrived, and the caller got no byte. Yield each event as soon as it is there."
        return report.fail("cancellation", where, what)
    try:
        async with asyncio.timeout(CLOSE_SECONDS):
            for received in driver.upstream.received:
                await received.ended.wait()
    except TimeoutError:
        what = "The caller left, but the connection to the upstream stayed open. Do not shield the request from cancellation."
        report.fail("cancellation", where, what)
    await _report_left_tasks(driver, report, where)


async def _leave_response(driver: Driver, usual: Exchange, *, begins: bool) -> None:
    """Send a request. Close the connection after the first bytes of the response, or when the upstream has the request."""
    request = usual.example.make(model_name(usual.example.operation))
    if begins:
        async with driver.stage.sending(request) as response:
            await response.content.readany()
        return
    asking = asyncio.create_task(driver.stage.send(request))
    arriving = asyncio.create_task(driver.upstream.arrived.wait())
    try:
        await asyncio.wait([asking, arriving], return_when=asyncio.FIRST_COMPLETED)  # a wrapper may respond from memory
    finally:
        asking.cancel()
        arriving.cancel()
        await asyncio.wait([asking, arriving])


async def _check_left_tasks(driver: Driver, report: PluginReport, where: str, usual: Exchange) -> None:
    """Check a provider without an upstream. The caller leaves after the head, or after the first bytes."""
    driver.begin(example=usual.example)
    async with driver.stage.sending(usual.example.make(model_name(usual.example.operation))):
        pass
    await _report_left_tasks(driver, report, where)


async def _report_left_tasks(driver: Driver, report: PluginReport, where: str) -> None:
    if left := await driver.stage.find_left_tasks():
        report.fail("cancellation", where, f"Tasks of the request still run after the caller left: {', '.join(left)}.")


async def check_back_pressure(driver: Driver, report: PluginReport, row: Row, usual: Exchange) -> None:
    """Check that a caller who does not read stops the upstream. The bytes in transit are bounded."""
    frame = _find_frame(usual) if row.streamed else b""
    if not frame:
        return
    report.count("back-pressure")
    piece = frame * (_PIECE_BYTES // len(frame) + 1)
    steps = [step for step in usual.answers[0].steps if isinstance(step, bytes)]
    at = steps.index(frame)
    endless = replace(usual.answers[0], steps=(*steps[:at], Endless(piece, OFFERED_BYTES), Fault.HANG))
    driver.begin(only_first(endless), usual.example)
    async with driver.stage.holding(usual.example.make(model_name(row.operation))):
        await driver.upstream.arrived.wait()
        sent = await _wait_until_stalled(driver)
    if sent > MOST_BYTES:
        what = f"The upstream could send {sent:,} bytes to a caller who reads nothing. Yield events while you read the answer."
        report.fail("back-pressure", answer_checks.describe(row), what)
    await _report_left_tasks(driver, report, answer_checks.describe(row))


def _find_frame(usual: Exchange) -> bytes:
    """Return a frame in the middle of a stream, which may be repeated; b"" if the stream has too few."""
    steps = [step for step in usual.answers[0].steps if isinstance(step, bytes)] if usual.answers else []
    return steps[len(steps) // 2] if len(steps) > 3 else b""


async def _wait_until_stalled(driver: Driver) -> int:
    """Return the bytes that the upstream has sent when it is blocked for a while, or has sent everything."""
    (received, *_) = driver.upstream.received
    before = -1
    while received.sent != before and received.sent < OFFERED_BYTES:
        before = received.sent
        await asyncio.sleep(STALLED_SECONDS)
    return received.sent
