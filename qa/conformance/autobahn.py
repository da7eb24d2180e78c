"""The WebSocket cases of the Autobahn TestSuite, run by kosoku, against both ends of the gateway's WebSocket code.

kosoku (PyPI) has the case files of crossbario/autobahn-testsuite, ported to Python 3, and a runner of its own; the suite itself
needs Python 2. Each end echoes what it receives, as the suite demands; the gateway's own routes carry JSON events and cannot.

Cases 12 and 13 test compression, which the gateway does not negotiate (`tornado_gate.http.websocket.frames` says why).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import kosoku
from tornado.web import Application
from tornado.websocket import WebSocketHandler

from tests.support.front import serving
from tornado_gate.http.upstream import Pool
from tornado_gate.http.websocket import MAX_MESSAGE_BYTES, open_socket
from tornado_gate.http.websocket.frames import BINARY, UNSUPPORTED, make_frame
from tornado_gate.http.websocket.server import FrameProtocol
from tornado_gate.testing import call_to
from tornado_gate.types import Timeouts, UpstreamRequest, replace

PROTOCOL = ("1.*", "2.*", "3.*", "4.*", "5.*", "6.*", "7.*", "10.*")
"""Framing, pings, reserved bits, opcodes, fragments, UTF-8, closing, and one message in many fragments."""
LARGE = ("9.*",)
"""Messages of up to 16 MiB, and thousands of small ones."""
BINARY_CASES = ("1.2.", "9.2.", "9.4.", "9.6.", "9.8.")
"""Cases that send binary messages. Realtime upstreams send texts only: the gateway closes with 1003 when one does not."""
PASSED = {"OK", "NON-STRICT", "INFORMATIONAL"}
AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Outcome:
    """The verdict on one case; `close_code` is what the gateway closed with."""

    case: str
    behavior: str
    closing: str
    close_code: int | None

    @property
    def passed(self) -> bool:
        return self.behavior in PASSED and self.closing in PASSED

    @property
    def refused_binary(self) -> bool:
        return self.case.startswith(BINARY_CASES) and self.close_code == UNSUPPORTED


Run = Callable[[Sequence[str]], Awaitable[list[Outcome]]]


class Echo(WebSocketHandler):
    """The caller's end: the same classes as the realtime route."""

    def get_websocket_protocol(self) -> FrameProtocol:  # type: ignore[override]  # Tornado calls two of its methods
        self.frames = FrameProtocol(self, most=MAX_MESSAGE_BYTES)
        return self.frames

    def on_message(self, message: str | bytes) -> Any:
        connection = self.frames.connection
        if isinstance(message, str):
            return connection.write(message)
        connection._transport.write(make_frame(BINARY, message, masked=False))  # the gateway itself sends texts only
        return connection._room


async def check_server(front: str, cases: Sequence[str]) -> list[Outcome]:
    """Run the cases against the caller's end, behind one of the HTTP servers of `tests.support.front`."""
    async with serving(front, Application([(r"/", Echo)])) as running:
        return await _repeat_failed(partial(_drive_server, f"ws://127.0.0.1:{running.port}/"), cases)


async def check_client(cases: Sequence[str]) -> list[Outcome]:
    """Run the cases against the upstream's end, `open_socket`."""
    return await _repeat_failed(_drive_client, cases)


async def _repeat_failed(run: Run, cases: Sequence[str]) -> list[Outcome]:
    """Run the cases, then those that failed once more, alone: some wait for one second only, too short for a busy machine."""
    outcomes = await run(cases)
    failed = [one.case for one in outcomes if not one.passed and not one.refused_binary]
    again = {case: (await run([case]))[0] for case in failed}
    return [again.get(one.case, one) for one in outcomes]


async def _drive_server(url: str, cases: Sequence[str]) -> list[Outcome]:
    try:
        results = await kosoku.run_fuzzingclient(url, cases=list(cases), concurrency=AT_ONCE)
    except kosoku.FailureError as failure:
        results = failure.results
    return [_outcome(result) for result in results]


async def _drive_client(cases: Sequence[str]) -> list[Outcome]:
    pool = Pool(Timeouts(connect=5))
    async with kosoku.run_fuzzingserver(cases=list(cases), port=0) as suite:
        base = f"http://127.0.0.1:{suite.port}"
        (count,) = await _converse(pool, base, "/getCaseCount")
        turns = asyncio.Semaphore(AT_ONCE)

        async def run_case(number: int) -> None:
            async with turns:
                await _converse(pool, base, f"/runCase?case={number}&agent=tornado_gate")

        await asyncio.gather(*(run_case(number) for number in range(1, int(count) + 1)))
        await _converse(pool, base, "/updateReports?agent=tornado_gate")
        try:
            results = await suite.get_result()
        except kosoku.FailureError as failure:
            results = failure.results
    await pool.close()
    return [_outcome(result) for result in results]


async def _converse(pool: Pool, base: str, path: str) -> list[str]:
    """Connect, echo each message of a case until the connection is closed, and return the messages."""
    async with AsyncExitStack() as closing:
        call = call_to(pool=pool, closing=closing)
        call = replace(call, target=replace(call.target, base_url=base))
        socket = await open_socket(call, UpstreamRequest(url=base.replace("http", "ws") + path, headers={}))
        messages: list[str] = []
        closed = asyncio.Event()

        def receive(message: str | bytes) -> Awaitable[object] | None:
            if path.startswith("/runCase"):
                return socket.write(str(message))
            messages.append(str(message))
            return None

        socket.relay_to(receive, closed.set)
        await closed.wait()
        return messages


def _outcome(result: Any) -> Outcome:
    return Outcome(result.case_id, result.behavior.value, result.behavior_close.value, result.remote_close_code)


def main() -> list[str]:
    """Run every case; returns the lines of a table."""
    lines = [
        "| end | HTTP code | passed | non-strict | informational | binary, refused | failed |",
        "|---|---|---|---|---|---|---|",
    ]
    for end, code, check in (
        ("caller's", "the gateway's server", partial(check_server, "httptools")),
        ("caller's", "Tornado's server", partial(check_server, "tornado")),
        ("upstream's", "aiohttp", check_client),
    ):
        outcomes = asyncio.run(check((*PROTOCOL, *LARGE)))
        refused = sum(one.refused_binary and not one.passed for one in outcomes)
        counts = Counter(one.behavior for one in outcomes if one.passed)
        failed = ", ".join(one.case for one in outcomes if not one.passed and not one.refused_binary)
        figures = [counts["OK"], counts["NON-STRICT"], counts["INFORMATIONAL"], refused, failed or 0]
        lines.append(f"| {end} | {code} | {' | '.join(map(str, figures))} |")
    return lines
