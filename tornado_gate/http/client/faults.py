"""What can go wrong between us and an upstream, the same for every client."""

from __future__ import annotations


class HttpClientError(Exception):
    """An exchange that failed."""


class ConnectError(HttpClientError):
    """No connection came about, so the other side surely has nothing of the request: no such host, refused, bad TLS."""


class ConnectTimeout(ConnectError):
    """The same, because the time for connecting was over."""


class ConnectionBroken(HttpClientError):
    """The connection ended, or was ended, before the answer did. `unanswered`: not one byte of an answer had come."""

    def __init__(self, reason: str, *, unanswered: bool = False) -> None:
        super().__init__(reason)
        self.unanswered = unanswered


class MalformedResponse(HttpClientError):
    """The other side does not speak HTTP/1.1 well enough to know where its answer ends."""
