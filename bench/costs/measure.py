"""Sends requests one after the other to a gateway that counts (bench/costs/counted.py), and returns what one of them costs.

The gateway's process is idle before each request, so that all work for the previous one has ended. Large requests are written in
pieces while the process is stopped, so that it always reads the same pieces. The cost is that of the cheapest request: nearly all
others have the same. The first one after a start, for example, also opens the connection to the upstream.
"""

from __future__ import annotations

import fcntl
import http.client
import json
import os
import signal
import socket
import sys
import tempfile
import termios
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from bench.costs.cases import CostCase
from bench.load import BadAnswer
from bench.side import CORES, RunningSide, load_facts, run_side, run_upstream

COUNTS = ("bytecodes", "calls", "c_calls", "coroutines", "allocated")
WARM_UPS = 5
PIECE_BYTES = 48 * 1024  # less than the receive buffer of a new connection
PATIENCE_SECONDS = 60.0
POLL_SECONDS = 0.0005


@dataclass(frozen=True, slots=True)
class RequestCost:
    """What the gateway's main thread executes for one request."""

    counts: tuple[int, ...]  # in the order of COUNTS
    mean: int  # bytecodes of all requests and of the timers that fired meanwhile, for one request


class CountedConnection:
    """A connection to the gateway that sends one request after the other."""

    def __init__(self, side: RunningSide, case: CostCase) -> None:
        self._process, self._port, self._case = side.process, side.port, case
        self._request = case.make_request()
        self._connect()

    def _connect(self) -> None:
        self._socket = socket.create_connection(("127.0.0.1", self._port), timeout=PATIENCE_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self) -> None:
        self._socket.close()

    def ask(self) -> None:
        """Send the request, read the response, and wait until the gateway is idle. Raises BadAnswer."""
        response = self.exchange()
        wait_until_idle(self._process)
        if response.will_close:
            self._socket.close()
            wait_until_idle(self._process)
            self._connect()
            wait_until_idle(self._process)

    def exchange(self) -> http.client.HTTPResponse:
        """Send the request, and return the response, which was read. Raises BadAnswer."""
        if len(self._request) < PIECE_BYTES // 4:
            self._socket.sendall(self._request)
        else:
            self._send_in_pieces()
        response = http.client.HTTPResponse(self._socket, method="POST")
        response.begin()
        body = response.read()
        if response.status != self._case.status or not body.rstrip().endswith(self._case.ends):
            raise BadAnswer(f"{self._case.name}: status {response.status}: {body[:200].decode(errors='replace')}")
        return response

    def _send_in_pieces(self) -> None:
        for start in range(0, len(self._request), PIECE_BYTES):
            piece = self._request[start : start + PIECE_BYTES]
            os.kill(self._process, signal.SIGSTOP)
            try:
                self._socket.sendall(piece)
                self._wait_until_received()
            finally:
                os.kill(self._process, signal.SIGCONT)
            wait_until_idle(self._process)

    def _wait_until_received(self) -> None:
        """Wait until the gateway's kernel has acknowledged all that was sent."""
        for _ in poll():
            if not int.from_bytes(fcntl.ioctl(self._socket, termios.TIOCOUTQ, bytes(4)), sys.byteorder):
                return


def poll() -> Iterator[None]:
    """Yield until the patience is over. Raises BadAnswer."""
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        yield
        time.sleep(POLL_SECONDS)
    raise BadAnswer(f"the gateway did not respond within {PATIENCE_SECONDS:.0f} s")


def wait_until_idle(process: int) -> None:
    """Wait until all threads of a process sleep, and have not run since the last look. Raises BadAnswer."""
    last = None
    for _ in poll():
        now = [read_state(path) for path in Path(f"/proc/{process}/task").glob("*/status")]
        if now == last and all(state.startswith("S") for state in now):
            return
        last = now


def read_state(status: Path) -> str:
    """Return the state of a thread and how often it has run."""
    try:
        lines = status.read_text(encoding="ascii").splitlines()
    except OSError:  # the thread has ended
        return ""
    return "".join(line.partition("\t")[2] for line in lines if line.startswith("State") or "ctxt_switches" in line)


class CounterControl:
    """Controls bench/costs/counted.py by signals."""

    def __init__(self, process: int, folder: Path) -> None:
        self._process, self._folder = process, folder

    def begin(self) -> None:
        self._signal(0, "begun")

    def end(self) -> list[list[int]]:
        """Return the sums at the beginning of each request, at the end of the last, and after the timers."""
        self._signal(1, "requested")
        wait_until_idle(self._process)
        sums: list[list[int]] = json.loads(self._signal(2, "ended"))
        wait_until_idle(self._process)
        return sums

    def _signal(self, number: int, name: str) -> str:
        file = self._folder / name
        os.kill(self._process, signal.SIGRTMIN + number)
        for _ in poll():
            if file.exists():
                break
        text = file.read_text(encoding="ascii")
        file.unlink()
        return text


def count_case(side: RunningSide, case: CostCase, folder: Path) -> RequestCost:
    """Return the cost of a request of the case. Raises BadAnswer."""
    connection = CountedConnection(side, case)
    control = CounterControl(side.process, folder)
    try:
        for _ in range(WARM_UPS):
            connection.ask()
        control.begin()
        for _ in range(case.requests):
            connection.ask()
        sums = control.end()
    finally:
        connection.close()
    if len(sums) != case.requests + 2:
        raise BadAnswer(f"{len(sums) - 2} of {case.requests} requests were seen to begin: see bench/costs/counted.py")
    return summarize(sums)


def summarize(sums: list[list[int]]) -> RequestCost:
    """Return the cost of one request from the sums that the counter noted."""
    *costs, _ = [
        tuple(after - before for before, after in zip(first, then, strict=True)) for first, then in pairwise(sums)
    ]
    return RequestCost(min(costs), round((sums[-1][0] - sums[0][0]) / len(costs)))


def count_cases(cases: Iterable[CostCase]) -> Iterator[tuple[CostCase, RequestCost]]:
    """Yield each case with its cost; the cases of one configuration have one gateway. Raises NotStarted or BadAnswer."""
    cases = list(cases)
    ours = load_facts("ours")
    with run_upstream() as upstream:
        for conf in dict.fromkeys(case.conf for case in cases):
            with tempfile.TemporaryDirectory() as folder:
                side = replace(
                    ours,
                    command=("$bin/python", "-m", "bench.costs.counted", folder, "--", *ours.command[1:]),
                    environment={"PYTHONHASHSEED": "0"},
                )
                with run_side(side, upstream, cores=CORES, files={"gate.yaml": conf}) as gateway:
                    for case in cases:
                        if case.conf == conf:
                            yield case, count_case(gateway, case, Path(folder))
