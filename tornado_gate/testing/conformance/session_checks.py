"""Checks of realtime sessions: they open, both ends close together, and a refused handshake is an error before the
upgrade.
"""

from __future__ import annotations

import asyncio
from typing import Final

import aiohttp

from tornado_gate.testing.conformance.driver import Driver, model_name, only_first
from tornado_gate.testing.conformance.report import PluginReport, Row
from tornado_gate.testing.scripted_upstream import json_answer

SESSION_SECONDS: Final = 10.0


async def check_sessions(driver: Driver, report: PluginReport) -> None:
    """Open a session at each WebSocket route of the installed formats."""
    for served in driver.stage.services.gate.snapshot.routes.__iter__():
        route = served.route
        if route.socket and route.operation == "realtime":
            row = Row(operation="realtime", format=served.format, request=f"{route.method} {route.path}", streamed=True)
            report.rows.append(row)
            path = f"{route.path}?model={model_name('realtime')}"
            await _check_session(driver, report, row, path)
            if driver.upstream.received:
                await _check_refused(driver, report, row, path)


async def _check_session(driver: Driver, report: PluginReport, row: Row, path: str) -> None:
    """Check that the first message arrives, and that no task is left when the caller closes."""
    report.count("sessions")
    where = f"realtime, {row.format} {row.request}"
    driver.begin()
    before = report.failed_places
    try:
        async with asyncio.timeout(SESSION_SECONDS), driver.stage.connect(path) as session:
            first = await session.receive()
            if first.type not in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY):
                report.fail(
                    "sessions", where, f"The session ended without a message: {first.type.name} {first.extra or ''}"
                )
        for received in driver.upstream.received:
            async with asyncio.timeout(SESSION_SECONDS):
                await received.ended.wait()
    except aiohttp.WSServerHandshakeError as error:
        report.fail("sessions", where, f"The session was refused with status {error.status}.")
    except TimeoutError:
        what = "No message came, or the upstream's connection stayed open after the caller had closed the session."
        report.fail("sessions", where, what)
    if left := await driver.stage.find_left_tasks():
        report.fail("sessions", where, f"Tasks of the session still run after it was closed: {', '.join(left)}.")
    for name, text in driver.find_failures().items():
        report.fail("plugin", where, f"The plugin '{name}' failed: {text}.")
    if report.failed_places > before:
        row.outcome = "failed"


async def _check_refused(driver: Driver, report: PluginReport, row: Row, path: str) -> None:
    """Check an upstream that refuses the key. The caller must receive the gateway's error instead of an upgrade."""
    report.count("sessions")
    driver.begin(only_first(json_answer({"error": {"message": "no"}}, 401)))
    try:
        async with asyncio.timeout(SESSION_SECONDS), driver.stage.connect(path):
            status = 101
    except aiohttp.WSServerHandshakeError as error:
        status = error.status
    if status != 502:
        what = f"The upstream refused the key with 401; the caller got status {status}, not 502."
        report.fail("sessions", f"realtime, {row.format} {row.request}", what)
