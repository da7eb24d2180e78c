"""One WebSocket connection whose messages are requests of a route: it reads messages, runs their requests, and ends.

A session ends when the caller closes it, after `realtime.minutes`, when its key is no longer allowed, and when the gateway shuts
down. `stop`, `shut_down` and `revoke` treat running requests differently.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

from tornado.httputil import HTTPHeaders, RequestStartLine

from tornado_gate.admission.body_budget import SMALL_BYTES, BodyClaim
from tornado_gate.codec import json_body
from tornado_gate.errors import GateError, InternalError, InvalidField, TooLarge
from tornado_gate.http.websocket.connection import WebSocketConnection
from tornado_gate.server.handlers.exchange import CallerRequest
from tornado_gate.server.handlers.message_exchange import MessageConnection, MessageContext, MessageExchange
from tornado_gate.server.handlers.message_lanes import Job, Lanes
from tornado_gate.server.services import Services
from tornado_gate.types import MessageAdapter, SocketRequest
from tornado_gate.types.value import Value

log = logging.getLogger(__name__)

NORMAL, GOING_AWAY, POLICY_VIOLATION, SERVICE_RESTART, TRY_AGAIN_LATER = 1000, 1001, 1008, 1012, 1013
PARTIAL_BYTES: Final = SMALL_BYTES
"""The maximum length of an incomplete message that is not counted, as for a small body over HTTP."""


class Handshake(Value, frozen=True, kw_only=True):
    """The values that the requests of a connection take from its handshake. `headers` hold no key."""

    path: str
    headers: HTTPHeaders
    context: MessageContext
    key_digest: bytes
    account: str
    request_id: str


class MessageSession:
    """A session.

    Pass each message of the caller to `receive`. After `begin`, call `stop` when the caller's connection is closed.
    """

    def __init__(
        self, services: Services, adapter: MessageAdapter, connection: WebSocketConnection, handshake: Handshake
    ) -> None:
        self._services = services
        self._gate = services.gate
        self._adapter = adapter
        self._connection = connection
        self._handshake = handshake
        self._lanes = Lanes(self._on_idle)
        self._claims: set[BodyClaim] = set()
        self._arriving: BodyClaim | None = None
        self._expiry: asyncio.TimerHandle | None = None
        self._ending: Callable[[], None] | None = None
        self._expired = False
        self._number = 0
        self._stopped = False
        self.sent_bytes = 0

    def begin(self, minutes: float) -> None:
        """Start to count the time of the connection."""
        self._expiry = asyncio.get_running_loop().call_later(minutes * 60, self._on_expiry, minutes)

    # The end

    def shut_down(self) -> None:
        """Close the connection because the gateway shuts down. Running requests are finished first, others are refused."""
        self._end_when_idle(partial(self._connection.close, GOING_AWAY, "the gateway is shutting down"))

    def revoke(self, error: GateError) -> None:
        """Close the connection immediately with an error: it is not allowed any more."""
        self._lanes.cancel()
        self._send(self._adapter.render_error(error))
        self._connection.close(POLICY_VIOLATION, error.message)

    def stop(self) -> None:
        """Cancel the requests of a closed connection, and release its memory. Repeated calls have no effect."""
        if self._stopped:
            return
        self._stopped = True
        if self._expiry is not None:
            self._expiry.cancel()
        self._lanes.cancel()
        for claim in list(self._claims):
            self._release(claim)
        self._adapter.close()

    def _on_expiry(self, minutes: float) -> None:
        """Let running requests finish, and send the error to waiting and new ones."""
        self._expired = True
        self._end_when_idle(partial(self._close_expired, minutes))

    def _close_expired(self, minutes: float) -> None:
        self._send(self._adapter.render_expiry(minutes))
        self._connection.close(NORMAL, "session expired")

    def _end_when_idle(self, end: Callable[[], None]) -> None:
        self._ending = end
        if self._lanes.is_idle:
            end()

    def _on_idle(self) -> None:
        if self._ending is not None and not self._stopped:
            self._ending()

    # Messages

    def hold(self, buffered: int) -> Awaitable[object] | None:
        """Count the bytes of an incomplete message. Return an awaitable while there is no memory for more."""
        if buffered <= PARTIAL_BYTES:
            return None
        if self._arriving is None:
            self._arriving = self._open_claim()
        size = buffered - self._arriving.held
        waiting = self._arriving.grow(size) if size > 0 else None
        return None if waiting is None else self._wait_for_memory(waiting)

    async def _wait_for_memory(self, waiting: Awaitable[None]) -> None:
        try:
            await waiting
        except GateError as error:
            self._send(self._adapter.render_error(error))
            self._connection.close(TRY_AGAIN_LATER, "overloaded")

    def receive(self, message: str | bytes) -> Awaitable[object] | None:
        """Take a message. Return an awaitable if the next one must wait, else None."""
        claim, self._arriving = self._arriving, None
        limit = self._gate.snapshot.config.limits.body_bytes
        if isinstance(message, bytes):
            return self._refuse(
                InvalidField("", "Binary messages are not supported. Send JSON text.", code="invalid_message"), claim
            )
        raw = message.encode()
        if len(raw) > limit:
            return self._refuse(TooLarge(f"The message exceeds the limit of {limit} bytes. Send a smaller one."), claim)
        if claim is not None or len(raw) > SMALL_BYTES:
            return self._receive_large(raw, claim or self._open_claim())
        try:
            body = json_body.load_object(raw)
        except GateError as error:
            return self._refuse(error, claim)
        return self._take_message(raw, body, claim)

    async def _receive_large(self, raw: bytes, claim: BodyClaim) -> None:
        """Take a message like `receive`, if it is parsed in the thread, and its memory is counted."""
        limit = self._gate.snapshot.config.limits.body_values
        try:
            waiting = claim.grow(max(0, len(raw) - claim.held))
            if waiting is not None:
                await waiting
            body = (await self._gate.worker.load_object([raw], claim, limit)).json
        except GateError as error:
            refusal = self._refuse(error, claim)
        else:
            refusal = self._take_message(raw, body, claim)
        if refusal is not None:
            await refusal

    def _take_message(self, raw: bytes, body: dict[str, Any], claim: BodyClaim | None) -> Awaitable[object] | None:
        if self._stopped:  # while a large message was parsed
            return None
        try:
            request = self._adapter.read_message(body, raw)
        except GateError as error:
            return self._refuse(error, claim)
        except Exception:
            log.exception("a message of the connection %s could not be read", self._handshake.request_id)
            return self._refuse(InternalError(), claim)
        if isinstance(request, str):
            self._release(claim)
            return self._send(request)
        return self._lanes.add(request.lane, partial(self._run, request, claim))

    def _refuse(self, error: GateError, claim: BodyClaim | None) -> Awaitable[object] | None:
        """Send an error for a message that is no request.

        It follows the responses to earlier requests in the default lane, so that the order is clear.
        """
        self._release(claim)
        if self._stopped:
            return None
        job: Job = partial(self._report, error)
        return self._lanes.add("", job)

    async def _report(self, error: GateError) -> None:
        waiting = self._send(self._adapter.render_error(error))
        if waiting is not None:
            await waiting

    async def _run(self, message: SocketRequest, claim: BodyClaim | None) -> None:
        """Run one request."""
        self._release(claim)  # the body of the exchange is counted instead
        if self._expired:
            return  # the last message of the connection reports the expiry
        exchange = self._make_exchange(message)
        if exchange is None:
            self._connection.close(SERVICE_RESTART, "the configuration of the gateway has changed")
            return
        try:
            await exchange.run()
        finally:
            self.sent_bytes += exchange.sent_bytes

    def _make_exchange(self, message: SocketRequest) -> MessageExchange | None:
        """Return the exchange of a request; None if a new configuration no longer has the route."""
        handshake = self._handshake
        matched = self._gate.snapshot.routes.find_messages(handshake.path)
        if matched is None:
            return None
        self._number += 1
        line = RequestStartLine("POST", handshake.path, "HTTP/1.1")
        connection = MessageConnection(self._connection, message, handshake.context)
        request = CallerRequest(connection, line, handshake.headers)  # type: ignore[arg-type]  # it has the methods that are called
        request_id = f"{handshake.request_id}.{self._number}"
        return MessageExchange(self._services, request, matched, message, handshake.key_digest, request_id)

    def _send(self, text: str) -> Awaitable[object] | None:
        with suppress(ConnectionError):
            return self._connection.write(text) if text else None
        return None

    def _open_claim(self) -> BodyClaim:
        claim = self._services.bodies.open(self._handshake.account)
        self._claims.add(claim)
        return claim

    def _release(self, claim: BodyClaim | None) -> None:
        if claim is not None:
            self._claims.discard(claim)
            claim.release()
