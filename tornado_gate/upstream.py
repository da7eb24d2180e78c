"""The default `call_upstream`: pooled HTTP. Its pools are the only way to providers; `sockets.py` uses them too.

Library faults become the tree of `errors.py` here. A provider's own words come down only with a 4xx that is about the
caller's request; with 401 and 403, which are about our key, they do not.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import orjson

from tornado_gate.errors import (
    PluginError,
    UpstreamError,
    UpstreamOverloaded,
    UpstreamRateLimited,
    UpstreamRefused,
    UpstreamTimeout,
)
from tornado_gate.types import Call, Timeouts, UpstreamRequest, UpstreamResponse

if TYPE_CHECKING:
    import aiohttp

log = logging.getLogger(__name__)

KEY_REFUSED = (b"API_KEY_INVALID", b'"invalid_api_key"')
"""What upstreams say of a key that is wrong when they do not say it by the status, as Google does (400)."""

ERROR_BODY_BYTES = 64 * 1024
"""As much of an upstream's error as is read to find its message."""


class Pool:
    """The connections of one provider entry. Lives as long as the entry is unchanged; opened at first use."""

    def __init__(self, timeouts: Timeouts) -> None:
        self._timeouts = timeouts
        self._session: aiohttp.ClientSession | None = None

    def session(self) -> aiohttp.ClientSession:
        """The pooled client; made inside the running loop."""
        if self._session is None:
            import aiohttp

            trace = aiohttp.TraceConfig()
            trace.on_connection_reuseconn.append(_note_reuse)
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=30),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=self._timeouts.connect),
                cookie_jar=aiohttp.DummyCookieJar(),
                read_bufsize=64 * 1024,
                trace_configs=[trace],
                skip_auto_headers=("User-Agent",),
            )
        return self._session

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


async def _note_reuse(_session: Any, context: SimpleNamespace, _parameters: Any) -> None:
    if context.trace_request_ctx is not None:  # as for a WebSocket, whose handshake is not tried again
        context.trace_request_ctx.reused = True


async def call_upstream(call: Call, outgoing: UpstreamRequest) -> UpstreamResponse:
    """Send `outgoing` and return when the upstream's headers are there; `chunks` reads the rest at the reader's pace.

    Raises UpstreamRefused for its 4xx, UpstreamError and its kin for everything else that is not below 400. The
    connection is closed by `call.closing` unless the body was read to its end.
    """
    check_host(call, outgoing)
    try:
        response = await _send(call, outgoing)
    except TimeoutError as error:
        message = f"The provider '{call.target.provider}' did not accept a connection in time."
        raise UpstreamTimeout(message, code="upstream_unreachable") from error
    except _client_errors() as error:
        log.warning("upstream '%s' failed: %s: %s", call.target.provider, type(error).__name__, error)
        message = f"The provider '{call.target.provider}' could not be reached."
        code = "upstream_unreachable" if isinstance(error, _never_connected()) else None
        raise UpstreamError(message, code=code) from error
    call.closing.callback(response.close)
    headers = {name.lower(): value for name, value in response.headers.items()}
    if response.status >= 300:
        raise refusal(call, response.status, headers, await _beginning(response))
    return UpstreamResponse(status=response.status, headers=headers, chunks=_chunks(call, response))


def _client_errors() -> tuple[type[BaseException], ...]:
    import aiohttp

    return (aiohttp.ClientError, OSError, ValueError)


def _never_connected() -> tuple[type[BaseException], ...]:
    """Faults after which the upstream surely has nothing of the request."""
    import aiohttp

    return (aiohttp.ClientConnectorError,)


async def _send(call: Call, outgoing: UpstreamRequest) -> aiohttp.ClientResponse:
    """One exchange; a second when a kept connection was closed by the other side in the moment we used it."""
    import aiohttp

    headers = dict(outgoing.headers)
    if outgoing.json is not None:
        headers.setdefault("Content-Type", "application/json")
    headers.setdefault("Accept-Encoding", "identity")
    for last_try in (False, True):
        context = SimpleNamespace(reused=False)
        try:
            return await call.pool.session().request(  # type: ignore[no-any-return]
                outgoing.method,
                outgoing.url,
                data=_body(outgoing, headers),
                headers=headers,
                allow_redirects=False,
                trace_request_ctx=context,
            )
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, ConnectionResetError):
            if last_try or not context.reused:
                raise
    raise AssertionError("the loop returns or raises")


def _body(outgoing: UpstreamRequest, headers: dict[str, str]) -> Any:
    """What aiohttp is given to send; for pieces it must be told how long they are, or it would send them in chunks."""
    if outgoing.json is not None:
        return orjson.dumps(outgoing.json)
    if outgoing.body is None or isinstance(outgoing.body, bytes):
        return outgoing.body
    headers["Content-Length"] = str(outgoing.body.length)
    return outgoing.body.chunks()


def check_host(call: Call, outgoing: UpstreamRequest) -> None:
    """A provider's key goes to its configured host and nowhere else, whatever a plugin puts together."""
    base, url = urlsplit(call.target.base_url), urlsplit(outgoing.url)
    scheme = {"ws": "http", "wss": "https"}.get(url.scheme, url.scheme)
    if call.target.base_url and (base.scheme, base.netloc) != (scheme, url.netloc):
        raise PluginError(call.target.plugin, f"the request was to go to {url.netloc}, not to {base.netloc}")


async def _beginning(response: aiohttp.ClientResponse) -> bytes:
    try:
        return await response.content.read(ERROR_BODY_BYTES)
    except _client_errors():
        return b""


async def _chunks(call: Call, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    try:
        async for chunk in response.content.iter_any():
            yield chunk
    except (TimeoutError, asyncio.CancelledError):
        raise
    except _client_errors() as error:
        log.warning("upstream '%s' broke off: %s: %s", call.target.provider, type(error).__name__, error)
        raise UpstreamError(f"The provider '{call.target.provider}' broke off its answer.") from error


def refusal(call: Call, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
    """The error for an upstream's answer of 300 or above. Public, for plugins that call upstreams themselves."""
    provider = call.target.provider
    log.info("upstream '%s' answered %d", provider, status, extra={"fields": {"request_id": call.id}})
    retry_after = {"Retry-After": headers["retry-after"]} if "retry-after" in headers else {}
    message, param, code = error_words(body)
    if call.target.api_key:
        message = message.replace(call.target.api_key, "***")
    if status in (401, 403) or any(word in body for word in KEY_REFUSED):
        return UpstreamError(
            f"The provider '{provider}' refused the gateway's own credentials; the operator must mend them.",
            code="upstream_authentication",
        )
    if status == 429:
        text = message or f"The provider '{provider}' is limiting requests."
        return UpstreamRateLimited(text, headers=retry_after)
    if status in (503, 529):
        return UpstreamOverloaded(f"The provider '{provider}' is overloaded.", headers=retry_after)
    if status in (408, 504):
        return UpstreamTimeout(f"The provider '{provider}' answered that it ran out of time.")
    if 400 <= status < 500:
        text = message or f"The provider '{provider}' refused the request with status {status}."
        return UpstreamRefused(text, status=status, param=param, code=code or None)
    return UpstreamError(f"The provider '{provider}' failed with status {status}.")


def error_words(body: bytes) -> tuple[str, str, str]:
    """(message, param, code) of an upstream's error body, each "" when it has none.

    Vendors put them in ``error.message`` (OpenAI, Anthropic, Google), ``error`` as a string (Ollama), ``message``
    (Mistral, Cohere) or ``detail`` (vLLM behind FastAPI); some wrap the object in an array (Google's streams).
    """
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return "", "", ""
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, dict):
        return "", "", ""
    error = value.get("error")
    inner = error if isinstance(error, dict) else value
    message = error if isinstance(error, str) else inner.get("message") or inner.get("detail") or ""
    return _text(message), _text(inner.get("param")), _text(inner.get("code"))


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value[:2000] if isinstance(value, str) else orjson.dumps(value).decode()[:2000]
