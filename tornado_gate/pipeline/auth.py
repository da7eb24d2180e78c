"""Functions that find the caller's API key in a request and check its permissions, without access to storage.

Every form is read on every route: `Authorization: Bearer`, `x-api-key`, `x-goog-api-key`, `?key=` (not below /admin/v1, where it
is a filter), and a WebSocket subprotocol. A request with two different keys is rejected, because its account is not clear.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable, Mapping
from typing import Any

from tornado_gate.codec.networks import compile_networks
from tornado_gate.errors import AuthenticationFailed, InvalidField, NotAllowed, NotFound
from tornado_gate.http.forwarded import UNKNOWN
from tornado_gate.types import Caller

KEY_HEADERS = ("authorization", "x-api-key", "x-goog-api-key")
_PLAIN_KEY_HEADERS = KEY_HEADERS[1:]
KEY_PARAMETER = "key"
PROTOCOL_HEADER = "sec-websocket-protocol"
_KEY_PROTOCOL = re.compile(r"[a-z]{1,20}-insecure-api-key\.")
"""The subprotocol in which a browser sends the key, because it cannot set headers: ``<vendor>-insecure-api-key.<key>``."""
MAX_KEY_LENGTH = 512
FALLBACK_MEMBERS = frozenset({"fallback", "fallback_models", "fallbacks", "models", "preset", "route"})
"""Members of a body with which callers name further models, at routers that accept a known wire format."""
_MAX_FALLBACK_LENGTH = max(map(len, FALLBACK_MEMBERS))
_MODEL_LENGTH = len("model")
_MAX_PLAIN_NAMES, _MAX_PLAIN_LENGTH = 1000, 64
PLAIN_NAMES = {"model", "messages", "max_tokens"}
"""Names that have passed `_check_names`. One set operation checks all names of a body."""
HOW_TO_SEND_KEY = (
    "Send it as 'Authorization: Bearer KEY', 'x-api-key', 'x-goog-api-key' or '?key='; below /admin/v1 in a header."
)


def find_key(headers: Mapping[str, str], keys_in_query: Iterable[str] = ()) -> str:
    """Return the key in a request; `headers` are lower-case. Raises AuthenticationFailed for no key or two different keys."""
    keys = {key.strip() for key in keys_in_query} if keys_in_query else set()
    if "authorization" in headers:
        scheme, _, token = headers["authorization"].strip().partition(" ")
        if scheme.lower() == "bearer":
            keys.add(token.strip())
    for name in _PLAIN_KEY_HEADERS:
        if name in headers:
            keys.add(headers[name].strip())
    if PROTOCOL_HEADER in headers:
        keys.update(find_keys_in_protocols(headers[PROTOCOL_HEADER]))
    keys.discard("")
    if not keys:
        raise AuthenticationFailed(f"No API key was given. {HOW_TO_SEND_KEY}", code="missing_api_key")
    if len(keys) > 1:
        raise AuthenticationFailed(
            "The request contains two different API keys. Send only one.", code="ambiguous_api_key"
        )
    key = keys.pop()
    if len(key) > MAX_KEY_LENGTH:
        raise unknown_key_error()
    return key


def has_key(headers: Mapping[str, str], keys_in_query: Iterable[str] = ()) -> bool:
    """Return whether a request has a key, valid or not."""
    try:
        find_key(headers, keys_in_query)
    except AuthenticationFailed as error:
        return error.code != "missing_api_key"
    return True


def find_keys_in_protocols(protocols: str) -> list[str]:
    """Return the keys in the subprotocols of a WebSocket handshake, a comma-separated list."""
    names = [name.strip() for name in protocols.split(",")]
    return [name[match.end() :] for name in names if (match := _KEY_PROTOCOL.match(name))]


def is_key_protocol(name: str) -> bool:
    """Return whether a subprotocol contains a key; such a name must not be forwarded or logged."""
    return _KEY_PROTOCOL.match(name) is not None


def unknown_key_error() -> AuthenticationFailed:
    """Return the same error for a key that does not exist, was revoked or has expired. The caller cannot tell which."""
    return AuthenticationFailed(f"This API key is not valid: unknown, revoked or expired. {HOW_TO_SEND_KEY}")


def filter_operations(caller: Caller, operations: tuple[str, ...]) -> tuple[str, ...]:
    """Return the operations of a route that the key may use. Listing models is always allowed.

    Raises NotAllowed when the key is limited to other operations.
    """
    if not caller.operations:
        return operations
    allowed = tuple(name for name in operations if name in caller.operations or name == "models")
    if not allowed:
        limited_to = ", ".join(caller.operations)
        message = f"This API key does not allow the operation '{operations[0]}'. It allows: {limited_to}."
        raise NotAllowed(message)
    return allowed


def check_address(caller: Caller, address: str) -> None:
    """Raise NotAllowed when the key may not be used from this IP address. Call it only for a caller with `addresses`."""
    if address not in compile_networks(caller.addresses):
        message = f"This API key may not be used from the address {address or 'of this connection'}."
        if address == UNKNOWN:
            message = (
                "This API key may be used from some addresses only, and a proxy before the gateway does not say yours. "
                "Let the proxy send it, either in X-Forwarded-For or in Forwarded."
            )
        raise NotAllowed(message, code="address_not_allowed")


def is_administrator(caller: Caller) -> bool:
    """Return whether the caller may see data for operators only, such as the addresses of upstreams."""
    return caller.role == "administrator"


def is_unlimited_administrator(caller: Caller) -> bool:
    """Return whether the caller administers the whole gateway.

    A key that is limited to a team, to models or to operations administers only these.
    """
    return is_administrator(caller) and not (caller.team or caller.models or caller.operations)


def check_metrics_access(authorization: str, *, token: str, is_local: bool) -> None:
    """Check whether /metrics may be sent. `is_local`: only callers on this machine reach the listener, without a proxy.

    With a `token`, the header `Authorization: Bearer TOKEN` is required. Raises AuthenticationFailed, or NotFound without one.
    """
    if token:
        scheme, _, sent_token = authorization.strip().partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(sent_token.strip().encode(), token.encode()):
            message = "/metrics requires the token in server.metrics_token. Send it as 'Authorization: Bearer TOKEN'."
            raise AuthenticationFailed(message, code="invalid_metrics_token")
    elif not is_local:
        raise NotFound(
            "/metrics is off here, because other machines reach this address. Set server.metrics_token, or server.metrics_port "
            "to serve it on a port of its own (on 127.0.0.1 unless server.metrics_host is set).",
            code="metrics_off",
        )


def _check_names(body: Iterable[str]) -> None:
    """Raise InvalidField for a name that differs from ``model`` in case only. Add other short names to `PLAIN_NAMES`."""
    for name in body:
        if len(name) == _MODEL_LENGTH and name != "model" and name.casefold() == "model":
            message = (
                f"'{name}' differs from 'model' only in case, so that an upstream might read either. Send only 'model'."
            )
            raise InvalidField(name, message)
        if len(PLAIN_NAMES) < _MAX_PLAIN_NAMES and len(name) <= _MAX_PLAIN_LENGTH:
            PLAIN_NAMES.add(name)


def check_model_members(caller: Caller, body: Mapping[str, Any]) -> None:
    """Check the top-level members of a body that could make an upstream use a different model from ``model``.

    Raises InvalidField for ``Model`` and the like: some JSON parsers ignore case, such as Go's ``encoding/json``, which folds
    letters by Unicode rules. Raises NotAllowed for a list of models from a key that is limited to certain models.
    """
    if not PLAIN_NAMES.issuperset(body):
        _check_names(body)
    if caller.models:
        for name in body:
            if len(name) <= _MAX_FALLBACK_LENGTH and name.casefold() in FALLBACK_MEMBERS:
                message = f"This API key is limited to certain models, so '{name}' is not allowed. Omit it."
                raise NotAllowed(message, param=name, code="model_not_allowed")
