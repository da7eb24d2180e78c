"""The section `auth` of conf: sign-in with an OpenID Connect provider."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from marshmallow import Schema, ValidationError

from tornado_gate.config.model import OidcConfig, Secret
from tornado_gate.config.values import List, SecretString, Section, String, Table

LONGEST_TEXT = 200


def check_issuer(issuer: str) -> None:
    """Check an issuer's address. It must use HTTPS, except on this machine, because its responses identify people."""
    if not is_safe_url(issuer) or "?" in issuer or "#" in issuer:
        raise ValidationError(
            "must be the provider's issuer, such as https://login.example.org (http only for this machine)"
        )


def is_safe_url(url: str) -> bool:
    """Return whether a URL is HTTPS, or HTTP to a loopback address, without user and password."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return False
    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url or "@" in parts.netloc or port == 0:
        return False
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(host)))


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_text(text: str) -> None:
    if not text.strip() or not text.isprintable() or len(text) > LONGEST_TEXT:
        raise ValidationError(f"must be a text of 1 to {LONGEST_TEXT} characters without control characters")


def check_scope(scope: str) -> None:
    check_text(scope)
    if not scope.isascii() or any(letter in scope for letter in ' "\\'):
        raise ValidationError("must be one scope, such as groups, without spaces")


class OidcSchema(Schema):
    issuer = String(
        required=True, validate=check_issuer, error_messages={"required": "is missing; add the provider's issuer"}
    )
    client_id = String(
        required=True,
        validate=check_text,
        error_messages={"required": "is missing; register the gateway at the provider"},
    )
    client_secret = SecretString(empty=True)
    name = String(validate=check_text)
    scopes = List(String(validate=check_scope), least=1, hint="leave the key out for openid, email and profile")
    groups_claim = String(validate=check_text)
    groups = Table(String(validate=check_text), check_name=check_text)


class AuthSchema(Schema):
    oidc = Section(OidcSchema, example="{issuer: https://login.example.org, client_id: tornado-gate}")


def make_auth_field() -> Section:
    return Section(AuthSchema, example="{oidc: {issuer: https://login.example.org, client_id: tornado-gate}}")


def build_oidc(auth: Mapping[str, Any]) -> OidcConfig | None:
    """Return the provider of the section `auth`, None without one."""
    values = auth.get("oidc")
    if values is None:
        return None
    fields = {**values, "client_secret": values.get("client_secret", Secret(""))}
    if "scopes" in values:
        fields["scopes"] = tuple(dict.fromkeys(("openid", *values["scopes"])))
    return OidcConfig(**fields)
