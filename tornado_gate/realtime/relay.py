"""The relay of a realtime session's messages in both directions, until one side closes it. It uses no HTTP.

Each direction has back-pressure: the next message is read when the receiver has accepted the previous one, so almost nothing is
buffered here. A message needs no task unless it has to wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import orjson

from tornado_gate.config.model import RealtimeConfig
from tornado_gate.errors import (
    GateError,
    InternalError,
    InvalidField,
    RateLimited,
    RequestError,
    TooLarge,
    UpstreamError,
)
from tornado_gate.http.websocket import UpstreamSocket
from tornado_gate.http.websocket.connection import WebSocketConnection
from tornado_gate.http.websocket.frames import NO_CODE
from tornado_gate.telemetry.redaction import SecretMask
from tornado_gate.types import RealtimeAdapter, Socket

log = logging.getLogger(__name__)

HARD_LIMIT_BYTES = 16 * 1024 * 1024
"""The maximum size of a message: a larger one closes the connection (1009). A message between `message_bytes` and this limit only
gets an error event.
"""
LONGEST_EVENT_ID = 512
NORMAL, GOING_AWAY, POLICY_VIOLATION, UPSTREAM_FAILED = 1000, 1001, 1008, 1011


class Relay:
    """The relay between the connection `caller` and the provider's `socket`.

    `on_relayed` is called after each message of the provider. `check_message` raises the GateError for a message of the caller
    that its key does not allow; None if the key allows all.
    Pass each message of the caller to `receive`. After `begin`, call `stop` when the caller's connection is closed.
    """

    __slots__ = (
        "_expiry", "_mask", "_on_relayed",
        "_pulling", "_request_id", "_rules", "_side", "_slow_down", "_stopped", "caller", "check_message", "error_code",
        "sent_bytes", "socket",
    )  # fmt: skip

    def __init__(
        self,
        side: RealtimeAdapter,
        caller: WebSocketConnection,
        socket: Socket,
        rules: RealtimeConfig,
        request_id: str,
        mask: SecretMask | None,
        on_relayed: Callable[[], None] | None = None,
    ) -> None:
        self._side = side
        self._mask = mask
        self._on_relayed = on_relayed
        self._rules = rules
        self._request_id = request_id
        self._slow_down = _MessageBucket(rules.messages_per_second)
        self._pulling: asyncio.Task[None] | None = None
        self._expiry: asyncio.TimerHandle | None = None
        self._stopped = False
        self.caller = caller
        self.check_message: Callable[[str], None] | None = None
        self.socket = socket
        self.sent_bytes = 0
        self.error_code = ""  # the cause of the session's end, unless a side has closed it

    def begin(self) -> None:
        """Start to relay the provider's messages and to count the session's time."""
        self._expiry = asyncio.get_running_loop().call_later(self._rules.minutes * 60, self._on_expiry)
        if isinstance(self.socket, UpstreamSocket):
            self.socket.relay_to(self._relay_to_caller, self._on_upstream_end)
        else:
            self._pulling = asyncio.ensure_future(self._read_provider(self.socket))

    def shut_down(self) -> None:
        """Close the caller's connection with 1001 because the gateway shuts down."""
        self.caller.close(GOING_AWAY, "the gateway is shutting down")

    def revoke(self, error: GateError, code: int = POLICY_VIOLATION) -> None:
        """Close the caller's connection with 1008 and the reason, after an error event: the session is not allowed any more."""
        self.error_code = error.code
        self._send_error_to_caller(error, "")
        self.caller.close(code, error.message)

    def stop(self) -> None:
        """Stop relaying; cancels timers and tasks."""
        self._stopped = True
        if self._expiry is not None:
            self._expiry.cancel()
        if self._pulling is not None:
            self._pulling.cancel()

    # Caller to provider

    def receive(self, message: str | bytes) -> Awaitable[object] | None:
        """Send a message of the caller to the provider. Return an awaitable if the next message must wait, else None."""
        wait = self._slow_down.take()
        if wait:
            return self._send_after_wait(message, wait)
        try:
            texts = self._translate_caller_message(message)
            if not isinstance(self.socket, UpstreamSocket):
                return self._send_to_provider(texts, message)
            rest = None
            for text in texts:
                rest = self.socket.write(text)
            return rest
        except Exception as error:
            return self._on_send_failure(error, message)

    def _translate_caller_message(self, message: str | bytes) -> list[str]:
        return self._side.translate_client_message(self._check_caller_message(message))

    def _check_caller_message(self, message: str | bytes) -> str:
        if isinstance(message, bytes):
            raise InvalidField(
                "", "Binary messages are not supported. Send JSON text, with audio in base64.", code="invalid_message"
            )
        if len(message) > self._rules.message_bytes:
            message_limit = (
                f"The message exceeds the limit of {self._rules.message_bytes} bytes. Send audio in smaller pieces."
            )
            raise TooLarge(message_limit)
        if self.check_message is not None:
            self.check_message(message)
        return message

    async def _send_after_wait(self, message: str | bytes, wait: float) -> None:
        await self._report_wait(wait)
        try:
            await self._send_to_provider(self._translate_caller_message(message), message)
        except Exception as error:
            await wait_for(self._on_send_failure(error, message))

    async def _report_wait(self, wait: float) -> None:
        """Wait because the caller sends too many messages, and report this at intervals."""
        if self._slow_down.should_report_limit():
            limit = f"More than {self._rules.messages_per_second} messages per second: they are delayed. Send fewer messages."
            await wait_for(self._send_error_to_caller(RateLimited(limit, retry_after=1), ""))
        await asyncio.sleep(wait)

    async def _send_to_provider(self, texts: list[str], message: str | bytes) -> None:
        try:
            for text in texts:
                await self.socket.send(text)
        except Exception as error:
            await wait_for(self._on_send_failure(error, message))

    def _on_send_failure(self, error: Exception, message: str | bytes) -> Awaitable[object] | None:
        """Report a failure to the caller. Return an awaitable if the caller reads slowly: its next message must wait then."""
        if isinstance(error, UpstreamError):
            self._on_upstream_lost(error)
            return None
        if isinstance(error, GateError):
            return self._send_error_to_caller(error, message)
        log.error("realtime session %s failed", self._request_id, exc_info=error)
        return self._send_error_to_caller(InternalError(), message)

    # Provider to caller

    def _relay_to_caller(self, message: str | bytes) -> Awaitable[object] | None:
        """Send a message of the provider to the caller. Return an awaitable if the caller reads slowly, else None."""
        try:
            return self._write_to_caller(self._side.translate_server_message(self._mask_text(str(message))))
        except Exception:
            log.exception("realtime session %s failed", self._request_id)
            self.error_code = InternalError.code
            self._send_error_to_caller(InternalError(), "")
            self.caller.close(UPSTREAM_FAILED, "internal error")
        return None

    def _write_to_caller(self, texts: Sequence[str]) -> Awaitable[object] | None:
        rest = None
        try:
            for text in texts:
                self.sent_bytes += len(text)
                rest = self.caller.write(text)
            if self._on_relayed is not None:
                self._on_relayed()
        except ConnectionError:
            pass  # the caller disconnected
        return rest

    def _mask_text(self, text: str) -> str:
        return text if self._mask is None else self._mask.mask_text(text)

    async def _read_provider(self, socket: Socket) -> None:
        """Relay the messages of a `Socket` that is not a connection, until it ends."""
        try:
            while (message := await socket.receive()) is not None:
                await (self._relay_to_caller(message) or asyncio.sleep(0))
            self._on_upstream_end()
        except UpstreamError as error:
            self._on_upstream_lost(error)
        except Exception:
            log.exception("realtime session %s failed", self._request_id)
            self.error_code = InternalError.code
            self._send_error_to_caller(InternalError(), "")
            self.caller.close(UPSTREAM_FAILED, "internal error")

    def _on_upstream_end(self) -> None:
        code = self.socket.close_code
        if isinstance(self.socket, UpstreamSocket) and code is None:
            self._on_upstream_lost(self.socket.lost_error)
        else:
            self.caller.close(NORMAL if code in (None, NO_CODE) else code, self._mask_text(self.socket.close_reason))

    def _on_expiry(self) -> None:
        minutes = f"{self._rules.minutes:g}"
        self._send_error_to_caller(
            RequestError(
                f"The session reached its limit of {minutes} minutes. Open a new session.", code="session_expired"
            ),
            "",
        )
        self.caller.close(NORMAL, "session expired")

    def _on_upstream_lost(self, error: UpstreamError) -> None:
        if not self._stopped:
            self.error_code = self.error_code or error.code
            self._send_error_to_caller(error, "")
            self.caller.close(UPSTREAM_FAILED, "the provider's connection was lost")

    def _send_error_to_caller(self, error: GateError, about: str | bytes) -> Awaitable[object] | None:
        """Send an error event to the caller. Do not close the session. Return an awaitable if the caller reads slowly."""
        with suppress(ConnectionError):
            return self.caller.write(self._side.render_error(error, _extract_event_id(about)))
        return None


async def wait_for(rest: Awaitable[object] | None) -> None:
    if rest is not None:
        await rest


def _extract_event_id(message: str | bytes) -> str:
    """Return the ``event_id`` of the caller's message, "" without a valid one."""
    try:
        event = orjson.loads(message)
    except orjson.JSONDecodeError:
        return ""
    event_id = event.get("event_id") if isinstance(event, dict) else None
    return event_id[:LONGEST_EVENT_ID] if isinstance(event_id, str) else ""


class _MessageBucket:
    """A leaky bucket: `per_second` messages per second, with a burst of twice that number."""

    def __init__(self, per_second: int) -> None:
        self._per_second = per_second
        self._level = 0.0
        self._then = 0.0
        self._told = float("-inf")

    def take(self) -> float:
        """Count a message. Return the seconds that it must wait."""
        now = asyncio.get_running_loop().time()
        self._level = max(0.0, self._level - (now - self._then) * self._per_second) + 1
        self._then = now
        return max(0.0, (self._level - 2 * self._per_second) / self._per_second)

    def should_report_limit(self) -> bool:
        """Return whether to send an error event now: at most one per second."""
        now = asyncio.get_running_loop().time()
        if now - self._told < 1:
            return False
        self._told = now
        return True
