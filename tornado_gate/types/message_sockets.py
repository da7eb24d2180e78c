"""Routes that are served over HTTP and also over WebSocket: each message of the client is one request of the route.

The core reads the messages and responds to them (`server/handlers/message_session.py`). A request passes the same checks, limits
and steps as over HTTP, with a streamed response, and each event of the stream becomes one message. A format supplies the adapter
that translates the messages. An adapter belongs to one connection and does no I/O.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Protocol

from tornado_gate.errors import GateError


class SocketRequest(Protocol):
    """A message of the client that is a request. Its methods are called in the order in which they stand here.

    `lane`: requests of one lane run one after the other, requests of different lanes at the same time. `size`: about the length
    of the body in bytes; a large one is made in a thread. `only_checked`: the request is checked as usual, but no provider is
    called, and `render_checked` returns the response.
    """

    @property
    def lane(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def only_checked(self) -> bool: ...

    def make_body(self) -> bytes:
        """Return the JSON body of the request, which must request a stream. Raises GateError.

        Called when the earlier requests of the lane have ended.
        """

    def render_checked(self, model: str) -> AsyncIterator[bytes]:
        """Return the server-sent events of the response to a request that was only checked."""

    def begin(self, headers: Mapping[str, str]) -> None:
        """Begin the response. `headers` are the gateway's headers, with lower-case names: request id, dropped fields, limits."""

    def render_event(self, data: bytes) -> str | None:
        """Return the message for the data of one event of the response, or None for no message."""

    def render_error(self, status: int, body: bytes, headers: Mapping[str, str]) -> str:
        """Return the message for an error instead of a response; `body` is the error body that the format renders for HTTP."""


class MessageAdapter(Protocol):
    """A translator between the messages of one connection and requests of its route."""

    def read_message(self, body: Mapping[str, Any], raw: bytes) -> SocketRequest | str:
        """Return the request in a message of the client, or a text to send immediately ("" for none).

        `body` is the parsed message, `raw` its text. Raises GateError, which is sent with `render_error`.
        """

    def render_error(self, error: GateError) -> str:
        """Return the message for an error that belongs to no request."""

    def render_expiry(self, minutes: float) -> str:
        """Return the last message of a connection that has reached its maximum age."""

    def close(self) -> None:
        """Release the memory of the closed connection."""


KeepBytes = Callable[[int], Callable[[], None] | None]
"""Counts bytes that an adapter keeps for its connection against the account's share of memory. Returns the function that releases
them, or None if the share is used up, so that they must not be kept.
"""

OpenMessageSocket = Callable[[Any, KeepBytes], MessageAdapter]
"""Returns the adapter of a new connection. The first argument is the `Call` of the handshake, without a model."""
