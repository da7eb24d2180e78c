"""Requests to the OpenID provider: its configuration and keys, which are cached, tokens and claims."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tornado_gate.accounts.oidc import (
    Attempt,
    Identity,
    Metadata,
    OidcError,
    UnknownKey,
    check_response,
    make_authorization_url,
    make_identity,
    make_token_request,
    merge_claims,
    parse_metadata,
    verify_id_token,
)
from tornado_gate.config.model import OidcConfig
from tornado_gate.config.network import DIRECT, Network, TrustFault

if TYPE_CHECKING:
    from collections.abc import Mapping

    import aiohttp

CACHE_SECONDS = 3600.0
NEW_KEYS_SECONDS = 10.0
"""The minimum time between two requests for new keys, because a stranger can make tokens with unknown keys."""
REQUEST_SECONDS = 10.0
MAX_BYTES = 1024 * 1024
_UNREACHABLE = "The identity provider cannot be reached now. Try again later, or sign in with your password."


class IdentityProvider:
    """A client of the provider in conf, for the event loop. `config` None: people sign in with passwords only.

    Every method raises OidcError.
    """

    def __init__(self) -> None:
        self.config: OidcConfig | None = None
        self._metadata: tuple[float, Metadata] | None = None
        self._keys: tuple[float, Any] | None = None
        self._lock = asyncio.Lock()
        self._network = DIRECT

    def configure(self, config: OidcConfig | None, network: Network = DIRECT) -> None:
        """Use another provider, or none. If the provider is the same, its cached data is kept.

        `network` is how it is reached; without a proxy there, the environment's HTTPS_PROXY is used.
        """
        self._network = network
        if config is None or self.config is None or config.issuer != self.config.issuer:
            self._metadata = self._keys = None
        self.config = config

    async def begin(self, attempt: Attempt, redirect_uri: str) -> str:
        """Return the address at the provider for a new attempt."""
        config = self._require_config()
        return make_authorization_url(config, await self._read_metadata(config), attempt, redirect_uri)

    async def finish(self, attempt: Attempt | None, parameters: Mapping[str, str], redirect_uri: str) -> Identity:
        """Return the identity that the provider has confirmed. `parameters` are the parameters of the browser's request to the
        callback.
        """
        config = self._require_config()
        metadata = await self._read_metadata(config)
        code = check_response(attempt, metadata, parameters)
        assert attempt is not None
        request = make_token_request(config, metadata, attempt, code, redirect_uri)
        tokens = await self._fetch_document(
            "POST", request.url, "tokens", headers=dict(request.headers), data=request.body
        )
        if not isinstance(tokens, dict):
            raise OidcError("the provider's tokens are not a JSON object")
        claims = await self._verify_token(config, metadata, tokens.get("id_token"), attempt.nonce)
        if metadata.userinfo_endpoint and _lacks_claims(claims, config) and isinstance(tokens.get("access_token"), str):
            headers = {"Authorization": f"Bearer {tokens['access_token']}", "Accept": "application/json"}
            more = await self._fetch_document("GET", metadata.userinfo_endpoint, "claims", headers=headers)
            claims = merge_claims(claims, more)
        return make_identity(claims, config)

    def _require_config(self) -> OidcConfig:
        if self.config is None:
            raise OidcError("auth.oidc is not configured", "This gateway has no identity provider.")
        return self.config

    async def _verify_token(self, config: OidcConfig, metadata: Metadata, token: Any, nonce: str) -> dict[str, Any]:
        keys = await self._read_keys(metadata, CACHE_SECONDS)
        try:
            return verify_id_token(token, keys, metadata, config.client_id, nonce)
        except UnknownKey:
            keys = await self._read_keys(metadata, NEW_KEYS_SECONDS)
            return verify_id_token(token, keys, metadata, config.client_id, nonce)

    async def _read_metadata(self, config: OidcConfig) -> Metadata:
        async with self._lock:
            known = self._metadata
            if known is None or known[1].issuer != config.issuer or known[0] + CACHE_SECONDS < time.monotonic():
                url = config.issuer.rstrip("/") + "/.well-known/openid-configuration"
                document = await self._fetch_document("GET", url, "configuration")
                known = self._metadata = (time.monotonic(), parse_metadata(document, config.issuer))
            return known[1]

    async def _read_keys(self, metadata: Metadata, max_age: float) -> Any:
        async with self._lock:
            if self._keys is None or self._keys[0] + max_age < time.monotonic():
                self._keys = (time.monotonic(), await self._fetch_document("GET", metadata.jwks_uri, "keys"))
            return self._keys[1]

    async def _fetch_document(self, method: str, url: str, document: str, **options: Any) -> Any:
        """Return the JSON of a response with status 200. Follows no redirect; time and size are limited."""
        import aiohttp  # imported on the first sign-in only

        from tornado_gate.http.client.aiohttp_session import make_request_options

        timeout = aiohttp.ClientTimeout(total=REQUEST_SECONDS)
        proxy = self._network.proxy
        if proxy is not None and proxy.covers(urlsplit(url).hostname or ""):
            options |= make_request_options(url, options.get("headers", {}), proxy)
        cookies = aiohttp.DummyCookieJar()
        try:
            options["ssl"] = self._network.make_tls() or True
            async with (
                aiohttp.ClientSession(timeout=timeout, cookie_jar=cookies, trust_env=proxy is None) as session,
                session.request(method, url, allow_redirects=False, **options) as response,
            ):
                body = await _read_body(response)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError, TrustFault) as error:
            reason = f"the provider's {document} cannot be read from {url}: {type(error).__name__}"
            raise OidcError(reason, _UNREACHABLE) from error
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise OidcError(f"the provider's {document} are not JSON (status {response.status})") from error
        if response.status != 200:
            code = str(answer.get("error"))[:100] if isinstance(answer, dict) else ""
            raise OidcError(f"the provider refused to send its {document}: status {response.status} {code!r}")
        return answer


async def _read_body(response: aiohttp.ClientResponse) -> bytes:
    """Read a body. Raises ValueError for more than MAX_BYTES."""
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > MAX_BYTES:
            raise ValueError("the response is too large")
    return bytes(body)


def _lacks_claims(claims: Mapping[str, Any], config: OidcConfig) -> bool:
    """Return whether the ID token lacks claims that the userinfo endpoint may have."""
    return "email" not in claims or (bool(config.groups) and config.groups_claim not in claims)
