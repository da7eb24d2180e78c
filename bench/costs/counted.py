"""Runs the gateway's command and counts what its main thread executes for each request. Used by bench/costs/measure.py.

Usage: python -m bench.costs.counted FOLDER -- ARGUMENTS OF tornado-gate. Signals control it; a file in FOLDER confirms each:

- SIGRTMIN begins to count.
- SIGRTMIN+1 ends the requests, and runs the timers that fired meanwhile.
- SIGRTMIN+2 ends the timers. Its file has the sums at the beginning of each request and at the other two signals.

(SIGUSR1 and SIGUSR2 are the gateway's own.) A request begins when the event loop calls `data_received` with data that begins as a
request does. This is a method of asyncio.Protocol, so it is independent of the gateway's own functions.

Nothing that is counted may depend on the speed of the machine. So from the first to the last signal the clocks of Python stand
still: they decide in which bucket of a histogram or slot of a timer wheel a value is. Timers that fire wait for SIGRTMIN+1.
Threads that wait for a time, such as the writers of batches, wait for a notification.
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
import threading
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tracemalloc import get_traced_memory
from types import CodeType, FrameType
from typing import Any

import uvloop

from tornado_gate.cli import main

REQUEST = b"POST /"
RESUME = dis.opmap.get("RESUME", -1)
IS_COROUTINE = 0x80  # inspect.CO_COROUTINE
CLOCKS = ("time", "monotonic", "perf_counter", "time_ns", "monotonic_ns", "perf_counter_ns")
HOUR_SECONDS = 3600.0


class StoppableClocks:
    """The clocks of Python and of the loop. After a stop they go on from the same time, so that nobody sees a long delay.

    A stopped clock is a C function that returns the time, so that no bytecode is added. `conjugate` counts as a C call, as a
    clock does; `__next__` does not count, as the time of a loop does not.
    """

    def __init__(self) -> None:
        self._clocks = {name: getattr(time, name) for name in CLOCKS}
        self._stopped_at = dict.fromkeys(CLOCKS, 0)
        self._lost = dict.fromkeys(CLOCKS, 0)

    def stop(self) -> None:
        uvloop.Loop.time = itertools.repeat(asyncio.get_running_loop().time()).__next__  # type: ignore[method-assign,assignment]
        for name, clock in self._clocks.items():
            self._stopped_at[name] = clock()
            setattr(time, name, (self._stopped_at[name] - self._lost[name]).conjugate)

    def start(self) -> None:
        for name, clock in self._clocks.items():
            self._lost[name] += clock() - self._stopped_at[name]
            setattr(time, name, partial(self._read, name))
        uvloop.Loop.time = staticmethod(time.monotonic)  # type: ignore[method-assign,assignment]

    def _read(self, name: str) -> float:
        now: float = self._clocks[name]() - self._lost[name]
        return now


class ParkedTimers:
    """The timers that have fired while `is_parking`. Its own functions are in `uncounted`."""

    def __init__(self) -> None:
        self.is_parking = False
        self.uncounted: set[CodeType] = set()
        self._parked: list[Callable[[], None]] = []

    def install(self) -> None:
        self._replace_call_later()
        self._replace_wait()

    def _replace_wait(self) -> None:
        """Let threads that wait for a time wait for a notification, so that batches do not depend on the speed."""
        wait = threading.Condition.wait

        def wait_longer(condition: threading.Condition, timeout: float | None = None) -> bool:
            return wait(condition, HOUR_SECONDS if timeout is not None and self.is_parking else timeout)

        threading.Condition.wait = wait_longer  # type: ignore[method-assign,assignment]

    def _replace_call_later(self) -> None:
        """Replace `call_later` of the loop, which its `call_at` calls too."""
        start_timer = uvloop.Loop.call_later

        def call_later(
            loop: uvloop.Loop,
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
    """The sums of bytecodes, Python calls, C calls, created coroutines and allocated bytes.

    A bytecode has allocated what Python's allocators hold more after it than before it. So a copy of a body counts with its size,
    even if it is freed soon.
    """

    def __init__(self, folder: Path, timers: ParkedTimers) -> None:
        self._folder = folder
        self._timers = timers
        self._clocks = StoppableClocks()
        self._uncounted = timers.uncounted
        self._bytecodes = self._calls = self._c_calls = self._coroutines = self._allocated = self._held = 0
        self._sums: list[tuple[int, ...]] = []

    def begin(self, *_: Any) -> None:
        self._sums = []
        self._clocks.stop()
        self._timers.is_parking = True
        tracemalloc.start()
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
        tracemalloc.stop()
        self._note_sums()
        self._timers.is_parking = False
        self._clocks.start()
        self._timers.run()
        self._confirm("ended")

    def _note_sums(self) -> None:
        self._sums.append((self._bytecodes, self._calls, self._c_calls, self._coroutines, self._allocated))

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
            held, _ = get_traced_memory()
            if held > self._held:
                self._allocated += held - self._held
            self._held = held
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
