"""GET /v1/realtime: what can be refused is refused while this is still HTTP; then messages go both ways until one side ends it.

Neither direction reads faster than the other end takes, and nothing is kept between them. A failure to count what a session
costs never ends it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import orjson
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from tornado_gate import auth, realtime
from tornado_gate.errors import (
    GateError,
    InternalError,
    InvalidField,
    NotAllowed,
    RateLimited,
    RequestError,
    TooLarge,
    Unavailable,
    UpstreamError,
)
from tornado_gate.gate import Gate
from tornado_gate.handlers.base import GateHandler
from tornado_gate.handlers.keyed import NOBODY, headers_of, without_keys
from tornado_gate.media import AnswerFiles
from tornado_gate.routing import Matched
from tornado_gate.sessions import PREFIX, Held
from tornado_gate.types import Call, RealtimeSide, Socket, WireRequest

log = logging.getLogger(__name__)

HARD_LIMIT_BYTES = 16 * 1024 * 1024
"""A message beyond this ends the connection (1009); up to here one that is too large is only refused."""
PING_SECONDS = 20.0
LONGEST_REASON = 120
"""Bytes: a close frame has room for 123 (RFC 6455 5.5)."""
GOING_AWAY, UPSTREAM_FAILED, EXPIRED = 1001, 1011, 1000


class UpgradeRequired(RequestError):
    status = 426
    code = "upgrade_required"


class RealtimeHandler(GateHandler, WebSocketHandler):
    """One session."""

    side: RealtimeSide
    socket: Socket

    def initialize(self, gate: Gate, matched: Matched) -> None:  # type: ignore[override]  # Tornado passes what a route holds
        super().initialize(gate)
        self.matched = matched
        self.format = matched.served.format
        self.operation = matched.served.route.operation
        self.rules = self.snapshot.config.realtime
        self.closing = AsyncExitStack()
        self.relay: asyncio.Task[None] | None = None
        self.slow_down = _Bucket(self.rules.messages_per_second)
        self.counted = False
        self.ended = False

    # Before the upgrade

    async def prepare(self) -> None:
        """Who asks, for what, and whether a provider is there for it."""
        await self.closing.__aenter__()
        try:
            if self.gate.draining:
                raise Unavailable("The gateway is shutting down; try again.", code="shutting_down")
            if self.request.headers.get("Upgrade", "").lower() != "websocket":
                raise UpgradeRequired("This route is a WebSocket: connect with one.", headers={"Upgrade": "websocket"})
            self._check_origin_header()
            self.closing.enter_context(self.gate.using(self.snapshot))
            call, wire = await self._authenticated()
            auth.allowed_operations(call.caller, (realtime.OPERATION,))
            call = self.snapshot.about(replace(call, model=self.snapshot.asked_model(wire)))
            self.call = call
            self.snapshot.targets(call, (realtime.OPERATION,))
            self.side = await self.snapshot.formats[self.format].open_session(call, wire)
            self.gate.sessions.add(self, call.caller, self.rules.sessions_per_key, self.leave)
            self.counted = True
            self.gate.limits.admit(call.caller)
            self.call, self.socket = await realtime.connect(self.gate, self.snapshot, call, self.side)
            self.side.connected(self.socket.dialect)
            self._set_own_headers()
        except GateError as error:
            await self._end()
            self.fail(error)
        except BaseException:
            await self._end()
            raise

    def _check_origin_header(self) -> None:
        origin = self.request.headers.get("Origin", "").rstrip("/").lower()
        if origin and self.rules.origins and origin not in self.rules.origins:
            raise NotAllowed("Pages of this origin may not open realtime sessions here.", code="origin_not_allowed")

    async def _authenticated(self) -> tuple[Call, WireRequest]:
        headers = headers_of(self.request.headers)
        key = auth.find_key(headers, self.get_query_arguments(auth.KEY_PARAMETER))
        query = {
            name: values[-1].decode("utf-8", "replace")
            for name, values in self.request.query_arguments.items()
            if name != auth.KEY_PARAMETER
        }
        held: Held | None = None
        if key.startswith(PREFIX):
            caller, held = await self.gate.authenticate_secret(key)
            if query.setdefault("model", held.model) != held.model:
                raise NotAllowed("This client secret is for another model.", param="model", code="model_not_allowed")
        else:
            caller = await self.gate.authenticate(key)
        plain = without_keys(headers)
        call = Call(
            id=self.request_id,
            operation=self.operation,
            format=self.format,
            caller=caller,
            dialect=self.snapshot.config.dialect,
            headers=plain,
            memory=self.gate.memory.of(caller.account),
            fetcher=self.gate.fetcher,
            files=AnswerFiles(self.gate.media, ""),
            closing=self.closing,
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

    # Tornado's questions

    def check_origin(self, origin: str) -> bool:
        return True  # `prepare` has looked

    def select_subprotocol(self, subprotocols: list[str]) -> str | None:
        return self.side.subprotocol if self.side.subprotocol in subprotocols else None

    @property
    def max_message_size(self) -> int:
        return HARD_LIMIT_BYTES

    @property
    def ping_interval(self) -> float:
        return PING_SECONDS

    def get_compression_options(self) -> None:
        return None  # base64 of sound does not get smaller

    # After the upgrade

    def open(self, *_: str, **__: str) -> None:
        """The handshake is done."""
        self.set_nodelay(True)
        self.gate.metrics.stream_opened()
        self.relay = asyncio.ensure_future(self._relay())

    async def on_message(self, message: str | bytes) -> None:
        """One message of the caller; the next is read when this one has gone up."""
        try:
            await self._pass_on(message)
        except GateError as error:
            if isinstance(error, UpstreamError):
                self._upstream_lost(error)
            else:
                self._say(error, message)
        except Exception:
            log.exception("realtime session %s", self.request_id)
            self._say(InternalError(), message)

    async def _pass_on(self, message: str | bytes) -> None:
        wait = self.slow_down.take()
        if wait:
            if self.slow_down.first_of_a_flood():
                limit = f"At most {self.rules.messages_per_second} messages a second are taken; you are slowed down."
                self._say(RateLimited(limit, retry_after=1), "")
            await asyncio.sleep(wait)
        if isinstance(message, bytes):
            raise InvalidField(
                "", "Messages must be JSON text, not binary; send audio in base64.", code="invalid_message"
            )
        if len(message) > self.rules.message_bytes:
            raise TooLarge(f"A message may have {self.rules.message_bytes} bytes; send audio in smaller pieces.")
        for text in self.side.client(message):
            await self.socket.send(text)

    async def _relay(self) -> None:
        """What the provider says, until it ends or time is up."""
        try:
            async with asyncio.timeout(self.rules.minutes * 60):
                while (message := await self.socket.receive()) is not None:
                    for text in self.side.server(message):
                        self.sent_bytes += len(text)
                        await self.write_message(text)
            code = self.socket.close_code or 1000
            self._close(code if code != 1005 else 1000, self.socket.close_reason)
        except TimeoutError:
            minutes = f"{self.rules.minutes:g}"
            self._say(
                RequestError(f"A session lasts {minutes} minutes at most; open a new one.", code="session_expired"), ""
            )
            self._close(EXPIRED, "session expired")
        except UpstreamError as error:
            self._upstream_lost(error)
        except (WebSocketClosedError, asyncio.CancelledError):
            pass  # the caller left
        except Exception:
            log.exception("realtime session %s", self.request_id)
            self._say(InternalError(), "")
            self._close(UPSTREAM_FAILED, "internal error")

    def _upstream_lost(self, error: UpstreamError) -> None:
        if not self.ended:
            self._say(error, "")
            self._close(UPSTREAM_FAILED, "the provider's connection broke")

    def _say(self, error: GateError, about: str | bytes) -> None:
        """Tell the caller of a failure; the session lives on."""
        with suppress(WebSocketClosedError):
            text = self.side.error(error, _event_id(about))
            self.write_message(text)

    def _close(self, code: int, reason: str) -> None:
        cut = reason.encode()[:LONGEST_REASON].decode("utf-8", "ignore")
        self.close(code, cut or None)

    def leave(self) -> None:
        """The gateway shuts down."""
        if self.ws_connection is not None:
            self._close(GOING_AWAY, "the gateway is shutting down")

    def on_connection_close(self) -> None:
        WebSocketHandler.on_connection_close(self)
        if self.ws_connection is None:
            self._ending = asyncio.ensure_future(self._end())

    def on_close(self) -> None:
        """The connection has ended, by whichever side."""
        self.gate.metrics.stream_closed()
        self._ending = asyncio.ensure_future(self._end())
        GateHandler.on_finish(self)

    def on_finish(self) -> None:
        """Only for a handshake that was refused; a session is counted when it closes."""
        if self.ws_connection is None:
            super().on_finish()

    async def _end(self) -> None:
        """Give back everything; once."""
        if self.ended:
            return
        self.ended = True
        if self.counted:
            self.gate.sessions.remove(self, self.call.caller if self.call else NOBODY)
        if self.relay is not None:
            self.relay.cancel()
        try:
            socket = getattr(self, "socket", None)
            if socket is not None:
                await socket.close(self.close_code if self.close_code in range(1000, 1004) else 1000)
        except Exception as error:
            log.info("closing a provider's end failed: %s", type(error).__name__)
        finally:
            await self.closing.aclose()


def _event_id(message: str | bytes) -> str:
    """The id that the caller gave its message, if that can be read."""
    try:
        event = orjson.loads(message)
    except orjson.JSONDecodeError:
        return ""
    given = event.get("event_id") if isinstance(event, dict) else None
    return given if isinstance(given, str) else ""


class _Bucket:
    """So many a second, twice that at once."""

    def __init__(self, per_second: int) -> None:
        self._per_second = per_second
        self._level = 0.0
        self._then = 0.0
        self._told = float("-inf")

    def take(self) -> float:
        """Count one; how many seconds it must wait."""
        now = asyncio.get_running_loop().time()
        self._level = max(0.0, self._level - (now - self._then) * self._per_second) + 1
        self._then = now
        return max(0.0, (self._level - 2 * self._per_second) / self._per_second)

    def first_of_a_flood(self) -> bool:
        """Whether the caller should be told: once a second is enough."""
        now = asyncio.get_running_loop().time()
        if now - self._told < 1:
            return False
        self._told = now
        return True
