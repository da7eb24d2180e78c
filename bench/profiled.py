"""Runs the gateway's command under a profiler. Used by bench/profiling.py.

Usage: python -m bench.profiled cprofile|sample FILE -- ARGUMENTS OF tornado-gate. Profiling begins at SIGRTMIN, so the start is
excluded (SIGUSR1 and SIGUSR2 are the gateway's own). The result is written to FILE when the command ends: cProfile statistics,
or collapsed stacks for flame graphs, one per line ("outer;inner;innermost COUNT"). Samples are taken by CPU time (ITIMER_PROF),
at each tick of the kernel's clock: every 1 to 10 ms.
"""

from __future__ import annotations

import cProfile
import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Protocol

SAMPLE_SECONDS = 0.001
MAX_STACK_DEPTH = 200


class Profiler(Protocol):
    def begin(self) -> None: ...

    def end(self, file: Path) -> None: ...


class CallProfiler:
    """Records every call with cProfile: exact counts, with about a microsecond of overhead each."""

    def __init__(self) -> None:
        self._profile = cProfile.Profile()

    def begin(self) -> None:
        self._profile.enable()

    def end(self, file: Path) -> None:
        self._profile.disable()
        self._profile.dump_stats(file)


class SampleProfiler:
    """Samples the main thread's stack some hundred times per second of CPU time, with negligible overhead."""

    def __init__(self) -> None:
        self._stacks: Counter[str] = Counter()

    def begin(self) -> None:
        signal.signal(signal.SIGPROF, self._record_sample)
        signal.setitimer(signal.ITIMER_PROF, SAMPLE_SECONDS, SAMPLE_SECONDS)

    def _record_sample(self, number: int, frame: FrameType | None) -> None:
        names: list[str] = []
        while frame is not None and len(names) < MAX_STACK_DEPTH:
            code = frame.f_code
            names.append(f"{frame.f_globals.get('__name__', '?')}:{code.co_qualname}".replace(";", ","))
            frame = frame.f_back
        self._stacks[";".join(reversed(names))] += 1

    def end(self, file: Path) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        file.write_text("".join(f"{stack} {count}\n" for stack, count in self._stacks.most_common()), encoding="utf-8")


def main(how: str, file: Path, arguments: list[str]) -> None:
    from tornado_gate.cli import main as command

    watcher: Profiler = CallProfiler() if how == "cprofile" else SampleProfiler()
    signal.signal(signal.SIGRTMIN, lambda number, frame: watcher.begin())
    sys.argv = ["tornado-gate", *arguments]
    try:
        command()
    finally:
        watcher.end(file)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[4:])
