"""The base of handlers whose requests are upgraded to WebSockets: checks of the handshake (RFC 6455, 4.2.1) and of the origin."""

from __future__ import annotations

from tornado.web import Finish
from tornado.websocket import WebSocketHandler

from tornado_gate.errors import NotAllowed, RequestError
from tornado_gate.http.websocket.server import is_key
from tornado_gate.pipeline import auth
from tornado_gate.server.handlers.base import GateHandler
from tornado_gate.server.handlers.common import find_request_origin
from tornado_gate.server.handlers.strict_header import HEADER as STRICT
from tornado_gate.server.handlers.strict_header import check_strict
from tornado_gate.server.services import Services
from tornado_gate.targets.routing import MatchedRoute
from tornado_gate.types import Caller

CALLER_LEFT, WEBSOCKET_VERSION = 499, "13"


class UpgradeRequired(RequestError):
    status = 426
    code = "upgrade_required"


class SocketHandler(GateHandler, WebSocketHandler):
    """A Tornado WebSocketHandler whose protocol is the `FrameProtocol` of `http.websocket.server`."""

    def initialize(self, services: Services, matched: MatchedRoute) -> None:  # type: ignore[override]  # Tornado passes what a route holds
        super().initialize(services.gate)
        self.services = services
        self.matched = matched
        self.format = matched.served.format
        self.operation = matched.served.route.operation
        self.rules = self.snapshot.config.realtime
        self.key_digest = b""
        self.address = ""
        self.ended = False  # the resources are released, because the connection is closed or the handshake was refused

    def stop_if_caller_left(self) -> None:
        """Raise Finish if the caller has disconnected during the handshake."""
        if self.ended:
            self.set_status(CALLER_LEFT)
            raise Finish

    def check_handshake(self) -> None:
        """Raise RequestError unless this is a complete WebSocket handshake, whose headers are valid."""
        headers = self.request.headers
        if STRICT in headers:
            check_strict(headers[STRICT])
        if headers.get("Upgrade", "").lower() != "websocket" or self.request.version == "HTTP/1.0":
            raise UpgradeRequired(
                "This route requires a WebSocket connection. Send 'Upgrade: websocket' over HTTP/1.1.",
                headers={"Upgrade": "websocket"},
            )
        if headers.get("Sec-WebSocket-Version") != WEBSOCKET_VERSION:
            message = f"The WebSocket version is not supported. Send 'Sec-WebSocket-Version: {WEBSOCKET_VERSION}'."
            raise UpgradeRequired(message, headers={"Sec-WebSocket-Version": WEBSOCKET_VERSION})
        connection = [word.strip().lower() for word in headers.get("Connection", "").split(",")]
        if "upgrade" not in connection or not headers.get("Host"):
            raise RequestError("The WebSocket handshake is incomplete. Send 'Connection: Upgrade' and 'Host'.")
        if not is_key(headers.get("Sec-WebSocket-Key", "")):
            raise RequestError(
                "The WebSocket handshake requires one 'Sec-WebSocket-Key' header with 16 random bytes in base64."
            )

    def check_address(self, caller: Caller) -> None:
        """Raise NotAllowed if the caller's key may not be used from the client's address."""
        self.address = find_request_origin(self.request, self.snapshot.config.server).address
        if caller.addresses:
            auth.check_address(caller, self.address)

    def check_origin_header(self) -> None:
        """Raise NotAllowed for a web page that may not open sessions. Pages of the gateway itself may."""
        origin = self.request.headers.get("Origin", "").rstrip("/").lower()
        if origin and self.rules.origins and origin not in self.rules.origins and not self._is_own_origin(origin):
            message = "The 'Origin' of this page is not in realtime.origins, so it may not open realtime sessions."
            raise NotAllowed(message, code="origin_not_allowed")

    def _is_own_origin(self, origin: str) -> bool:
        own = find_request_origin(self.request, self.snapshot.config.server)
        return origin == f"{own.protocol}://{own.host}".lower()

    def check_origin(self, origin: str) -> bool:
        """Return true, because `prepare` has checked the origin."""
        return True
