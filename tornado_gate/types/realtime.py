"""Realtime: a conversation by voice over a WebSocket, in JSON text messages both ways.

Two dialects of one wire format are spoken: "beta", which the service's contract shows (``response.audio.delta``, ``modalities``),
and "current", which the vendor's SDKs speak today (``response.output_audio.delta``, ``session.type``). The core translates
between the two where caller and upstream differ (`tornado_gate.wire.openai_realtime`); a provider speaks one and says which.
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
    """A session with `model`. `dialect` is the caller's; `session` what a client secret has fixed for it."""

    dialect: RealtimeDialect = "current"
    session: Mapping[str, Any] = field(default_factory=dict)


class Socket(Protocol):
    """One end of a conversation, as `open_socket` gives it. Messages are JSON texts.

    `send` returns when the other end can take more, and `receive` gives the next message, None when the other end has closed;
    then `close_code` and `close_reason` say how. Both raise UpstreamError when the connection breaks.
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
    """The caller's end of one session, as a format's `open_session` gives it: what is between the caller and the vocabulary.

    `request` is what to ask the provider for, `subprotocol` what the handshake selects ("" for none). `client` and `server`
    take one message and give those that go on, often the same text; `client` raises InvalidField for what is no event.
    """

    @property
    def request(self) -> RealtimeRequest: ...
    @property
    def subprotocol(self) -> str: ...

    def set_upstream_dialect(self, dialect: RealtimeDialect) -> None:
        """The provider speaks this dialect; called before any message."""

    def translate_client_message(self, text: str) -> list[str]: ...
    def translate_server_message(self, text: str) -> list[str]:
        """Also notes on the call's meter what an answer took."""

    def render_error(self, error: GateError, event_id: str = "") -> str:
        """The message that tells the caller of a failure; `event_id` is that of the caller's message it is about."""


class ClientSecretRequest(CommonRequest, frozen=True, kw_only=True):
    """A short-lived key for one page, which may open realtime sessions with `model` and do nothing else."""

    seconds: int
    model: str
    session: Mapping[str, Any] = field(default_factory=dict)


class ClientSecret(Value, frozen=True, kw_only=True):
    """`expires_at` is Unix seconds."""

    value: str
    expires_at: int
    model: str
    session: Mapping[str, Any] = field(default_factory=dict)

    hidden_fields = frozenset({"value"})
