"""Exceptions of the HTTP clients; all clients raise the same."""

from __future__ import annotations


class HttpClientError(Exception):
    """Base class: an exchange failed."""


class ConnectError(HttpClientError):
    """No connection was established, so no part of the request was sent: unknown host, refused, TLS error."""


class ConnectTimeout(ConnectError):
    """No connection was established within the connect timeout."""


class ConnectionBroken(HttpClientError):
    """The connection ended before the response was complete.

    `unanswered`: no byte of a response had arrived. `unsent`: and the request had not been sent completely.
    """

    def __init__(self, reason: str, *, unanswered: bool = False, unsent: bool = False) -> None:
        super().__init__(reason)
        self.unanswered = unanswered
        self.unsent = unsent


class MalformedResponse(HttpClientError):
    """The response violates HTTP/1.1, so its end cannot be determined."""


class ResponseTooLarge(HttpClientError):
    """The body, after decompression, is larger than the bound `key` of the configuration: `most` bytes."""

    def __init__(self, most: int, key: str) -> None:
        super().__init__(f"the response is larger than {key} ({most} bytes)")
        self.most = most
        self.key = key


class CompressionTooHigh(HttpClientError):
    """The body grows by more than the allowed factor when it is decompressed."""
