"""Sends requests one after the other to a gateway that counts (bench/costs/counted.py), and returns what one of them costs.

The cost is the median of the requests, because timers of the gateway (metrics, batches of log lines) run in some of them. What
they add is `background`: the sum of all requests minus the number of requests times the median, for one request. It depends on time,
so it is shown and not compared.

Large requests are written in pieces while the gateway's process is stopped, so that it always reads the same pieces.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import statistics
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from bench.costs.cases import CostCase
from bench.load import BadAnswer
from bench.side import CORES, RunningSide, load_facts, run_side, run_upstream

COUNTS = ("bytecodes", "calls", "c_calls", "coroutines")
WARM_UPS = 20
PIECE_BYTES = 48 * 1024  # less than the receive buffer of a new connection
PATIENCE_SECONDS = 60.0
POLL_SECONDS = 0.002


@dataclass(frozen=True, slots=True)
class RequestCost:
    """What the gateway's main thread executes for one request."""

    counts: dict[str, int]
    background: int  # bytecodes of timers, for one request


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
        """Send the request and read the response. Raises BadAnswer."""
        if len(self._request) < PIECE_BYTES // 4:
            self._socket.sendall(self._request)
        else:
            self._send_in_pieces()
        response = http.client.HTTPResponse(self._socket, method="POST")
        response.begin()
        body = response.read()
        if response.status != self._case.status or not body.rstrip().endswith(self._case.ends):
            raise BadAnswer(f"{self._case.name}: status {response.status}: {body[:200].decode(errors='replace')}")
        if response.will_close:
            self._socket.close()
            self._connect()

    def _send_in_pieces(self) -> None:
        for start in range(0, len(self._request), PIECE_BYTES):
            piece = self._request[start : start + PIECE_BYTES]
            os.kill(self._process, signal.SIGSTOP)
            try:
                self._socket.sendall(piece)
                self._wait_for_unread(len(piece))
            finally:
                os.kill(self._process, signal.SIGCONT)
            self._wait_for_unread(0)

    def _wait_for_unread(self, count: int) -> None:
        """Wait until the kernel holds that many bytes that the gateway has not read."""
        address = f":{self._port:04X} 0100007F:{self._socket.getsockname()[1]:04X} "
        for _ in poll():
            lines = Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()
            queues = [line.split()[4] for line in lines if address in line]
            if queues and int(queues[0].partition(":")[2], 16) == count:
                return


def poll() -> Iterator[None]:
    """Yield until the patience is over. Raises BadAnswer."""
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        yield
        time.sleep(POLL_SECONDS)
    raise BadAnswer(f"the gateway did not respond within {PATIENCE_SECONDS:.0f} s")


def signal_counter(side: RunningSide, number: int, file: Path) -> str:
    """Send a signal to the gateway and return the file that it writes."""
    os.kill(side.process, number)
    for _ in poll():
        if file.exists():
            text = file.read_text(encoding="ascii")
            file.unlink()
            return text
    raise AssertionError


def count_case(side: RunningSide, case: CostCase, folder: Path) -> RequestCost:
    """Return the cost of a request of the case. Raises BadAnswer."""
    connection = CountedConnection(side, case)
    try:
        for _ in range(WARM_UPS):
            connection.ask()
        signal_counter(side, signal.SIGRTMIN, folder / "begun")
        for _ in range(case.requests + 1):
            connection.ask()
        sums = json.loads(signal_counter(side, signal.SIGRTMIN + 1, folder / "counts.json"))
    finally:
        connection.close()
    if len(sums) != case.requests + 1:
        raise BadAnswer(f"{len(sums)} of {case.requests + 1} requests were seen to begin: see bench/costs/counted.py")
    return summarize(sums)


def summarize(sums: list[list[int]]) -> RequestCost:
    """Return the cost of one request from the sums at the beginning of each."""
    costs = [[after - before for before, after in zip(first, then, strict=True)] for first, then in zip(sums, sums[1:])]
    medians = [statistics.median_low(column) for column in zip(*costs, strict=True)]
    mean = (sums[-1][0] - sums[0][0]) / len(costs)
    return RequestCost(dict(zip(COUNTS, medians, strict=True)), round(mean - medians[0]))


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
