"""Runs the gateway's command and counts what its main thread executes for each request. Used by bench/costs/measure.py.

Usage: python -m bench.costs.counted FOLDER -- ARGUMENTS OF tornado-gate. Signals control it; a file in FOLDER confirms each:

- SIGRTMIN begins to count.
- SIGRTMIN+1 ends the requests, and runs the timers that fired meanwhile.
- SIGRTMIN+2 ends the timers. Its file has the sums at the beginning of each request and at the other two signals.

(SIGUSR1 and SIGUSR2 are the gateway's own.) A request begins when the event loop calls `data_received` with data that begins as a
request does. This is a method of asyncio.Protocol, so it is independent of the gateway's own functions.

Nothing that is counted may depend on the speed of the machine. So from the first to the last signal the clocks of Python stand
still: they decide in which bucket of a histogram or slot of a timer wheel a value is. Timers that fire wait for SIGRTMIN+1.
"""

from __future__ import annotations

import asyncio
import contextvars
import dis
import itertools
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import uvloop

from tornado_gate.cli import main

REQUEST = b"POST /"
RESUME = dis.opmap.get("RESUME", -1)
IS_COROUTINE = 0x80  # inspect.CO_COROUTINE
CLOCKS = {
    name: getattr(time, name)
    for name in ("time", "monotonic", "perf_counter", "time_ns", "monotonic_ns", "perf_counter_ns")
}


def stop_clocks() -> None:
    """Replace the clocks by C functions that return the current time, so that no bytecode is added.

    `conjugate` counts as a C call, as a clock does. `__next__` does not count, as the time of a loop does not.
    """
    for name, clock in CLOCKS.items():
        setattr(time, name, clock().conjugate)
    uvloop.Loop.time = itertools.repeat(asyncio.get_running_loop().time()).__next__  # type: ignore[method-assign]


def start_clocks() -> None:
    for name, clock in CLOCKS.items():
        setattr(time, name, clock)
    del uvloop.Loop.time


class ParkedTimers:
    """The timers that have fired while `is_parking`. Its own functions are in `uncounted`."""

    def __init__(self) -> None:
        self.is_parking = False
        self.uncounted: set[CodeType] = set()
        self._parked: list[Callable[[], None]] = []

    def install(self) -> None:
        """Replace `call_later` of the loop, which its `call_at` calls too."""
        start_timer = uvloop.Loop.call_later

        def call_later(
            loop: asyncio.AbstractEventLoop,
            delay: float,
            callback: Callable[..., object],
            *args: Any,
            context: contextvars.Context | None = None,
        ) -> asyncio.TimerHandle:
            own = context or contextvars.copy_context()

            def fire() -> None:
                if self.is_parking:
                    self._parked.append(resume)
                else:
                    callback(*args)

            def resume() -> None:
                if not handle.cancelled():
                    loop.call_soon(callback, *args, context=own)

            self.uncounted |= {fire.__code__, resume.__code__}
            handle = start_timer(loop, delay, fire, context=own)
            return handle

        self.uncounted.add(call_later.__code__)
        uvloop.Loop.call_later = call_later  # type: ignore[method-assign,assignment]

    def run(self) -> None:
        """Run the timers in the next turn of the loop."""
        parked, self._parked[:] = list(self._parked), []
        for resume in parked:
            resume()


class Counter:
    """The sums of bytecodes, Python calls, C calls and created coroutines."""

    def __init__(self, folder: Path, timers: ParkedTimers) -> None:
        self._folder = folder
        self._timers = timers
        self._uncounted = timers.uncounted
        self._bytecodes = self._calls = self._c_calls = self._coroutines = 0
        self._sums: list[tuple[int, ...]] = []

    def begin(self, *_: Any) -> None:
        self._sums = []
        stop_clocks()
        self._timers.is_parking = True
        sys.setprofile(self._profile)
        sys.settrace(self._trace)
        self._confirm("begun")

    def end_requests(self, *_: Any) -> None:
        self._note_sums()
        self._timers.run()
        self._confirm("requested")

    def end(self, *_: Any) -> None:
        sys.settrace(None)
        sys.setprofile(None)
        self._note_sums()
        self._timers.is_parking = False
        start_clocks()
        self._timers.run()
        self._confirm("ended")

    def _note_sums(self) -> None:
        self._sums.append((self._bytecodes, self._calls, self._c_calls, self._coroutines))

    def _confirm(self, name: str) -> None:
        draft = self._folder / "draft"
        draft.write_text(json.dumps(self._sums), encoding="ascii")
        os.replace(draft, self._folder / name)

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Called at each call of a Python function, and each time that a coroutine or generator continues."""
        if frame.f_code in self._uncounted:
            return None
        if frame.f_code.co_name == "data_received" and is_beginning(frame):
            self._note_sums()
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._trace_opcode

    def _trace_opcode(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "opcode":
            self._bytecodes += 1
        return self._trace_opcode

    def _profile(self, frame: FrameType, event: str, argument: Any) -> None:
        if frame.f_code in self._uncounted:
            return
        if event == "call":
            self._calls += 1
            if frame.f_code.co_flags & IS_COROUTINE and is_first_step(frame):
                self._coroutines += 1
        elif event == "c_call":
            self._c_calls += 1


def is_beginning(frame: FrameType) -> bool:
    """Return whether a call of `data_received` has the first bytes of a request, and is not passed on by another one."""
    names = frame.f_code.co_varnames
    data = frame.f_locals.get(names[1]) if len(names) > 1 else None
    caller = frame.f_back
    is_passed_on = caller is not None and caller.f_code.co_name == "data_received"
    return isinstance(data, bytes) and data.startswith(REQUEST) and not is_passed_on


def is_first_step(frame: FrameType) -> bool:
    """Return whether a coroutine begins, instead of continuing after an await."""
    code, index = frame.f_code.co_code, frame.f_lasti
    return code[index] == RESUME and code[index + 1] == 0


if __name__ == "__main__":
    timers = ParkedTimers()
    timers.install()
    counter = Counter(Path(sys.argv[1]), timers)
    sys.argv = ["tornado-gate", *sys.argv[3:]]
    for number, handler in enumerate((counter.begin, counter.end_requests, counter.end)):
        signal.signal(signal.SIGRTMIN + number, handler)
    main()
