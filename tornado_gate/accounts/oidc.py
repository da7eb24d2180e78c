"""OpenID Connect, the authorization code flow with PKCE: requests and checks. No I/O, which is in `identity_provider`.

Sources: OpenID Connect Core 1.0 (3.1.2, 3.1.3), Discovery 1.0 (4), RFC 7636 (PKCE), RFC 9207 (issuer in responses), RFC
9700.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import math
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from tornado_gate.accounts.errors import AccountError
from tornado_gate.accounts.tokens import make_token
from tornado_gate.config.model import OidcConfig
from tornado_gate.config.oidc import is_safe_url
from tornado_gate.types.value import Value

ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "Ed25519", "EdDSA"),
)
"""Algorithms whose private key only the provider has. `none` and HMAC are excluded: the key of HMAC would be the client
secret.
"""
ATTEMPT_SECONDS = 600.0
LEEWAY_SECONDS = 60.0
MAX_TOKEN_CHARACTERS = 100_000
MAX_GROUPS = 1000
LONGEST_SUBJECT = 255


class OidcError(AccountError):
    """The sign-in with the provider failed. `reason` is for the log, `message` for the visitor; neither contains a
    secret.
    """

    status = 400
    code = "oidc_failed"

    def __init__(self, reason: str, message: str = "") -> None:
        super().__init__(message or "Signing in with the identity provider failed. Try again, or ask an administrator.")
        self.reason = reason


class Metadata(Value, frozen=True, kw_only=True):
    """A provider's description of itself. `sends_issuer`: its responses name the issuer, so two providers cannot be
    mixed up.
    """

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str = ""
    token_methods: tuple[str, ...] = ("client_secret_basic",)
    sends_issuer: bool = False


class Attempt(Value, frozen=True, kw_only=True):
    """One sign-in. The browser keeps it in a cookie. A browser without the cookie has not begun the sign-in."""

    state: str
    nonce: str
    verifier: str
    created: float
    next: str = ""
    setup_token: str = ""


class Identity(Value, frozen=True, kw_only=True):
    """The person whom a provider has signed in. `groups` come from the claim that conf names."""

    issuer: str
    subject: str
    email: str = ""
    email_verified: bool = False
    name: str = ""
    groups: tuple[str, ...] = ()


class TokenRequest(Value, frozen=True):
    """The request that exchanges a code for tokens."""

    url: str
    headers: Mapping[str, str]
    body: bytes
    hidden_fields = frozenset({"headers", "body"})


def parse_metadata(document: Any, issuer: str) -> Metadata:
    """Check a provider's configuration document. Raises OidcError."""
    if not isinstance(document, dict):
        raise OidcError("the provider's configuration is not a JSON object")
    if document.get("issuer") != issuer:
        raise OidcError(
            f"auth.oidc.issuer is {issuer}, but the provider says that its issuer is {_quote_value(document.get('issuer'))}"
        )
    endpoints: dict[str, Any] = {
        name: document.get(name) for name in ("authorization_endpoint", "token_endpoint", "jwks_uri")
    }
    if document.get("userinfo_endpoint"):
        endpoints["userinfo_endpoint"] = document["userinfo_endpoint"]
    for name, url in endpoints.items():
        if not isinstance(url, str) or not is_safe_url(url):
            raise OidcError(f"the provider's {name} is not an HTTPS address: {_quote_value(url)}")
    methods = document.get("token_endpoint_auth_methods_supported")
    return Metadata(
        issuer=issuer,
        **endpoints,
        token_methods=tuple(map(str, methods)) if isinstance(methods, list) else ("client_secret_basic",),
        sends_issuer=document.get("authorization_response_iss_parameter_supported") is True,
    )


def start_attempt(*, next: str = "", setup_token: str = "") -> Attempt:
    """Return a new attempt, with random values."""
    return Attempt(
        state=make_token(),
        nonce=make_token(),
        verifier=make_token(),
        created=time.time(),
        next=next,
        setup_token=setup_token,
    )


def make_authorization_url(config: OidcConfig, metadata: Metadata, attempt: Attempt, redirect_uri: str) -> str:
    """Return the address at the provider to which the browser goes."""
    digest = hashlib.sha256(attempt.verifier.encode()).digest()
    query = {
        "response_type": "code",
        "client_id": config.client_id,
        "redirect_uri": redirect_uri,
        "scope": " ".join(config.scopes),
        "state": attempt.state,
        "nonce": attempt.nonce,
        "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
        "code_challenge_method": "S256",
    }
    separator = "&" if "?" in metadata.authorization_endpoint else "?"
    return f"{metadata.authorization_endpoint}{separator}{urlencode(query)}"


def check_state(attempt: Attempt | None, parameters: Mapping[str, str]) -> Attempt:
    """Return the attempt to which the parameters of a response belong. Raises OidcError if this browser has begun no
    sign-in.

    Any web page can send a browser to the callback. Therefore this check comes before anything that is expensive or
    counted.
    """
    state = parameters.get("state", "").encode("utf-8", "surrogatepass")
    if attempt is None or not hmac.compare_digest(attempt.state.encode("utf-8", "surrogatepass"), state):
        raise OidcError(
            "the response belongs to no sign-in of this browser",
            "This sign-in has expired, or was begun in another browser. Begin again.",
        )
    if not 0 <= time.time() - attempt.created <= ATTEMPT_SECONDS:
        raise OidcError("the sign-in took too long", "This sign-in has expired. Begin again.")
    return attempt


def check_response(attempt: Attempt | None, metadata: Metadata, parameters: Mapping[str, str]) -> str:
    """Check the parameters of the browser's request to the callback, and return the code. Raises OidcError."""
    check_state(attempt, parameters)
    if parameters.get("iss", metadata.issuer) != metadata.issuer or (metadata.sends_issuer and "iss" not in parameters):
        raise OidcError(f"the response is of another provider: {_quote_value(parameters.get('iss'))}")
    if "error" in parameters:
        description = _quote_value(parameters.get("error_description", ""))
        reason = f"the provider answered {_quote_value(parameters['error'])}: {description}"
        denied = "You have cancelled the sign-in, or the identity provider has refused it."
        raise OidcError(reason, denied if parameters["error"] == "access_denied" else "")
    if not parameters.get("code"):
        raise OidcError("the response has no code")
    return parameters["code"]


def make_token_request(
    config: OidcConfig, metadata: Metadata, attempt: Attempt, code: str, redirect_uri: str
) -> TokenRequest:
    """Return the request for the tokens. The client authenticates by the provider's method; without a secret by PKCE
    only.
    """
    fields = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": redirect_uri,
        "client_id": config.client_id,
        "code_verifier": attempt.verifier,
    }
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
    if config.client_secret:
        if "client_secret_basic" in metadata.token_methods or "client_secret_post" not in metadata.token_methods:
            pair = f"{quote(config.client_id, safe='')}:{quote(config.client_secret, safe='')}"  # RFC 6749, 2.3.1
            headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
            del fields["client_id"]
        else:
            fields["client_secret"] = str(config.client_secret)
    return TokenRequest(metadata.token_endpoint, headers, urlencode(fields).encode())


class UnknownKey(OidcError):
    """The ID token is signed with an unknown key. The provider may have new keys."""


def verify_id_token(token: Any, keys: Any, metadata: Metadata, client_id: str, nonce: str) -> dict[str, Any]:
    """Return the claims of an ID token after all checks, including the signature (Core 3.1.3.7). Raises OidcError,
    UnknownKey.

    `keys` is the provider's JSON Web Key Set.
    """
    from joserfc import jwt  # imported on the first sign-in only, because it loads `cryptography`
    from joserfc.errors import JoseError
    from joserfc.jws import JWSRegistry

    if not isinstance(token, str) or len(token) > MAX_TOKEN_CHARACTERS:
        raise OidcError("the provider sent no ID token")
    try:
        registry = JWSRegistry(algorithms=list(ALGORITHMS))
        decoded = jwt.decode(token, lambda signed: _find_key(keys, dict(signed.headers())), registry=registry)
    except UnknownKey:
        raise
    except (JoseError, ValueError, TypeError, KeyError) as error:
        raise OidcError(f"the ID token is invalid: {type(error).__name__}") from error
    claims = dict(decoded.claims)
    if reason := _find_fault(claims, metadata, client_id, nonce, time.time()):
        raise OidcError(f"the ID token {reason}")
    return claims


def _find_key(keys: Any, header: Mapping[str, Any]) -> Any:
    """Return the key of a token by its `kid`. For a token without it, return the only key that fits. Raises UnknownKey,
    JoseError.
    """
    from joserfc.jwk import JWKRegistry

    known = keys.get("keys") if isinstance(keys, dict) else None
    kid, kind = header.get("kid"), _KEY_TYPES.get(str(header.get("alg"))[:2])
    fitting = [
        key
        for key in known or ()
        if isinstance(key, dict)
        and key.get("kty") == kind
        and key.get("use", "sig") == "sig"
        and (kid is None or key.get("kid") == kid)
        and key.get("alg", header.get("alg")) == header.get("alg")
    ]
    if len(fitting) != 1:
        raise UnknownKey(f"the ID token is signed with an unknown key ({len(fitting)} keys fit)")
    public = {name: value for name, value in fitting[0].items() if name != "d"}
    return JWKRegistry.import_key(public)


_KEY_TYPES = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}
"""The type of a key by the first letters of the algorithm."""


def _find_fault(claims: Mapping[str, Any], metadata: Metadata, client_id: str, nonce: str, now: float) -> str:
    """Return the fault in the claims of a token with a valid signature; "" if there is no fault."""
    audience = claims.get("aud")
    audiences = [audience] if isinstance(audience, str) else audience if isinstance(audience, list) else []
    expires, issued, begins = (_read_time(claims.get(name)) for name in ("exp", "iat", "nbf"))
    subject, sent = claims.get("sub"), claims.get("nonce")
    if claims.get("iss") != metadata.issuer:
        return f"has the issuer {_quote_value(claims.get('iss'))}"
    if client_id not in audiences:
        return "is for another client"
    if claims.get("azp", client_id) != client_id or (len(audiences) > 1 and "azp" not in claims):
        return "was issued to another client (azp)"
    if expires <= now - LEEWAY_SECONDS or not math.isfinite(issued):
        return "has expired"
    if max(issued, begins) > now + LEEWAY_SECONDS:
        return "is not valid yet"
    if not isinstance(sent, str) or not hmac.compare_digest(sent.encode("utf-8", "surrogatepass"), nonce.encode()):
        return "belongs to another sign-in (nonce)"
    if not isinstance(subject, str) or not 0 < len(subject) <= LONGEST_SUBJECT or not subject.isprintable():
        return "has no subject"
    return ""


def _read_time(value: Any) -> float:
    """Return the time in a claim; if it is not a time, a time infinitely far in the past."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and math.isfinite(value) else -math.inf


def merge_claims(claims: Mapping[str, Any], more: Any) -> dict[str, Any]:
    """Add the claims of the userinfo endpoint to the claims of an ID token. Raises OidcError if they belong to
    different people.
    """
    if not isinstance(more, dict) or more.get("sub") != claims["sub"]:
        raise OidcError("the userinfo endpoint answered for somebody else")
    return {**more, **claims}


def make_identity(claims: Mapping[str, Any], config: OidcConfig) -> Identity:
    """Return the identity that the checked claims describe. A claim of an unexpected type counts as missing."""
    email, name, groups = claims.get("email"), claims.get("name"), claims.get(config.groups_claim)
    if isinstance(groups, str):
        groups = [groups]
    return Identity(
        issuer=config.issuer,
        subject=claims["sub"],
        email=email if isinstance(email, str) else "",
        email_verified=claims.get("email_verified") is True or claims.get("email_verified") == "true",
        name=name if isinstance(name, str) else "",
        groups=tuple(group for group in groups[:MAX_GROUPS] if isinstance(group, str))
        if isinstance(groups, list)
        else (),
    )


def _quote_value(value: Any) -> str:
    """Return a value of the provider or of an address, for the log."""
    text = str(value)[:200]
    return "".join(letter if letter.isprintable() else "?" for letter in text)
