"""CPU time of what is recorded of a request: on the event loop, in the thread of the ledger, and in the thread of the log.

Usage: python -m bench.recording [--format json|text] [--postgresql] [--rounds 12]. A round records a second of chats of one key,
as `record_request` gets them, and waits until they are written. Prints microseconds for each request. It uses the real ledger,
log and metrics, and no HTTP.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.support.postgres import PostgresServer
from tornado_gate.config.model import LedgerConfig
from tornado_gate.database.engine import Database
from tornado_gate.database.opening import open_database
from tornado_gate.ledger.ledger import Ledger
from tornado_gate.server.handlers.common import make_request_id, record_request
from tornado_gate.server.process.heap import reduce_garbage_collection
from tornado_gate.telemetry import logs
from tornado_gate.telemetry.metrics import Metrics
from tornado_gate.types import Call, Caller, Charge, Meter, Progress, Target, Usage

REQUESTS = 1200
"""Requests of a round."""
SETTLE_SECONDS = 0.3
"""The time in which the thread of the log writes its lines."""
TARGET = Target(provider="openai", plugin="openai", model="gpt", upstream_model="gpt-4o-mini")
CALLER = Caller(id="key_0123456789", account="acc", name="a key", user="user_1", team="team_1")
HEADERS = {
    "host": "localhost",
    "accept": "*/*",
    "user-agent": "x",
    "content-type": "application/json",
    "content-length": "9",
}
USAGE = Usage(input_tokens=20, output_tokens=30)
REQUEST = SimpleNamespace(method="POST", path="/v1/chat/completions", headers=HEADERS, remote_ip="127.0.0.1")


def make_ended_request(gate: Any, snapshot: Any) -> Any:
    """What a handler hands to `record_request` after a chat."""
    call = Call(
        id="r", operation="chat", format="openai", model="gpt", caller=CALLER, target=TARGET, headers=HEADERS,
        meter=Meter(usage=USAGE, finish_reason="stop"), charge=Charge(cost=123456, estimate_prompt=lambda: 5),
        progress=Progress(model="gpt", target=TARGET, attempts=1, is_sent=True, first_event_seconds=0.0013),
    )  # fmt: skip
    return SimpleNamespace(
        gate=gate, snapshot=snapshot, request=REQUEST, call=call, request_id=make_request_id(), format="openai",
        operation="chat", started=time.monotonic() - 0.0015, sent_bytes=400, error_code="", outcome="", end_user="",
        recorded_body=b"", status=200,
    )  # fmt: skip


def read_cpu_times() -> dict[str, float]:
    """CPU seconds of the living threads by name. Threads without a name of ours belong to the log."""
    return {
        "ledger" if thread.name == "ledger" else "log": _read_thread_seconds(thread)
        for thread in threading.enumerate()
        if thread is not threading.main_thread()
    }


def _read_thread_seconds(thread: threading.Thread) -> float:
    path = Path(f"/proc/self/task/{thread.native_id}/schedstat")
    return int(path.read_text(encoding="ascii").split()[0]) / 1e9


@contextmanager
def open_ledger_database(on_postgresql: bool) -> Iterator[Database]:
    server = PostgresServer() if on_postgresql else None
    try:
        with tempfile.TemporaryDirectory(prefix="gate-bench-") as folder:
            database = open_database(Path(folder), server.create("bench") if server else "")
            yield database
            database.close()
    finally:
        if server is not None:
            server.close()


def run(database: Database, options: argparse.Namespace) -> dict[str, float]:
    """Return the CPU seconds of all rounds by part. The first round is not measured."""
    metrics = Metrics()
    metrics.set_known_names(models=["gpt"], providers=["openai"])
    metrics.defer(True)
    ledger = Ledger(database, database.data_dir, LedgerConfig(), metrics.ledger)
    ledger.start()
    with open(os.devnull, "w", encoding="utf-8") as stream:
        installed = logs.configure("info", options.format, ["a-secret-of-an-upstream"], stream=stream)
        gate = SimpleNamespace(metrics=metrics, ledger=ledger, admission=None)
        config = SimpleNamespace(server=SimpleNamespace(access_log=True, trusted_proxies=()))
        snapshot = SimpleNamespace(prices=None, config=config)
        used = {"loop": 0.0, "counters": 0.0}
        for number in range(options.rounds + 1):
            if number == 1:
                used, before = {"loop": 0.0, "counters": 0.0}, read_cpu_times()
            requests = [make_ended_request(gate, snapshot) for _ in range(REQUESTS)]
            begin = time.thread_time()
            for ended in requests:
                record_request(ended)
            recorded = time.thread_time()
            metrics.flush()
            used["loop"] += recorded - begin
            used["counters"] += time.thread_time() - recorded
            ledger.flush()
            time.sleep(SETTLE_SECONDS)
        used |= {name: seconds - before[name] for name, seconds in read_cpu_times().items()}
        installed.close()
        asyncio.run(ledger.close())
    return used


def main(options: argparse.Namespace) -> None:
    reduce_garbage_collection()
    with open_ledger_database(options.postgresql) as database:
        used = run(database, options)
    for name, seconds in used.items():
        print(f"{name:10}{seconds / options.rounds / REQUESTS * 1e6:6.1f} µs")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Measure what is recorded of a request.")
    parser.add_argument("--format", choices=("json", "text"), default="json")
    parser.add_argument("--postgresql", action="store_true")
    parser.add_argument("--rounds", type=int, default=12)
    main(parser.parse_args())
