"""Routes that are served over HTTP and also over WebSocket: each message of the client is one request of the route.

The core reads and answers the messages (`server/handlers/message_session.py`): a request runs through the same checks, limits
and steps as over HTTP, with a streamed reply, and each event of the stream becomes one message. A format supplies the adapter
that knows what messages look like. An adapter belongs to one connection and does no I/O.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Protocol

from tornado_gate.errors import GateError


class SocketRequest(Protocol):
    """One message of the client that is a request. Its methods are called in the order in which they stand here.

    `lane`: requests of one lane are answered one after the other, those of different lanes at the same time. `size`: about the
    length of the body in bytes; a large one is made in a thread. `only_checked`: the request is checked as usual, but no
    provider is called, and `render_checked` returns the reply.
    """

    @property
    def lane(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def only_checked(self) -> bool: ...

    def make_body(self) -> bytes:
        """Return the JSON body of the request, which must ask for a streamed reply. Raises GateError.

        Called when the earlier requests of the lane have ended.
        """

    def render_checked(self, model: str) -> AsyncIterator[bytes]:
        """Return the server-sent events of the reply to a request that was only checked."""

    def begin(self, headers: Mapping[str, str]) -> None:
        """The reply begins. `headers` are those of the gateway, with lower-case names: request id, dropped fields, limits."""

    def render_event(self, data: bytes) -> str | None:
        """Return the message for the data of one event of the reply, or None for no message."""

    def render_error(self, status: int, body: bytes, headers: Mapping[str, str]) -> str:
        """Return the message for an error instead of a reply; `body` is the error body that the format renders for HTTP."""


class MessageAdapter(Protocol):
    """Translates between the messages of one connection and requests of its route."""

    def read_message(self, body: Mapping[str, Any], raw: bytes) -> SocketRequest | str:
        """Return the request in a message of the client, or a text to send at once ("" for none).

        `body` is the parsed message, `raw` its text. Raises GateError, which is sent with `render_error`.
        """

    def render_error(self, error: GateError) -> str:
        """Return the message for an error that belongs to no request."""

    def render_expiry(self, minutes: float) -> str:
        """Return the last message of a connection that has been open for as long as it may."""

    def close(self) -> None:
        """The connection is closed: release what is kept for it."""


KeepBytes = Callable[[int], Callable[[], None] | None]
"""Counts bytes that an adapter keeps for its connection against the account's share of memory. Returns the function that
releases them, or None if they must not be kept because the share is used up."""

OpenMessageSocket = Callable[[Any, KeepBytes], MessageAdapter]
"""Returns the adapter of a new connection. The first argument is the `Call` of the handshake, without a model."""
