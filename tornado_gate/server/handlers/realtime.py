"""The handler of GET /v1/realtime. It checks the request and connects the provider before the upgrade, then runs a session.

Errors before the upgrade are HTTP responses. A failure to count the usage of a session does not end the session
(`realtime.relay`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from types import MappingProxyType
from typing import Any

from tornado.httputil import HTTPHeaders

from tornado_gate.accounts.keys import digest_key
from tornado_gate.errors import GateError, NotAllowed, Unavailable
from tornado_gate.guards.decisions import Review, begin_session_review
from tornado_gate.http.server.response import SWITCHING
from tornado_gate.http.websocket.connection import Receive
from tornado_gate.http.websocket.server import FrameProtocol
from tornado_gate.pipeline import auth
from tornado_gate.pipeline.model_names import resolve_model_name
from tornado_gate.pipeline.other_models import check_message
from tornado_gate.pipeline.pricing import compute_session_cost
from tornado_gate.realtime.client_secrets import SECRET_PREFIX, ClientSecretClaims
from tornado_gate.realtime.connect import authenticate_secret, connect
from tornado_gate.realtime.guarded_relay import GuardedRelay
from tornado_gate.realtime.relay import HARD_LIMIT_BYTES, Relay
from tornado_gate.realtime.sessions import OPERATION
from tornado_gate.server.handlers.authenticated import remove_keys
from tornado_gate.server.handlers.common import find_request_origin, lower_header_names
from tornado_gate.server.handlers.sockets import SocketHandler
from tornado_gate.server.handlers.strict_header import HEADER as STRICT
from tornado_gate.server.handlers.strict_header import is_strict
from tornado_gate.server.services import Services
from tornado_gate.targets.routing import MatchedRoute
from tornado_gate.telemetry.redaction import make_mask
from tornado_gate.types import Call, Caller, RealtimeAdapter, Socket, Usage, WireRequest

log = logging.getLogger(__name__)

NO_HEADERS = HTTPHeaders()


class RealtimeHandler(SocketHandler):
    """One session."""

    side: RealtimeAdapter

    def initialize(self, services: Services, matched: MatchedRoute) -> None:  # type: ignore[override]  # as its base class
        super().initialize(services, matched)
        self.closing = AsyncExitStack()
        self.socket: Socket | None = None
        self.relay: Relay | None = None
        self.refusal: GateError | None = None
        self.review: Review | None = None
        self.give_back: Callable[[], None] | None = None
        self._counted: Usage | None = None
        self._counting: asyncio.Task[None] | None = None

    # The permissions of the session (an `OpenSession`)

    @property
    def caller(self) -> Caller:
        assert self.call is not None
        return self.call.caller

    @property
    def model(self) -> str:
        assert self.call is not None
        return self.call.model

    # Before the upgrade

    async def prepare(self) -> None:
        """Authenticate the caller, find the model and connect the provider."""
        await self.closing.__aenter__()
        try:
            if self.gate.readiness.is_closing:
                raise Unavailable("The gateway is shutting down. Connect again.", code="shutting_down")
            self.check_handshake()
            self.check_origin_header()
            self.closing.enter_context(self.gate.requests.hold(self.snapshot))
            key_changes = self.gate.keys.changes
            call, wire = await self._authenticate()
            self.call = call
            auth.filter_operations(call.caller, (OPERATION,))
            model = resolve_model_name(self.snapshot.config.defaults, wire, call.caller)
            call = self.snapshot.targets.for_model(call, model)
            self.call = call
            self.snapshot.targets.select_targets(call, (OPERATION,))
            if self.snapshot.guards.lanes:
                self.review = begin_session_review(
                    self.gate.guarding, self.snapshot.guards, call, self.matched.served.route
                )
            self.side = await self.snapshot.formats[self.format].open_session(call, wire)
            self.give_back = await self.services.sessions.reserve(call.caller, self.rules)
            if self.ended:
                self.give_back()
            await self._stop_if_caller_left()  # before the session is counted: `on_close` is not called again
            self.services.sessions.add(self, self.rules, key_changes)
            self._admit(call.caller)
            self.call, self.socket = await connect(self.gate, self.snapshot, call, self.side)
            if self.refusal is not None:
                raise self.refusal
            await self._stop_if_caller_left()
            self.side.set_upstream_dialect(self.socket.dialect)
            self._set_own_headers()
        except GateError as error:
            await self._release_resources()
            self.fail(error)
        except BaseException:
            await self._release_resources()
            raise

    def _admit(self, caller: Caller) -> None:
        """Count the session among the open requests of the process. Raises Unavailable."""
        self.gate.overload.enter(caller.account)
        self.closing.callback(self.gate.overload.leave, caller.account)

    async def _stop_if_caller_left(self) -> None:
        """If the caller has disconnected, close everything that was opened since then, and raise Finish."""
        if self.ended:
            await self.closing.aclose()
        self.stop_if_caller_left()

    async def _authenticate(self) -> tuple[Call, WireRequest]:
        headers = lower_header_names(self.request.headers)
        key = auth.find_key(headers, self.get_query_arguments(auth.KEY_PARAMETER))
        query = {
            name: values[-1].decode("utf-8", "replace")
            for name, values in self.request.query_arguments.items()
            if name != auth.KEY_PARAMETER
        }
        held: ClientSecretClaims | None = None
        self.key_digest = digest_key(key)
        if key.startswith(SECRET_PREFIX):
            caller, held = await authenticate_secret(self.gate, self.services.secrets, key)
            self.key_digest = held.key_digest
            if query.setdefault("model", held.model) != held.model:
                message = f"This client secret is for the model '{held.model}'. Use that model, or create another client secret."
                raise NotAllowed(message, param="model", code="model_not_allowed")
        else:
            caller = await self.gate.callers.authenticate_digest(self.key_digest)
        self.check_address(caller)
        plain = remove_keys(headers)
        call = self.services.calls.make(
            self.snapshot.config,
            self.request_id,
            self.operation,
            self.format,
            caller,
            plain,
            self.closing,
            self.started,
            strict=STRICT in plain and is_strict(plain[STRICT]),
        )
        body: Mapping[str, Any] = {"session": held.session} if held else {}
        wire = WireRequest(
            route=self.matched.served.route,
            path=self.request.path,
            path_arguments=self.matched.arguments,
            query=query,
            headers=plain,
            raw=b"",
            json=MappingProxyType(body),
        )
        return call, wire

    def _set_own_headers(self) -> None:
        assert self.call is not None
        self.set_header("x-gate-provider", self.call.target.provider)
        self.set_header("x-gate-model", self.call.target.upstream_model.encode("ascii", "replace").decode())
        if self.review is not None and self.review.losses:
            self.set_header("x-gate-loss", ",".join(self.review.losses))

    # The upgrade

    def get_websocket_protocol(self) -> FrameProtocol:  # type: ignore[override]  # Tornado calls only two of its methods
        """Return the protocol that reads and writes frames after `get` has accepted the handshake."""
        return FrameProtocol(self, HARD_LIMIT_BYTES)

    def select_subprotocol(self, subprotocols: list[str]) -> str | None:
        """Return the format's subprotocol if the caller offers it, else None."""
        return self.side.subprotocol if self.side.subprotocol in subprotocols else None

    def open(self) -> None:
        """Start relaying messages in both directions after the upgrade."""
        assert isinstance(self.ws_connection, FrameProtocol)
        assert self.socket is not None
        assert self.call is not None
        self.gate.metrics.requests.count_stream_opened()
        self.request.remote_ip = find_request_origin(self.request, self.snapshot.config.server).address  # for the log
        self.request.headers = self._headers = NO_HEADERS  # frees 2 KB that are not read again
        mask, connection = make_mask(self.call.target), self.ws_connection.connection
        counts = None if self.call.charge.reservations is None else self._count_usage
        kind = GuardedRelay if self.review is not None and self.review.guards else Relay
        self.relay = kind(self.side, connection, self.socket, self.rules, self.request_id, mask, counts)
        if self.caller.models:
            self.relay.check_message = partial(check_message, self.caller, self.matched.served.route.other_models)
        if self.review is not None and isinstance(self.relay, GuardedRelay):
            self.relay.guard(self.review, self.call)
        self.relay.begin()
        if self.gate.readiness.is_closing:
            self.relay.shut_down()
        if self.refusal is not None:
            self.relay.revoke(self.refusal)

    def _count_usage(self) -> None:
        """Count the usage of the session since the last message, and end it when a bound is exhausted."""
        assert self.call is not None
        if self.call.meter.usage is not self._counted:
            self._counted = self.call.meter.usage
            if self._counting is None or self._counting.done():
                self._counting = asyncio.ensure_future(self._settle_usage(self.call))

    async def _settle_usage(self, call: Call) -> None:
        charge, counted = call.charge, None
        while charge.reservations is not None and counted is not call.meter.usage and not charge.is_counted_elsewhere:
            counted = call.meter.usage
            tokens = (counted.total_tokens or 0) if counted else 0
            cost = compute_session_cost(self.snapshot.prices, call)
            error = await self.gate.admission.add_used(charge.reservations, tokens, cost)
            if error is not None:
                self.revoke(error)
                return

    @property
    def on_message(self) -> Receive:  # type: ignore[override]  # looked up once per session, not per message
        """Return the function that receives each message of the caller."""
        assert self.relay is not None
        return self.relay.receive

    # The end

    def shut_down(self) -> None:
        """End the session because the gateway shuts down. Has no effect before `open`."""
        if self.relay is not None:
            self.relay.shut_down()

    def revoke(self, error: GateError) -> None:
        """End the session because it is not allowed any more. Before `open`, refuse the upgrade instead."""
        self.refusal = error
        if self.relay is not None:
            self.relay.revoke(error)

    def on_close(self) -> None:
        """Clean up after the caller's connection was closed: at the end of a session, or before its handshake got a response."""
        if self.relay is not None:
            self.sent_bytes = self.relay.sent_bytes
            self.error_code = self.error_code or self.relay.error_code
            self.gate.metrics.requests.count_stream_closed()
        if self.get_status() == SWITCHING:
            self.on_finish()  # this counts and logs the session at its end
        self._ending = asyncio.ensure_future(self._release_resources())

    async def _release_resources(self) -> None:
        """Close the provider's connection and release all resources. Repeated calls have no effect."""
        if self.ended:
            return
        self.ended = True
        self.services.sessions.remove(self)
        if self.give_back is not None:
            self.give_back()  # now, because closing the provider's connection may take long
        if self.relay is not None:
            self.relay.stop()
        code = self.close_code
        try:
            if self.socket is not None:
                await self.socket.close(code if code is not None and code in range(1000, 1004) else 1000)
        except Exception as error:
            log.info("could not close the provider's realtime connection: %s", type(error).__name__)
        finally:
            await self.closing.aclose()
