"""File descriptors: raises the limit of the process, and divides them between callers and everything else."""

from __future__ import annotations

import logging
import resource

from tornado_gate.http.server.front import BACKLOG

log = logging.getLogger(__name__)

MOST_DESCRIPTORS = 1_048_576
"""The limit is not raised beyond this: some systems have a hard limit of a billion."""


def raise_limit() -> int:
    """Raise the soft limit of open files of this process to its hard limit. Returns the limit that applies."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MOST_DESCRIPTORS)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return MOST_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (ValueError, OSError) as error:
        log.warning("the limit of open files stays at %d: %s. Raise it with: ulimit -n", soft, error)
        return soft
    log.info("limit of open files raised from %d to %d", soft, wanted)
    return wanted


def limit_connections(wanted: int, descriptors: int) -> int:
    """The number of callers' connections for this limit of descriptors: at most half of them, without those of a full
    listening queue, which may be accepted before those beyond the limit are closed.

    The other half is for connections to upstreams, of which each request needs one, and for stores and files. Logs when this is
    less than `wanted`.
    """
    possible = max(1, descriptors // 8, (descriptors - BACKLOG) // 2)
    if possible < wanted:
        log.info(
            "at most %d connections of callers are accepted instead of %d (server.max_connections), because the process may open"
            " only %d files. Raise the hard limit of open files (ulimit -Hn, or LimitNOFILE of systemd).",
            possible,
            wanted,
            descriptors,
        )
    return min(possible, wanted)
