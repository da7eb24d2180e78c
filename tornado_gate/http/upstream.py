"""The default `call_upstream`: pooled HTTP. Its pools are the only way to providers; `sockets.py` uses them too.

Faults of the clients below `http1` become the tree of `errors.py` here. A provider's own words come down only with a 4xx that is
about the caller's request; with 401 and 403, which are about our key, they do not.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal
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
from tornado_gate.http.client.faults import Fault, NotConnected, NotConnectedInTime
from tornado_gate.http.client.pool import Client
from tornado_gate.http.client.response import Answer
from tornado_gate.types import Call, Timeouts, UpstreamRequest, UpstreamResponse, Whole

if TYPE_CHECKING:
    import aiohttp

    from tornado_gate.http.client.aiohttp_pool import AiohttpAnswer, AiohttpClient

log = logging.getLogger(__name__)

_AFTER_HOST = frozenset({"", "/", "?", "#"})
"""What ends the part of a URL that says where it leads; RFC 3986 3.2."""

KEY_REFUSED = (b"API_KEY_INVALID", b'"invalid_api_key"')
"""What upstreams say of a key that is wrong when they do not say it by the status, as Google does (400)."""

_USUAL = (("Accept-Encoding", "identity"), ("Accept", "*/*"))
_OF_JSON = (("Content-Type", "application/json"), *_USUAL)
_OF_BYTES = (("Content-Type", "application/octet-stream"), *_USUAL)
"""Headers that each request has unless the plugin says otherwise."""

ERROR_BODY_BYTES = 64 * 1024
"""As much of an upstream's error as is read to find its message."""

ERROR_BODY_SECONDS = 5.0
"""An upstream's error is known by its status; its words are not waited for any longer."""


class Pool:
    """The connections of one provider entry. Lives as long as the entry is unchanged; opened at first use.

    `client` is what speaks HTTP: our own, or aiohttp. WebSockets are always aiohttp's.
    """

    def __init__(self, timeouts: Timeouts, client: Literal["httptools", "aiohttp"] = "httptools") -> None:
        self._timeouts = timeouts
        self._kind = client
        self._client: Client | None = None
        self._session: aiohttp.ClientSession | None = None

    def client(self) -> Client | AiohttpClient:
        """What sends requests; made inside the running loop."""
        if self._client is None:
            if self._kind == "aiohttp":
                return _on_aiohttp(self.session())
            self._client = Client(self._timeouts.connect)
        return self._client

    def session(self) -> aiohttp.ClientSession:
        """An aiohttp session with connections of its own; made inside the running loop."""
        if self._session is None:
            from tornado_gate.http.client import aiohttp_pool

            self._session = aiohttp_pool.session(self._timeouts.connect)
        return self._session

    async def close(self) -> None:
        client, self._client = self._client, None
        session, self._session = self._session, None
        if client is not None:
            await client.close()
        if session is not None:
            await session.close()


def _on_aiohttp(session: Any) -> AiohttpClient:
    from tornado_gate.http.client.aiohttp_pool import AiohttpClient

    return AiohttpClient(session)


async def call_upstream(call: Call, outgoing: UpstreamRequest) -> UpstreamResponse:
    """Send `outgoing` and return when the upstream's headers are there; `chunks` reads the rest at the reader's pace.

    Raises UpstreamRefused for its 4xx, UpstreamError and its kin for everything else that is not below 400. The
    connection is closed by `call.closing` unless the body was read to its end. A body that came with the headers is `Whole`, and
    its connection is free again. A pool that a plugin has put between needs only a `session`.
    """
    check_host(call, outgoing)
    client = call.pool.client() if hasattr(call.pool, "client") else _on_aiohttp(call.pool.session())
    body, usual = outgoing.body, _USUAL if outgoing.body is None else _OF_BYTES
    if outgoing.json is not None:
        body, usual = orjson.dumps(outgoing.json), _OF_JSON
    try:
        answer = await client.request(outgoing.method, outgoing.url, outgoing.headers, body, usual)
    except (Fault, ValueError) as error:
        raise _failure(call, error) from error
    if answer.status < 300 and (body := answer.whole()):
        return UpstreamResponse(status=answer.status, headers=answer.headers, chunks=Whole(body))
    call.closing.callback(answer.close)
    if answer.status >= 300:
        raise refusal(call, answer.status, answer.headers, await _beginning(answer))
    answer.explain = partial(_broke_off, call)
    return UpstreamResponse(status=answer.status, headers=answer.headers, chunks=answer)


def _failure(call: Call, error: Fault | ValueError) -> UpstreamError:
    """The error for a request that got no answer."""
    provider = call.target.provider
    if isinstance(error, NotConnectedInTime):
        return UpstreamTimeout(
            f"The provider '{provider}' did not accept a connection in time.", code="upstream_unreachable"
        )
    log.warning("upstream '%s' failed: %s: %s", provider, type(error).__name__, error)
    code = "upstream_unreachable" if isinstance(error, NotConnected) else None
    return UpstreamError(f"The provider '{provider}' could not be reached.", code=code)


def _broke_off(call: Call, fault: Fault) -> UpstreamError:
    """The error for an answer that ended before its end."""
    provider = call.target.provider
    log.warning("upstream '%s' broke off: %s: %s", provider, type(fault).__name__, fault)
    return UpstreamError(f"The provider '{provider}' broke off its answer.")


def check_host(call: Call, outgoing: UpstreamRequest) -> None:
    """A provider's key goes to its configured host and nowhere else, whatever a plugin puts together."""
    base_url, url = call.target.base_url, outgoing.url
    if not base_url:
        return
    here = _scheme_and_host(base_url)
    if url.startswith(here) and url[len(here) : len(here) + 1] in _AFTER_HOST:
        return
    base, parts = urlsplit(base_url), urlsplit(url)  # the long way: other case, ws for http
    scheme = {"ws": "http", "wss": "https"}.get(parts.scheme, parts.scheme)
    if (base.scheme, base.netloc) != (scheme, parts.netloc):
        raise PluginError(call.target.plugin, f"the request was to go to {parts.netloc}, not to {base.netloc}")


@lru_cache(maxsize=256)
def _scheme_and_host(base_url: str) -> str:
    """Of conf's addresses only: those that requests go to may hold keys and signatures, which no cache is to keep."""
    parts = urlsplit(base_url)
    return f"{parts.scheme}://{parts.netloc}"


async def _beginning(answer: Answer | AiohttpAnswer) -> bytes:
    """As much of an error's body as matters, or as came."""
    pieces: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(ERROR_BODY_SECONDS):
            async for piece in answer:
                pieces.append(piece)
                size += len(piece)
                if size >= ERROR_BODY_BYTES:
                    break
    except (Fault, TimeoutError):
        log.debug("an upstream's error came without its end")
    return b"".join(pieces)[:ERROR_BODY_BYTES]


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
