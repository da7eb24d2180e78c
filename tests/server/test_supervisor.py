"""The supervisor of several processes, with processes that crash or hang. Each test has a supervisor in a process of its own."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.support.process import Child

PROGRAM = """
import logging, os, signal, socket, sys, time
from pathlib import Path
from tornado_gate.server.process import supervisor
from tornado_gate.server.process.listeners import Listeners
from tornado_gate.telemetry.metrics import Metrics
from tornado_gate.telemetry.metrics_folder import prepare_folder

logging.basicConfig(level="INFO", format="%(message)s", stream=sys.stdout)
supervisor.MARGIN_SECONDS = 0.2
supervisor.FIRST_PAUSE = 0.01
supervisor.STEADY_SECONDS = float(sys.argv[2])
folder = prepare_folder(Path(sys.argv[3]))
board = supervisor.Board(0.1)
listener = socket.create_server(("127.0.0.1", 0))

def crash(told):
    if board.is_crash_loop:
        told()
        print("serving in a crash loop", flush=True)
        while board.is_crash_loop:
            time.sleep(0.01)
        text = Metrics().render()[0].decode()
        print([line for line in text.splitlines() if line.startswith("tornado_gate_process_restarts_total")], flush=True)
        signal.pause()
    os._exit(3)

def hang(told):
    signal.signal(supervisor.STOP, signal.SIG_IGN)
    told()
    signal.pause()

def serve(told):
    told()
    print(f"child {os.getpid()}", flush=True)
    os.read(board.life, 1)
    print("the supervisor is gone", flush=True)

run = supervisor.Supervisor(
    1, globals()[sys.argv[1]], listeners=Listeners(http=(listener,)), flush=lambda: None, board=board
)
run.run(lambda: print("all serve", flush=True))
"""


def start(kind: str, folder: Path, steady_seconds: float = 10) -> Child:
    return Child([sys.executable, "-c", PROGRAM, kind, str(steady_seconds), str(folder / "metrics")])


def test_a_crash_loop_is_said_counted_and_over_when_the_processes_run(tmp_path: Path) -> None:
    child = start("crash", tmp_path, 0.5)
    for pause in (0, 0, 0):
        child.wait_for_line(rf"ended with exit code 3 after 0\.\d s; it is replaced in {pause} s")
    child.wait_for_line("3 processes ended soon after their start: /readyz is 503")
    child.wait_for_line("serving in a crash loop")
    child.wait_for_line("all 1 processes run")
    assert child.wait_for_line(r"process_restarts_total \d+\.0")[0] == "process_restarts_total 3.0"
    child.stop()
    assert child.process.returncode == 0


def test_a_process_that_does_not_stop_is_killed(tmp_path: Path) -> None:
    child = start("hang", tmp_path)
    child.wait_for_line("all serve")
    child.process.terminate()
    child.wait_for_line(r"process \d+ did not stop in time and is killed")
    assert child.process.wait(60) == 0


def test_no_process_outlives_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    child = start("serve", tmp_path)
    child.wait_for_line("all serve")
    os.kill(child.process.pid, signal.SIGKILL)
    child.wait_for_line("the supervisor is gone")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_for_the_group_reaches_the_processes_once(tmp_path: Path, number: int) -> None:
    """They ignore it: what the supervisor forwards would be a second one."""
    child = start("serve", tmp_path)
    process = int(child.wait_for_line(r"child (\d+)")[1])
    os.kill(process, number)
    status = Path(f"/proc/{process}/status").read_text()
    ignored = int(status.split("SigIgn:")[1].split()[0], 16)
    assert ignored & 1 << (number - 1)
    child.stop()
