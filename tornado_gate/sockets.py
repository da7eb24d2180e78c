"""The default `open_socket`: a WebSocket to a provider, on the pool of its entry."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, cast

from tornado_gate.errors import UpstreamError, UpstreamTimeout
from tornado_gate.types import Call, RealtimeDialect, UpstreamRequest
from tornado_gate.upstream import check_host, refusal

if TYPE_CHECKING:
    import aiohttp

log = logging.getLogger(__name__)

MOST_MESSAGE_BYTES = 16 * 1024 * 1024
HEARTBEAT_SECONDS = 30.0
"""An upstream that answers no ping for half of this is gone."""


class UpstreamSocket:
    """A `Socket` over aiohttp. `send` waits while the upstream reads slowly; nothing is read before somebody receives."""

    def __init__(self, connection: aiohttp.ClientWebSocketResponse, provider: str, dialect: RealtimeDialect) -> None:
        self._connection = connection
        self._provider = provider
        self.dialect: RealtimeDialect = dialect
        self.close_code: int | None = None
        self.close_reason = ""

    async def send(self, text: str) -> None:
        try:
            await self._connection.send_str(text)
        except (ConnectionError, RuntimeError) as error:
            raise self._lost() from error

    async def receive(self) -> str | None:
        import aiohttp

        message = await self._connection.receive()
        if message.type is aiohttp.WSMsgType.TEXT:
            return cast(str, message.data)
        if message.type is aiohttp.WSMsgType.CLOSE:
            self.close_code, self.close_reason = message.data, message.extra or ""
            return None
        if message.type in (aiohttp.WSMsgType.CLOSING, aiohttp.WSMsgType.CLOSED):
            self.close_code = self._connection.close_code
            if self.close_code in (None, 1006):
                raise self._lost()
            return None
        raise self._lost()

    async def close(self, code: int = 1000, reason: str = "") -> None:
        await self._connection.close(code=code, message=reason.encode())

    def _lost(self) -> UpstreamError:
        return UpstreamError(f"The connection to the provider '{self._provider}' broke.", code="upstream_lost")


async def open_socket(call: Call, outgoing: UpstreamRequest) -> UpstreamSocket:
    """Connect. Raises UpstreamRefused for an upstream's 4xx, UpstreamError and its kin for everything else that is no upgrade."""
    import aiohttp

    check_host(call, outgoing)
    provider = call.target.provider
    try:
        connection = await call.pool.session().ws_connect(
            outgoing.url,
            headers=dict(outgoing.headers),
            max_msg_size=MOST_MESSAGE_BYTES,
            heartbeat=HEARTBEAT_SECONDS,
            autoclose=True,
            compress=0,
        )
    except aiohttp.WSServerHandshakeError as error:
        headers = {name.lower(): value for name, value in (error.headers or {}).items()}
        raise refusal(call, error.status, headers, b"") from error
    except TimeoutError as error:
        raise UpstreamTimeout(f"The provider '{provider}' did not accept a connection in time.") from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        log.warning("upstream '%s' failed: %s: %s", provider, type(error).__name__, error)
        raise UpstreamError(f"The provider '{provider}' could not be reached.", code="upstream_unreachable") from error
    call.closing.push_async_callback(connection.close)
    return UpstreamSocket(connection, provider, _dialect(outgoing.context))


def _dialect(context: Any) -> RealtimeDialect:
    return "beta" if context == "beta" else "current"
