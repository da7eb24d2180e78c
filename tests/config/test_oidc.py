"""The section ``auth``: the identity provider, its groups, and every fault with its line."""

from __future__ import annotations

import pytest

from tests.config.support import Conf
from tornado_gate.config.model import OidcConfig, Secret
from tornado_gate.pipeline.conf_secrets import collect_secrets

ISSUER = "issuer: https://login.example.org"
ADDRESS = "must be the provider's issuer, such as https://login.example.org (http only for this machine)"
TEXT = "must be a text of 1 to 200 characters without control characters"

FAULTS = [
    ("client_id: a", "issuer", "is missing; add the provider's issuer"),
    (ISSUER, "client_id", "is missing; register the gateway at the provider"),
    (f"{ISSUER}, client_id: ''", "client_id", "must not be empty"),
    (f"{ISSUER}, client_id: a, clientsecret: b", "clientsecret", "unknown key; did you mean 'client_secret'?"),
    (
        f"{ISSUER}, client_id: a, groups: {{eng: 5}}",
        "groups.eng",
        "must be a string, not an integer; put quotes around it",
    ),
    (f"{ISSUER}, client_id: a, groups: [eng]", "groups", "must be a mapping, not a list"),
    (
        f"{ISSUER}, client_id: a, scopes: []",
        "scopes",
        "must not be empty; leave the key out for openid, email and profile",
    ),
    (f"{ISSUER}, client_id: a, scopes: ['a b']", "scopes.0", "must be one scope, such as groups, without spaces"),
    (f'{ISSUER}, client_id: a, name: "a\\0"', "name", TEXT),
    *[
        (f"issuer: '{issuer}', client_id: a", "issuer", ADDRESS)
        for issuer in (
            *("http://login.example.org", "login.example.org", "https://", "ftp://x", "https://user:secret@x.example"),
            *(
                "https://x.example?a=b",
                "https://x.example#a",
                "https://x example",
                "https://x:port",
                "https://é.example",
            ),
        )
    ],
]


@pytest.mark.parametrize(("oidc", "key", "message"), FAULTS, ids=[oidc for oidc, _, _ in FAULTS])
def test_each_fault_has_its_line_and_says_what_is_allowed(conf: Conf, oidc: str, key: str, message: str) -> None:
    (fault,) = conf.report(f"server: {{port: 8080}}\nauth:\n  oidc: {{{oidc}}}\n")
    assert fault == f"FILE:3: auth.oidc.{key}: {message}"


def test_the_smallest_section_and_the_largest(conf: Conf) -> None:
    small = conf.load("auth: {oidc: {issuer: 'http://127.0.0.1:9000', client_id: gate}}").oidc
    assert small == OidcConfig(issuer="http://127.0.0.1:9000", client_id="gate", client_secret=Secret(""))
    large = conf.load(
        "auth:\n  oidc:\n    issuer: https://login.example.org/realm\n    client_id: gate\n    client_secret: ${SECRET}\n"
        "    name: Acme\n    scopes: [email, groups]\n    groups_claim: roles\n    groups: {eng: research, 'a/b c': ops}\n",
        {"SECRET": "a-secret-of-the-client"},
    )
    assert large.oidc == OidcConfig(
        issuer="https://login.example.org/realm",
        client_id="gate",
        client_secret=Secret("a-secret-of-the-client"),
        name="Acme",
        scopes=("openid", "email", "groups"),
        groups_claim="roles",
        groups={"eng": "research", "a/b c": "ops"},
    )
    assert "a-secret-of-the-client" not in repr(large)
    assert "a-secret-of-the-client" in collect_secrets(large)
    assert conf.load("auth: {}").oidc is None


def test_the_password_of_the_database_is_a_secret_in_logs(conf: Conf) -> None:
    loaded = conf.load("database: 'postgresql://gate:pass%2Fword-1@db.example/gate'")
    assert {"pass%2Fword-1", "pass/word-1"} <= collect_secrets(loaded)
