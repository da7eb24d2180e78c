"""Resource usage of processes: CPU time, memory, disk space. Values include all child processes."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

PAGE_KB = os.sysconf("SC_PAGE_SIZE") // 1024


def list_process_tree(process: int) -> list[int]:
    """Return a process and its descendants; nothing if it has ended."""
    try:
        tasks = list(Path(f"/proc/{process}/task").iterdir())
        children = [int(one) for task in tasks for one in (task / "children").read_text(encoding="ascii").split()]
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [process, *(one for child in children for one in list_process_tree(child))]


def read_cpu_seconds(process: int) -> float:
    """User and system time. Source: clock_getcpuclockid(3); nanoseconds, where /proc/PID/stat has hundredths of a second."""
    used = 0.0
    for one in list_process_tree(process):
        try:
            used += time.clock_gettime((~one << 3) | 2)  # CPUCLOCK_SCHED of a whole process: linux/posix-timers.h
        except OSError:  # it has just ended
            continue
    return used


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Memory in kilobytes: resident (RSS), and with shared pages divided among their users (PSS)."""

    rss: int
    pss: int


def read_memory(process: int) -> MemoryUse:
    rss = pss = 0
    for one in list_process_tree(process):
        try:
            rss += int(Path(f"/proc/{one}/statm").read_text(encoding="ascii").split()[1]) * PAGE_KB
            rollup = Path(f"/proc/{one}/smaps_rollup").read_text(encoding="ascii")
        except (FileNotFoundError, ProcessLookupError):
            continue
        pss += int(rollup.partition("\nPss:")[2].split()[0])
    return MemoryUse(rss, pss)


def measure_folder_megabytes(folder: Path) -> float:
    """Return the disk space of the files in a folder, each inode once, without following symbolic links."""
    seen: set[int] = set()
    total = 0
    for path in folder.rglob("*"):
        status = path.lstat()
        if status.st_ino not in seen:
            seen.add(status.st_ino)
            total += status.st_blocks * 512
    return total / 1e6
