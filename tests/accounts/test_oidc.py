"""The OpenID protocol: what is sent, and what is refused of ID tokens and of a provider's configuration."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

from tests.support.oidc import read_query
from tornado_gate.accounts.oidc import (
    ALGORITHMS,
    ATTEMPT_SECONDS,
    Attempt,
    Metadata,
    OidcError,
    UnknownKey,
    check_response,
    make_authorization_url,
    make_identity,
    make_token_request,
    merge_claims,
    parse_metadata,
    start_attempt,
    verify_id_token,
)
from tornado_gate.config.model import OidcConfig, Secret
from tornado_gate.types.value import replace

ISSUER = "https://login.example.org"
DOCUMENT = {
    "issuer": ISSUER,
    "authorization_endpoint": f"{ISSUER}/authorize",
    "token_endpoint": f"{ISSUER}/token",
    "jwks_uri": f"{ISSUER}/keys",
    "userinfo_endpoint": f"{ISSUER}/me",
    "authorization_response_iss_parameter_supported": True,
}
METADATA = parse_metadata(DOCUMENT, ISSUER)
CONFIG = OidcConfig(issuer=ISSUER, client_id="gate", client_secret=Secret("a secret/+"))
KEY = RSAKey.generate_key(2048, {"kid": "one", "use": "sig"})
CURVE = ECKey.generate_key("P-256", {"kid": "two"})
KEYS = {"keys": [KEY.as_dict(private=False), CURVE.as_dict(private=False)]}


def make_claims(**given: Any) -> dict[str, Any]:
    now = int(time.time())
    claims = {"iss": ISSUER, "sub": "ann", "aud": "gate", "exp": now + 300, "iat": now, "nonce": "n", **given}
    return {name: value for name, value in claims.items() if value is not None}


def sign(claims: dict[str, Any], key: Any = KEY, **header: Any) -> str:
    full = {"alg": "RS256", "kid": key.kid, **header}
    return jwt.encode(
        {name: value for name, value in full.items() if value is not None}, claims, key, algorithms=ALGORITHMS
    )


def verify(token: Any, keys: Any = KEYS, client_id: str = "gate", nonce: str = "n") -> dict[str, Any]:
    return verify_id_token(token, keys, METADATA, client_id, nonce)


# ID tokens


@pytest.mark.parametrize(
    "make_token",
    [
        lambda: sign(make_claims()),
        lambda: sign(make_claims(), CURVE, alg="ES256"),
        lambda: sign(make_claims(), alg="PS512"),
        lambda: sign(make_claims(aud=["gate", "other"], azp="gate")),
        lambda: sign(make_claims(exp=int(time.time()) - 30)),  # clocks differ
    ],
)
def test_a_good_token_is_accepted(make_token: Callable[[], str]) -> None:
    assert verify(make_token())["sub"] == "ann"


@pytest.mark.parametrize(
    "given",
    [
        *[{"iss": "https://evil.example"}, {"iss": ISSUER + "/"}, {"iss": None}],
        *[{"aud": "other"}, {"aud": ["other"]}, {"aud": None}, {"aud": {"gate": 1}}, {"aud": "gate2"}],
        *[{"aud": ["gate", "other"]}, {"azp": "other"}, {"aud": ["gate", "other"], "azp": "other"}],
        *[{"exp": 1}, {"exp": None}, {"exp": "9999999999"}, {"exp": True}, {"exp": float("nan")}],
        *[{"iat": None}, {"iat": 9e9}, {"nbf": 9e9}],
        *[{"nonce": "m"}, {"nonce": None}, {"nonce": ""}, {"nonce": ["n"]}],
        *[{"sub": ""}, {"sub": None}, {"sub": 5}, {"sub": "x" * 256}, {"sub": "a\x00"}],
    ],
)
def test_a_token_with_a_wrong_claim_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(OidcError):
        verify(sign(make_claims(**given)))


def make_unsigned() -> str:
    header = base64.urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=").decode()
    body = base64.urlsafe_b64encode(json.dumps(make_claims()).encode()).rstrip(b"=").decode()
    return f"{header}.{body}."


def sign_with_public_key() -> str:
    """The classic confusion of algorithms: HMAC with the public key as the secret."""
    parts = [json.dumps(part).encode() for part in ({"alg": "HS256", "kid": "one"}, make_claims())]
    signed = b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in parts)
    signature = hmac.digest(KEY.as_pem(private=False), signed, "sha256")
    return (signed + b"." + base64.urlsafe_b64encode(signature).rstrip(b"=")).decode()


@pytest.mark.parametrize(
    "make_token",
    [
        make_unsigned,
        sign_with_public_key,
        lambda: jwt.encode({"alg": "HS256"}, make_claims(), OctKey.import_key("a secret/+" * 4)),
        lambda: sign(make_claims(), RSAKey.generate_key(2048, {"kid": "one"})),
        lambda: sign(make_claims(), kid="three"),
        lambda: sign(make_claims(), CURVE, alg="ES256", kid="one"),
        lambda: sign(make_claims(), OKPKey.generate_key("Ed25519", {"kid": "one"}), alg="Ed25519"),
        lambda: sign(make_claims())[:-4] + "AAAA",
        lambda: sign(make_claims()).replace(".", "..", 1),
        *[lambda text=text: text for text in ("", "a.b.c", "x" * 200_000, None, 5, "\udcff", "..", "é.é.é")],  # type: ignore[misc]
    ],
)
def test_a_token_with_a_wrong_signature_is_refused(make_token: Callable[[], Any]) -> None:
    with pytest.raises(OidcError):
        verify(make_token())


def test_a_key_that_is_not_known_yet_is_told_from_a_wrong_one() -> None:
    new = RSAKey.generate_key(2048, {"kid": "new"})
    with pytest.raises(UnknownKey):
        verify(sign(make_claims(), new))
    assert verify(sign(make_claims(), new), {"keys": [*KEYS["keys"], new.as_dict(private=False)]})
    for keys in (None, [], {}, {"keys": None}, {"keys": [5, {}]}):
        with pytest.raises(OidcError):
            verify(sign(make_claims()), keys)


def test_a_token_without_kid_needs_the_only_key_that_fits() -> None:
    token = sign(make_claims(), kid=None)
    assert verify(token)
    with pytest.raises(UnknownKey):
        verify(token, {"keys": [*KEYS["keys"], RSAKey.generate_key(2048, {"kid": "x"}).as_dict(private=False)]})
    with pytest.raises(UnknownKey):
        verify(token, {"keys": [{**KEYS["keys"][0], "use": "enc"}]})


# The response


def make_parameters(attempt: Attempt, **given: str | None) -> dict[str, str]:
    parameters = {"state": attempt.state, "code": "c", "iss": ISSUER, **given}
    return {name: value for name, value in parameters.items() if value is not None}


def test_a_response_to_this_browsers_sign_in_has_a_code() -> None:
    attempt = start_attempt()
    assert check_response(attempt, METADATA, make_parameters(attempt)) == "c"
    silent = replace(METADATA, sends_issuer=False)
    assert check_response(attempt, silent, make_parameters(attempt, iss=None)) == "c"


@pytest.mark.parametrize(
    "given",
    [
        *[{"state": "other"}, {"state": None}, {"state": "\udcff"}, {"code": None}, {"code": ""}],
        *[{"iss": "https://evil.example"}, {"iss": None}, {"error": "access_denied"}, {"error": "server_error"}],
    ],
)
def test_any_other_response_is_refused(given: dict[str, str | None]) -> None:
    attempt = start_attempt()
    with pytest.raises(OidcError):
        check_response(attempt, METADATA, make_parameters(attempt, **given))
    with pytest.raises(OidcError):
        check_response(None, METADATA, make_parameters(attempt))
    for created in (time.time() - ATTEMPT_SECONDS - 1, time.time() + 100):
        with pytest.raises(OidcError, match="expired"):
            check_response(replace(attempt, created=created), METADATA, make_parameters(attempt))


# Requests


def test_the_request_has_pkce_state_and_nonce_which_are_new_each_time() -> None:
    attempt = start_attempt(next="/console/keys")
    url = make_authorization_url(CONFIG, METADATA, attempt, "https://gate.example/console/oidc/callback")
    query = read_query(url)
    digest = hashlib.sha256(attempt.verifier.encode()).digest()
    assert url.startswith(f"{ISSUER}/authorize?")
    assert query == {
        "response_type": "code",
        "client_id": "gate",
        "redirect_uri": "https://gate.example/console/oidc/callback",
        "scope": "openid email profile",
        "state": attempt.state,
        "nonce": attempt.nonce,
        "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
        "code_challenge_method": "S256",
    }
    assert attempt.verifier not in url
    other = start_attempt()
    assert len({attempt.state, attempt.nonce, attempt.verifier, other.state, other.nonce, other.verifier}) == 6


def test_the_client_authenticates_as_the_provider_wants_it() -> None:
    attempt = start_attempt()

    def make(methods: tuple[str, ...], config: OidcConfig = CONFIG) -> tuple[str, dict[str, str]]:
        request = make_token_request(config, replace(METADATA, token_methods=methods), attempt, "c", "r")
        return request.headers.get("Authorization", ""), read_query("?" + request.body.decode())

    header, fields = make(("client_secret_basic", "client_secret_post"))
    assert base64.b64decode(header.removeprefix("Basic ")) == b"gate:a%20secret%2F%2B"
    assert "client_secret" not in fields
    assert (fields["code"], fields["redirect_uri"], fields["code_verifier"]) == ("c", "r", attempt.verifier)
    header, fields = make(("client_secret_post",))
    assert (header, fields["client_secret"], fields["client_id"]) == ("", "a secret/+", "gate")
    header, fields = make(("none",), replace(CONFIG, client_secret=Secret("")))
    assert (header, fields.get("client_secret"), fields["client_id"]) == ("", None, "gate")
    assert "secret" not in repr(make_token_request(CONFIG, METADATA, attempt, "c", "r"))


# The provider's configuration, and its claims


@pytest.mark.parametrize(
    "document",
    [
        *[None, [], "x", {}, {**DOCUMENT, "issuer": ISSUER + "/"}, {**DOCUMENT, "issuer": None}],
        *[
            {**DOCUMENT, "token_endpoint": "http://login.example.org/token"},
            {**DOCUMENT, "jwks_uri": "file:///etc/passwd"},
        ],
        *[{**DOCUMENT, "jwks_uri": 5}, {**DOCUMENT, "authorization_endpoint": "https://user@evil.example/"}],
        *[{**DOCUMENT, "userinfo_endpoint": "javascript:alert(1)"}, {**DOCUMENT, "token_endpoint": None}],
    ],
)
def test_a_configuration_of_another_issuer_or_without_https_is_refused(document: Any) -> None:
    with pytest.raises(OidcError):
        parse_metadata(document, ISSUER)


def test_a_configuration_on_this_machine_may_use_http() -> None:
    issuer = "http://127.0.0.1:8000"
    document = {name: str(value).replace(ISSUER, issuer) for name, value in DOCUMENT.items()}
    assert parse_metadata(document, issuer) == Metadata(
        issuer=issuer,
        authorization_endpoint=f"{issuer}/authorize",
        token_endpoint=f"{issuer}/token",
        jwks_uri=f"{issuer}/keys",
        userinfo_endpoint=f"{issuer}/me",
    )


def test_claims_of_strange_types_count_as_missing() -> None:
    strange = {"sub": "ann", "email": ["a"], "email_verified": 1, "name": {}, "groups": {"eng": True}}
    identity = make_identity(strange, CONFIG)
    assert (identity.email, identity.email_verified, identity.name, identity.groups) == ("", False, "", ())
    assert make_identity({"sub": "ann", "groups": "eng"}, CONFIG).groups == ("eng",)
    config = replace(CONFIG, groups_claim="roles")
    claims = {"sub": "ann", "roles": ["a", 5, "b"], "email_verified": "true"}
    assert make_identity(claims, config).groups == ("a", "b")
    assert make_identity(claims, config).email_verified


def test_claims_of_the_userinfo_endpoint_are_of_the_same_person_and_never_replace_signed_ones() -> None:
    claims = {"sub": "ann", "email": "signed@example.org"}
    assert merge_claims(claims, {"sub": "ann", "email": "x@example.org", "groups": ["a"]}) == {
        **claims,
        "groups": ["a"],
    }
    for other in ({"sub": "bob"}, {}, None, []):
        with pytest.raises(OidcError):
            merge_claims(claims, other)
