"""Run a command with the system calls of a service unit only: ``confine.py NAMES COMMAND …``; NAMES has one name in each line.

Needs only pyseccomp. Other calls fail with EPERM, as by ``SystemCallErrorNumber=EPERM``.
"""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

import pyseccomp  # type: ignore[import-not-found]


def main() -> None:
    names, *command = sys.argv[1:]
    calls = pyseccomp.SyscallFilter(pyseccomp.ERRNO(errno.EPERM))
    for name in Path(names).read_text(encoding="ascii").split():
        try:
            calls.add_rule(pyseccomp.ALLOW, name)
        except (OSError, ValueError):
            continue  # a call of another kind of machine
    calls.load()
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
