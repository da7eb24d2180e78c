"""File descriptors: the limit of the process, and its division between callers and everything else."""

from __future__ import annotations

import logging
import resource

from tornado_gate.http.server.front import BACKLOG

log = logging.getLogger(__name__)

MOST_DESCRIPTORS = 1_048_576
"""The maximum to which the limit is raised: some systems have a hard limit of a billion."""


def raise_limit() -> int:
    """Raise the soft limit of open files of this process to its hard limit. Return the resulting limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MOST_DESCRIPTORS)
    if soft == resource.RLIM_INFINITY or soft >= target:
        return MOST_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
    except (ValueError, OSError) as error:
        log.warning("the limit of open files stays at %d: %s. Raise it with: ulimit -n", soft, error)
        return soft
    log.info("limit of open files raised from %d to %d", soft, target)
    return target


def limit_connections(requested: int, descriptors: int) -> int:
    """Return the number of callers' connections for this limit of descriptors.

    It is at most half of the limit, without the connections of a full listening queue, which may be accepted before excess
    connections are closed. The other half is for stores, files and connections to upstreams, because each request needs one. Logs
    when the result is less than `requested`.
    """
    possible = max(1, descriptors // 8, (descriptors - BACKLOG) // 2)
    if possible < requested:
        log.info(
            "at most %d connections of callers are accepted instead of %d (server.max_connections), because the process may open"
            " only %d files. Raise the hard limit of open files (ulimit -Hn, or LimitNOFILE of systemd).",
            possible,
            requested,
            descriptors,
        )
    return min(possible, requested)
