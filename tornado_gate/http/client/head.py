"""Parts of a response's head: names of headers, and the idle time of a connection."""

from __future__ import annotations

import re

IDLE_SECONDS = 30.0
"""An idle connection is not reused after this time."""

_KEEP_ALIVE_TIMEOUT = re.compile(r"(?i)\btimeout\s*=\s*\"?(\d{1,9})")

_MAX_HEADER_NAMES = 512


class _HeaderNames(dict[bytes, str]):
    """Names of headers in lower case, by the name as received. A bounded cache."""

    def __missing__(self, raw_name: bytes) -> str:
        name = raw_name.decode("latin-1").lower()
        if len(self) < _MAX_HEADER_NAMES and len(raw_name) < 64:
            self[raw_name] = name
        return name


HEADER_NAMES = _HeaderNames()


def parse_idle_seconds(value: str) -> float:
    """Return the idle time of a connection in the header Keep-Alive (RFC 2068 19.7.1.1; Node and Apache send it).

    It is a second less than the upstream announces: a request that is on its way when the upstream closes is lost.
    """
    match = _KEEP_ALIVE_TIMEOUT.search(value)
    return IDLE_SECONDS if match is None else min(IDLE_SECONDS, max(0.0, int(match[1]) - 1))


def announces_body(headers: dict[str, str]) -> bool:
    """Return whether a 204 announces a body, which is forbidden but may still follow (RFC 9110 15.3.5)."""
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
