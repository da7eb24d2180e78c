"""The command ``tornado-gate`` with a probe in its event loop, for bench/stalls.py.

Usage: python -m bench.probed FILE ARGUMENT ... FILE holds 16 bytes, which are mapped into memory: the longest time in seconds
between two ticks of a timer, and the longest CPU time of the process between two ticks, both less the interval. The smaller of
the two of a tick is what the gateway itself has caused: other processes of the machine delay a tick without CPU time of this
one, and other threads of this one use CPU time without a late tick. With STALL_TRACES=FILE the stacks of stalls are written
there, by faulthandler, which may crash the process.
"""

from __future__ import annotations

import asyncio
import faulthandler
import mmap
import os
import struct
import sys
import time
from pathlib import Path
from typing import Any

from tornado_gate.cli import main
from tornado_gate.telemetry import loop_lag

INTERVAL_SECONDS = 0.002
TRACED_SECONDS = 0.045


class Probe:
    """Ticks in the event loop and keeps the longest stall in shared memory; whoever measures sets it to 0."""

    def __init__(self, path: Path) -> None:
        self._memory = mmap.mmap(os.open(path, os.O_RDWR), 16)
        traces = os.environ.get("STALL_TRACES")
        self._traces = open(traces, "a", encoding="utf-8") if traces else None  # noqa: SIM115  open until the process ends

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._wall, self._cpu = time.monotonic(), time.process_time()
        self._tick()

    def _tick(self) -> None:
        wall, cpu = time.monotonic(), time.process_time()
        stall = min(wall - self._wall, cpu - self._cpu) - INTERVAL_SECONDS
        late = wall - self._wall - INTERVAL_SECONDS
        longest_stall, longest_late = struct.unpack("dd", self._memory[:])
        if stall > longest_stall or late > longest_late:
            self._memory[:] = struct.pack("dd", max(stall, longest_stall), max(late, longest_late))
        self._wall, self._cpu = wall, cpu
        if self._traces is not None:
            if stall > TRACED_SECONDS:
                print(f"=== {stall * 1000:.0f} ms", file=self._traces, flush=True)
            faulthandler.dump_traceback_later(TRACED_SECONDS, file=self._traces)
        self._loop.call_later(INTERVAL_SECONDS, self._tick)


def install(probe: Probe) -> None:
    """Start the probe with the gateway's own monitor of the loop."""
    start = loop_lag.LoopLagMonitor.start

    def start_both(self: loop_lag.LoopLagMonitor, *args: Any) -> None:
        start(self, *args)
        probe.start(asyncio.get_running_loop())

    loop_lag.LoopLagMonitor.start = start_both  # type: ignore[method-assign]


if __name__ == "__main__":
    install(Probe(Path(sys.argv.pop(1))))
    main()
