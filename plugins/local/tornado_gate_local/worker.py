"""The main loop of a worker process: reads jobs from standard input, one at a time, until the input ends.

A frame is eight bytes of length, big-endian, and a pickle. In: ``(function, args, named)``. Out: any number of
``("progress", value)``, then ``("done", result)``, ``("refused", InvalidArgument)`` or ``("failed", traceback text)``.
Both ends are processes of this plugin and the pipe is private; pickles from other sources are never read.
"""

from __future__ import annotations

import os
import pickle
import signal
import struct
import traceback
from collections.abc import Callable
from io import FileIO
from typing import Any

from tornado_gate_local.errors import InvalidArgument

FRAME_LENGTH = struct.Struct(">Q")
NICENESS = 5  # the gateway's event loop has priority

_answers: list[FileIO] = []  # the output pipe; empty in a process that is not a worker


def main() -> None:
    """Run jobs until the input ends; it also ends when the gateway process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICENESS)
    jobs = FileIO(0, "rb", closefd=False)
    answers = FileIO(os.dup(1), "wb")
    _answers.append(answers)
    os.dup2(2, 1)  # a library that prints must not write into the output pipe
    try:
        while True:
            send(answers, _answer(*receive_value(jobs)))
    except (EOFError, OSError):
        return


def _answer(function: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> bytes:
    try:
        return pickle.dumps(("done", function(*args, **named)), protocol=5)
    except InvalidArgument as error:
        return pickle.dumps(("refused", error))
    except Exception:
        return pickle.dumps(("failed", traceback.format_exc()))


def report_progress(value: float) -> None:
    """Report the progress of the running job, from 0 to 1. No effect outside a worker process."""
    for answers in _answers:
        send(answers, pickle.dumps(("progress", value)))


def send(pipe: FileIO, content: bytes) -> None:
    """Write a whole frame. Raises OSError when the other end is closed."""
    for piece in (FRAME_LENGTH.pack(len(content)), content):
        rest = memoryview(piece)
        while rest:
            rest = rest[pipe.write(rest) or 0 :]


def receive_value(pipe: FileIO) -> Any:
    """The value of the next frame. Raises EOFError when the other end is closed."""
    (length,) = FRAME_LENGTH.unpack(_read_exactly(pipe, FRAME_LENGTH.size))
    return pickle.loads(_read_exactly(pipe, length))


def _read_exactly(pipe: FileIO, length: int) -> bytearray:
    content = bytearray(length)
    view = memoryview(content)
    while view:
        count = pipe.readinto(view)
        if not count:
            raise EOFError
        view = view[count:]
    return content
