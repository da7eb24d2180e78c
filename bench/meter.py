"""What processes use: CPU time, memory, room on the disk. Everything of a process is that of all below it, too."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

PAGE_KB = os.sysconf("SC_PAGE_SIZE") // 1024


def list_process_tree(process: int) -> list[int]:
    """A process and all below it; nothing for one that is gone."""
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
        except OSError:  # it has ended since
            continue
    return used


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Kilobytes: resident, and with what is shared divided among those who share it."""

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
    """What the files below a folder take on the disk, each inode once, symbolic links not followed."""
    seen: set[int] = set()
    total = 0
    for path in folder.rglob("*"):
        status = path.lstat()
        if status.st_ino not in seen:
            seen.add(status.st_ino)
            total += status.st_blocks * 512
    return total / 1e6
