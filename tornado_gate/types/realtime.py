"""Realtime sessions: voice conversations over a WebSocket, with JSON text messages in both directions.

The wire format has two dialects: "beta" of the gateway's contract (``response.audio.delta``, ``modalities``), and "current" of
the vendor's SDKs (``response.output_audio.delta``, ``session.type``). The core translates between them if caller and upstream use
different ones (`tornado_gate_openai.wire.realtime`); a provider's `Socket` declares its dialect.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol

from tornado_gate.errors import GateError
from tornado_gate.types.common_request import CommonRequest
from tornado_gate.types.media_requests import MediaRequest
from tornado_gate.types.value import Value, field

RealtimeDialect = Literal["beta", "current"]


class RealtimeRequest(MediaRequest, frozen=True, kw_only=True):
    """A request for a session with `model`.

    `dialect` is the caller's; `session` holds the session settings that a client secret fixes.
    """

    dialect: RealtimeDialect = "current"
    session: Mapping[str, Any] = field(default_factory=dict)


class Socket(Protocol):
    """A realtime connection to an upstream, as `open_socket` returns it. Messages are JSON texts in the `dialect` of the
    upstream.

    `send` returns when the connection accepts more data (back-pressure). `receive` returns the next message, or None after the
    peer has closed the connection; `close_code` and `close_reason` are set then. Both raise UpstreamError if the connection is
    lost.
    """

    @property
    def dialect(self) -> RealtimeDialect: ...
    @property
    def close_code(self) -> int | None: ...
    @property
    def close_reason(self) -> str: ...

    async def send(self, text: str) -> None: ...
    async def receive(self) -> str | None: ...
    async def close(self, code: int = 1000, reason: str = "") -> None: ...


class RealtimeAdapter(Protocol):
    """A translator between the caller's and the upstream's messages of one session; a format's `open_session` returns it.

    `request` is the request for the provider, `subprotocol` the WebSocket subprotocol that the handshake selects ("" for none).
    `translate_client_message` and `translate_server_message` take one message and return the messages to forward, often the same
    text; `translate_client_message` raises InvalidField for an invalid message.
    """

    @property
    def request(self) -> RealtimeRequest: ...
    @property
    def subprotocol(self) -> str: ...

    def set_upstream_dialect(self, dialect: RealtimeDialect) -> None:
        """Set the provider's dialect; called before the first message."""

    def translate_client_message(self, text: str) -> list[str]: ...
    def translate_server_message(self, text: str) -> list[str]:
        """Translate one message of the upstream, and record its usage on the call's meter."""

    def render_error(self, error: GateError, event_id: str = "") -> str:
        """Return the error message for the caller; `event_id` is the id of the caller's message that caused the error."""


class ClientSecretRequest(CommonRequest, frozen=True, kw_only=True):
    """A request for a short-lived key of a browser client, which may only open realtime sessions with `model`.

    `seconds` is the key's lifetime; `session` holds settings of the session that the client cannot change.
    """

    seconds: int
    model: str
    session: Mapping[str, Any] = field(default_factory=dict)


class ClientSecret(Value, frozen=True, kw_only=True):
    """A short-lived key (`value`) for `model`, with the settings of the `session`. `expires_at` is Unix seconds."""

    value: str
    expires_at: int
    model: str
    session: Mapping[str, Any] = field(default_factory=dict)

    hidden_fields = frozenset({"value"})
