"""The handshake of routes whose requests may be WebSocket messages (`Route.messages`); then a `MessageSession` runs.

Errors before the upgrade are HTTP responses. The key is checked here and again for each message.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial

from tornado.httputil import HTTPHeaders

from tornado_gate.accounts.keys import digest_key
from tornado_gate.errors import GateError, PluginError, Unavailable
from tornado_gate.http.server.response import SWITCHING
from tornado_gate.http.websocket.connection import Receive
from tornado_gate.http.websocket.server import FrameProtocol
from tornado_gate.pipeline import auth
from tornado_gate.pipeline.calls import make_handshake_call
from tornado_gate.server.handlers.authenticated import remove_keys
from tornado_gate.server.handlers.common import find_request_origin, lower_header_names
from tornado_gate.server.handlers.message_exchange import MessageContext
from tornado_gate.server.handlers.message_session import Handshake, MessageSession
from tornado_gate.server.handlers.sockets import SocketHandler
from tornado_gate.server.services import Services
from tornado_gate.targets.routing import MatchedRoute
from tornado_gate.types import Call, Caller, MessageAdapter

log = logging.getLogger(__name__)

OPERATION_LABEL = "websocket"
"""The operation of a connection in metrics. Its requests count under their own operations."""
_HANDSHAKE_HEADERS = frozenset({"connection", "content-length", "upgrade", "x-request-id"})
"""Headers that belong to the handshake and not to the requests."""


def _is_of_requests(name: str) -> bool:
    return name not in _HANDSHAKE_HEADERS and not name.startswith("sec-websocket-")


class MessageSocketHandler(SocketHandler):
    """One connection (an `OpenSession`)."""

    adapter: MessageAdapter

    def initialize(self, services: Services, matched: MatchedRoute) -> None:  # type: ignore[override]  # as its base class
        super().initialize(services, matched)
        self.route_operation, self.operation = matched.served.route.operation, OPERATION_LABEL
        self.session: MessageSession | None = None
        self.refusal: GateError | None = None
        self.give_back: Callable[[], None] | None = None
        self.drains = False
        self.lowered: dict[str, str] = {}

    # The permissions of the session (an `OpenSession`). Each message names its model.

    model = ""

    @property
    def caller(self) -> Caller:
        assert self.call is not None
        return self.call.caller

    # Before the upgrade

    async def prepare(self) -> None:
        """Authenticate the caller and open the format's adapter."""
        try:
            if self.gate.readiness.is_closing:
                raise Unavailable("The gateway is shutting down. Connect again.", code="shutting_down")
            self.check_handshake()
            self.check_origin_header()
            key_changes = self.gate.keys.changes
            await self._authenticate()
            self.stop_if_caller_left()
            assert self.call is not None
            auth.filter_operations(self.caller, self.matched.served.route.operations)
            self.give_back = await self.services.sessions.reserve(self.caller, self.rules)
            if self.ended:
                self.give_back()
            self.stop_if_caller_left()
            self.services.sessions.add(self, self.rules, key_changes)
            self.adapter = self._open_adapter(self.call)
            if self.refusal is not None:
                raise self.refusal
        except GateError as error:
            self._release_resources()
            self.fail(error)
        except BaseException:
            self._release_resources()
            raise

    async def _authenticate(self) -> None:
        headers = lower_header_names(self.request.headers)
        self.key_digest = digest_key(auth.find_key(headers, self.get_query_arguments(auth.KEY_PARAMETER)))
        caller = await self.gate.callers.authenticate_digest(self.key_digest)
        self.check_address(caller)
        self.lowered = {name: value for name, value in remove_keys(headers).items() if _is_of_requests(name)}
        self.call = make_handshake_call(
            self.snapshot.config, self.request_id, self.route_operation, self.format, caller, self.lowered
        )

    def _open_adapter(self, call: Call) -> MessageAdapter:
        open_socket = self.matched.served.route.messages
        assert open_socket is not None
        try:
            return open_socket(call, partial(self.services.turns.keep, call.caller.account))
        except GateError:
            raise
        except Exception as error:
            log.exception("the format %s could not open a connection", self.format)
            raise PluginError(self.format, "Route.messages raised an exception") from error

    # The upgrade

    def get_websocket_protocol(self) -> FrameProtocol:  # type: ignore[override]  # Tornado calls only two of its methods
        """Return the protocol that reads and writes frames after `get` has accepted the handshake."""
        return FrameProtocol(self, 2 * self.snapshot.config.limits.body_bytes, self._hold)

    def _hold(self, buffered: int) -> Awaitable[object] | None:
        return None if self.session is None else self.session.hold(buffered)

    def select_subprotocol(self, subprotocols: list[str]) -> str | None:
        """Return None: the format has no subprotocol."""
        return None

    def open(self) -> None:
        """Start to read messages after the upgrade."""
        assert isinstance(self.ws_connection, FrameProtocol)
        handshake = self._make_handshake()
        self.request.headers = self._headers = HTTPHeaders()  # frees 2 KB that are not read again
        self.session = MessageSession(self.services, self.adapter, self.ws_connection.connection, handshake)
        self.session.begin(self.rules.minutes)
        if self.gate.readiness.is_closing:
            self.shut_down()
        if self.refusal is not None:
            self.session.revoke(self.refusal)

    def _make_handshake(self) -> Handshake:
        origin = find_request_origin(self.request, self.snapshot.config.server)
        headers = HTTPHeaders(self.lowered)
        context = MessageContext(self.request.remote_ip or "", self.request.protocol)
        self.request.remote_ip = origin.address  # for the log
        return Handshake(
            path=self.request.path,
            headers=headers,
            context=context,
            key_digest=self.key_digest,
            account=self.caller.account,
            request_id=self.request_id,
        )

    @property
    def on_message(self) -> Receive:  # type: ignore[override]  # looked up once per session, not per message
        """Return the function that receives each message of the caller."""
        assert self.session is not None
        return self.session.receive

    # The end

    def shut_down(self) -> None:
        """End the session because the gateway shuts down, which waits for it. Has no effect before `open`."""
        if self.session is None or self.drains:
            return
        self.drains = True
        self.gate.requests.begin(self.snapshot)
        self.session.shut_down()

    def revoke(self, error: GateError) -> None:
        """End the session because it is not allowed any more. Before `open`, refuse the upgrade instead."""
        self.refusal = error
        if self.session is not None:
            self.session.revoke(error)

    def on_close(self) -> None:
        """Clean up after the caller's connection was closed: at the end of a session, or before its handshake got a response."""
        if self.session is not None:
            self.sent_bytes = self.session.sent_bytes
        if self.get_status() == SWITCHING:
            self.on_finish()  # this counts and logs the session at its end
        self._release_resources()

    def _release_resources(self) -> None:
        """Cancel the requests and release all resources. Repeated calls have no effect."""
        if self.ended:
            return
        self.ended = True
        self.services.sessions.remove(self)
        if self.give_back is not None:
            self.give_back()
        if self.session is not None:
            self.session.stop()
        elif hasattr(self, "adapter"):
            self.adapter.close()
        if self.drains:
            self.gate.requests.end(self.snapshot)
