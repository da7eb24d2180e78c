"""Exceptions of the HTTP clients; all clients raise the same."""

from __future__ import annotations


class HttpClientError(Exception):
    """Base class: an exchange failed."""


class ConnectError(HttpClientError):
    """No connection was established, so nothing of the request was sent: unknown host, refused, TLS error."""


class ConnectTimeout(ConnectError):
    """No connection was established within the connect timeout."""


class ConnectionBroken(HttpClientError):
    """The connection ended before the response was complete. `unanswered`: no byte of a response had arrived."""

    def __init__(self, reason: str, *, unanswered: bool = False) -> None:
        super().__init__(reason)
        self.unanswered = unanswered


class MalformedResponse(HttpClientError):
    """The response violates HTTP/1.1, so its end cannot be determined."""
