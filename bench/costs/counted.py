"""Runs the gateway's command and counts what its main thread executes for each request. Used by bench/costs/measure.py.

Usage: python -m bench.costs.counted FOLDER -- ARGUMENTS OF tornado-gate. SIGRTMIN begins counting, SIGRTMIN+1 ends it. Each creates
a file in FOLDER: `begun`, and `counts.json` with the sums at the beginning of each request. (SIGUSR1 and SIGUSR2 are the gateway's.)

A request begins when the event loop calls `data_received` with data that begins as a request does. This is a method of
asyncio.Protocol, so it is independent of the gateway's own functions.
"""

from __future__ import annotations

import dis
import json
import os
import random
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from tornado_gate.cli import main

REQUEST = b"POST /"
RESUME = dis.opmap.get("RESUME", -1)
IS_COROUTINE = 0x80  # inspect.CO_COROUTINE


class Counter:
    """The sums of bytecodes, Python calls, C calls and created coroutines, and their values at the beginning of each request."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._bytecodes = self._calls = self._c_calls = self._coroutines = 0
        self._beginnings: list[tuple[int, ...]] = []

    def begin(self, *_: Any) -> None:
        self.__init__(self._folder)  # type: ignore[misc]
        sys.setprofile(self._profile)
        sys.settrace(self._trace)
        self._write("begun", [])

    def end(self, *_: Any) -> None:
        sys.settrace(None)
        sys.setprofile(None)
        self._write("counts.json", self._beginnings)

    def _write(self, name: str, value: Any) -> None:
        draft = self._folder / "draft"
        draft.write_text(json.dumps(value), encoding="ascii")
        os.replace(draft, self._folder / name)

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Called at each call of a Python function and each resumption of a coroutine or generator."""
        if frame.f_code.co_name == "data_received" and is_beginning(frame):
            self._beginnings.append((self._bytecodes, self._calls, self._c_calls, self._coroutines))
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._trace_opcode

    def _trace_opcode(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "opcode":
            self._bytecodes += 1
        return self._trace_opcode

    def _profile(self, frame: FrameType, event: str, argument: Any) -> None:
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
    return isinstance(data, bytes) and data.startswith(REQUEST) and (caller is None or caller.f_code.co_name != "data_received")


def is_first_step(frame: FrameType) -> bool:
    """Return whether a coroutine begins, instead of continuing after an await."""
    code, index = frame.f_code.co_code, frame.f_lasti
    return code[index] == RESUME and code[index + 1] == 0


if __name__ == "__main__":
    counter = Counter(Path(sys.argv[1]))
    sys.argv = ["tornado-gate", *sys.argv[3:]]
    random.seed(0)
    signal.signal(signal.SIGRTMIN, counter.begin)
    signal.signal(signal.SIGRTMIN + 1, counter.end)
    main()
