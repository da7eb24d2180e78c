"""Sign-in by a real OpenID provider (npm `oidc-provider`), through the gateway's pages."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.gateway import Gateway
from tests.support.oidc import CLIENT_SECRET, Browser, OidcProvider, read_query
from tests.support.people import add_member
from tests.support.served import Ask
from tornado_gate.accounts import identity_provider
from tornado_gate.accounts.accounts import Accounts
from tornado_gate.accounts.identity_provider import IdentityProvider
from tornado_gate.accounts.keys import KeyStore
from tornado_gate.accounts.oidc import Identity, OidcError, UnknownKey, start_attempt
from tornado_gate.accounts.throttle import ADDRESS_ATTEMPTS
from tornado_gate.config.model import OidcConfig, Secret
from tornado_gate.database.opening import open_database
from tornado_gate.types.value import replace

CONF = """
plugins: {local: true}
providers: {local: {plugin: local}}
models: {local-chat: {provider: local}}
keys: [{name: test, key: a-key-of-the-test-012}]
console: {signup: closed}
auth:
  oidc: {issuer: 'ISSUER', client_id: gate, client_secret: 'the-secret-of-the-client+/%', name: 'Acme "<b>SSO"',
         scopes: [openid, email, profile, groups], groups: {eng: Engineering, ops: Operations}}
"""
REFUSED = "Signing in with the identity provider failed"


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OidcProvider]:
    started = OidcProvider(tmp_path_factory.mktemp("provider"))
    yield started
    started.stop()


@pytest.fixture(scope="module")
def gateway(provider: OidcProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway that is closed to strangers. The provider has made the first account, root."""
    started = Gateway.start(CONF.replace("ISSUER", provider.issuer), tmp_path_factory.mktemp("gateway"))
    provider.set_claims("root", email="root@example.org", email_verified=True, name="Root", groups=["ops"])
    yield started
    started.stop()


@pytest.fixture
def browse(gateway: Gateway) -> Iterator[Callable[[], Browser]]:
    """Make browsers for the gateway."""
    browsers: list[Browser] = []

    def make() -> Browser:
        browsers.append(Browser(gateway.url))
        return browsers[-1]

    yield make
    for browser in browsers:
        browser.close()


@pytest.fixture(scope="module")
def administrator(gateway: Gateway, provider: OidcProvider) -> Iterator[Browser]:
    """The browser of root, who signs in for the first account with the printed token."""
    browser = Browser(gateway.url)
    found = re.search(r"/console/signup\?token=(\S+)", gateway.wait_for_log("/console/signup?token="))
    assert found is not None
    without = Browser(gateway.url)
    assert "set-up token" in without.read_message(without.sign_in("root"))
    page = browser.get(f"/console/signup?token={found[1]}")
    link = re.search(r'href="(/console/oidc/start\?[^"]+)"', page.text)
    assert link is not None
    address = browser.get(link[1].replace("&amp;", "&")).headers["location"]
    assert browser.get(browser.log_in(address, "root")).headers["location"] == "/console/"
    assert found[1] not in address
    yield browser
    without.close()
    browser.close()


def add_person(provider: OidcProvider, login: str, **claims: Any) -> None:
    provider.set_claims(login, **{"email": f"{login}@example.org", "email_verified": True, "groups": ["eng"], **claims})


def is_signed_in(browser: Browser) -> bool:
    return browser.get("/console/account").status_code == 200


# Through the pages


def test_the_first_account_is_the_administrator(administrator: Browser) -> None:
    assert is_signed_in(administrator)
    assert "Administration" in administrator.get("/console/").text


def test_a_button_leads_to_the_provider_and_back_to_the_wanted_page(
    provider: OidcProvider, administrator: Browser, browse: Callable[[], Browser]
) -> None:
    add_person(provider, "ann")
    browser = browse()
    page = browser.get("/console/login?next=%2Fconsole%2Fkeys%3Fx%3D1").text
    assert "Sign in with Acme &quot;&lt;b&gt;SSO&quot;" in page
    link = re.search(r'href="(/console/oidc/start\?[^"]+)"', page)
    assert link is not None
    response = browser.get(link[1].replace("&amp;", "&"))
    assert response.headers["location"].startswith(provider.issuer + "/auth?")
    cookie = response.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    back = browser.get(browser.log_in(response.headers["location"], "ann"))
    assert back.headers["location"] == "/console/keys?x=1"
    assert is_signed_in(browser)
    assert "Administration" not in browser.get("/console/").text


@pytest.mark.parametrize("wanted", ["https://evil.example/", "//evil.example", "/\\evil.example", "/v1/models"])
def test_nobody_is_led_to_another_site(
    provider: OidcProvider, administrator: Browser, browse: Callable[[], Browser], wanted: str
) -> None:
    add_person(provider, "ann")
    assert browse().sign_in("ann", next=wanted).headers["location"] == "/console/"


def test_somebody_in_no_mapped_group_is_refused_by_a_closed_gateway(
    provider: OidcProvider, administrator: Browser, browse: Callable[[], Browser]
) -> None:
    add_person(provider, "stranger", groups=["others"])
    browser = browse()
    assert "cannot be created" in browser.read_message(browser.sign_in("stranger"))
    assert not is_signed_in(browser)


def test_an_unverified_email_does_not_open_an_account(
    provider: OidcProvider, administrator: Browser, browse: Callable[[], Browser]
) -> None:
    add_person(provider, "mallory", email="ROOT@example.org", email_verified=False)
    browser = browse()
    assert "has not verified" in browser.read_message(browser.sign_in("mallory"))
    add_person(provider, "mallory", email="root@example.org", email_verified=True)
    assert "belongs to another identity" in browser.read_message(browser.sign_in("mallory"))
    assert not is_signed_in(browser)


def test_a_code_is_used_once_and_an_attempt_too(
    provider: OidcProvider, administrator: Browser, browse: Callable[[], Browser], gateway: Gateway
) -> None:
    add_person(provider, "ann")
    browser = browse()
    start_address = browser.begin()
    attempt = browser.client.cookies.get("gate_oidc")
    back = browser.log_in(start_address, "ann")
    assert browser.get(back).headers["location"] == "/console/"
    assert "another browser" in browser.read_message(browser.get(back))  # the attempt is used up
    browser.client.cookies.set("gate_oidc", attempt, domain="127.0.0.1", path="/console")
    assert REFUSED in browser.read_message(browser.get(back))  # and so is the code
    gateway.wait_for_log("invalid_grant")
    assert read_query(back)["code"] not in gateway.logs
    assert CLIENT_SECRET not in gateway.logs


def test_the_response_to_another_browsers_sign_in_is_refused(
    provider: OidcProvider, administrator: Browser, browse: Callable[[], Browser]
) -> None:
    add_person(provider, "mallory")
    attacker, victim = browse(), browse()
    back = attacker.log_in(attacker.begin(), "mallory")
    assert "another browser" in victim.read_message(victim.get(back))
    victim.begin()
    assert "another browser" in victim.read_message(victim.get(back))
    assert not is_signed_in(victim)


def change_attempt(browser: Browser, **changes: Any) -> None:
    """Change what the browser keeps of its sign-in."""
    kept = json.loads(base64.urlsafe_b64decode(browser.client.cookies["gate_oidc"]))
    text = base64.urlsafe_b64encode(json.dumps({**kept, **changes}).encode()).decode()
    browser.client.cookies.set("gate_oidc", text, domain="127.0.0.1", path="/console")


@pytest.mark.parametrize("changes", [{"nonce": "other"}, {"verifier": "v" * 43}, {"created": 1.0}])
def test_a_wrong_nonce_or_verifier_or_an_old_attempt_is_refused(
    provider: OidcProvider, administrator: Browser, browse: Callable[[], Browser], changes: dict[str, Any]
) -> None:
    add_person(provider, "ann")
    browser = browse()
    back = browser.log_in(browser.begin(), "ann")
    change_attempt(browser, **changes)
    browser.read_message(browser.get(back))
    assert not is_signed_in(browser)


@pytest.mark.parametrize(
    "change",
    [
        lambda query: query | {"iss": "https://evil.example"},  # mix-up: the response of another provider
        lambda query: {name: value for name, value in query.items() if name != "iss"},
        lambda query: query | {"state": "other"},
        lambda query: query | {"code": "other"},
        lambda query: query | {"code": "x" * 10_000},
        lambda query: {"state": query["state"], "iss": query["iss"], "error": "access_denied"},
        lambda query: {
            "state": query["state"],
            "iss": query["iss"],
            "error": "<script>",
            "error_description": "\n\x00",
        },
        lambda query: {},
    ],
)
def test_a_changed_response_is_refused(
    provider: OidcProvider,
    administrator: Browser,
    browse: Callable[[], Browser],
    change: Callable[[dict[str, str]], dict[str, str]],
) -> None:
    add_person(provider, "ann")
    browser = browse()
    query = read_query(browser.log_in(browser.begin(), "ann"))
    browser.read_message(browser.get("/console/oidc/callback", params=change(query)))
    assert not is_signed_in(browser)


@pytest.mark.parametrize("cookie", ["", "x", "AAAA", "W10=", "eyJzdGF0ZSI6IDV9", "é", "x" * 3000])
def test_a_damaged_cookie_is_no_attempt(administrator: Browser, browse: Callable[[], Browser], cookie: str) -> None:
    response = browse().get("/console/oidc/callback?state=x&code=y", headers={"Cookie": f"gate_oidc={cookie}".encode()})
    assert response.status_code == 400


def test_a_key_of_who_had_taken_the_email_first_reads_nothing_after_the_owner_has_come(
    provider: OidcProvider, administrator: Browser, browse: Callable[[], Browser], gateway: Gateway
) -> None:
    accounts = Accounts(open_database(gateway.folder / "var"), session_seconds=3600)
    thief = add_member(accounts, "victim@example.org")
    text, _ = KeyStore(accounts.database).create("k", user=thief.id, created_by=thief.id)
    accounts.database.close()
    with httpx.Client(base_url=gateway.url, headers={"Authorization": f"Bearer {text}"}) as client:
        made = client.post("/v1/responses", json={"model": "local-chat", "input": "Hi", "store": True}).json()
        assert client.get(f"/v1/responses/{made['id']}").status_code == 200
        add_person(provider, "victim")
        browse().sign_in("victim")
        end = time.monotonic() + 60
        while client.get(f"/v1/responses/{made['id']}").status_code != 401:
            assert time.monotonic() < end


def test_requests_without_a_known_state_cost_nobody_a_sign_in(
    provider: OidcProvider, administrator: Browser, browse: Callable[[], Browser]
) -> None:
    add_person(provider, "ann")
    victim, others = browse(), browse()
    back = victim.log_in(victim.begin(), "ann")
    others.begin()
    for number in range(ADDRESS_ATTEMPTS + 10):
        path = f"/console/oidc/callback?state={number}&code=y"
        assert (others.get(path).status_code, victim.get(path).status_code) == (400, 400), "an image of any web page"
    assert victim.get(back).headers["location"] == "/console/", "the attempt of the browser is still there"
    assert is_signed_in(victim)


def test_responses_with_a_known_state_are_counted(provider: OidcProvider, tmp_path: Path) -> None:
    gateway = Gateway.start(CONF.replace("ISSUER", provider.issuer), tmp_path)
    browser = Browser(gateway.url)
    statuses = []
    for _ in range(ADDRESS_ATTEMPTS + 1):
        state = read_query(browser.begin())["state"]
        answer = browser.get("/console/oidc/callback", params={"state": state, "error": "access_denied"})
        statuses.append((answer.status_code, "retry-after" in answer.headers))
    assert statuses == [(303, False)] * ADDRESS_ATTEMPTS + [(303, True)]
    browser.close()
    gateway.stop()


def test_signing_in_ends_the_session_before_it(
    provider: OidcProvider, administrator: Browser, browse: Callable[[], Browser]
) -> None:
    add_person(provider, "ann")
    browser = browse()
    browser.sign_in("ann")
    first = browser.client.cookies["gate_session"]
    browser.sign_in("ann")
    assert browser.client.cookies["gate_session"] != first
    headers = {"Cookie": f"gate_session={first}"}
    assert browse().get("/console/account", headers=headers).status_code == 302


@pytest.mark.gen_test
async def test_without_a_provider_in_conf_there_is_no_button(ask: Ask) -> None:
    assert b"Sign in with" not in (await ask("/console/signup")).body
    response = await ask("/console/oidc/start", follow_redirects=False)
    assert (response.code, response.headers["Location"]) == (303, "/console/login")


# The requests to the provider


def make_config(provider: OidcProvider, **given: Any) -> OidcConfig:
    return replace(
        OidcConfig(
            issuer=provider.issuer,
            client_id="gate",
            client_secret=Secret(CLIENT_SECRET),
            scopes=("openid", "email", "groups"),
        ),
        **given,
    )


REDIRECT = "http://127.0.0.1:9/console/oidc/callback"


async def authenticate(client: IdentityProvider, login: str, token_config: OidcConfig | None = None) -> Identity:
    """One sign-in; `token_config` is what conf says when the browser comes back."""
    browser, attempt = Browser("http://127.0.0.1:9"), start_attempt()
    address = await client.begin(attempt, REDIRECT)
    back = await asyncio.to_thread(browser.log_in, address, login)
    browser.close()
    if token_config is not None:
        client.configure(token_config)
    return await client.finish(attempt, read_query(back), REDIRECT)


def make_client(config: OidcConfig | None) -> IdentityProvider:
    client = IdentityProvider()
    client.configure(config)
    return client


def test_claims_that_the_id_token_lacks_come_from_the_userinfo_endpoint(provider: OidcProvider) -> None:
    add_person(provider, "ann", groups=["eng", "ops"])
    config = make_config(provider, groups={"eng": "Engineering"})
    identity = asyncio.run(authenticate(make_client(config), "ann"))
    assert identity == Identity(
        issuer=provider.issuer, subject="ann", email="ann@example.org", email_verified=True, groups=("eng", "ops")
    )


def test_another_signature_and_the_secret_in_the_form_work_too(provider: OidcProvider) -> None:
    add_person(provider, "ann")
    client = make_client(make_config(provider, client_id="gate-es256"))
    assert asyncio.run(authenticate(client, "ann")).subject == "ann"


def test_a_code_for_another_client_is_worth_nothing(provider: OidcProvider) -> None:
    add_person(provider, "ann")
    client = make_client(make_config(provider))
    with pytest.raises(OidcError) as caught:
        asyncio.run(authenticate(client, "ann", make_config(provider, client_id="other")))
    assert "invalid_grant" in caught.value.reason
    with pytest.raises(OidcError) as caught:
        asyncio.run(authenticate(client, "ann", make_config(provider, client_secret=Secret("wrong"))))
    assert "wrong" not in caught.value.reason


def test_a_real_id_token_is_refused_for_another_audience_nonce_and_time(
    provider: OidcProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_person(provider, "ann")
    client, seen = make_client(make_config(provider)), []
    verify = identity_provider.verify_id_token
    monkeypatch.setattr(identity_provider, "verify_id_token", lambda *given: seen.append(given) or verify(*given))
    asyncio.run(authenticate(client, "ann"))
    token, keys, metadata, client_id, nonce = seen[0]
    assert verify(token, keys, metadata, client_id, nonce)["sub"] == "ann"
    with pytest.raises(OidcError, match=REFUSED) as caught:
        verify(token, keys, metadata, "other", nonce)
    assert "another client" in caught.value.reason
    with pytest.raises(OidcError) as caught:
        verify(token, keys, metadata, client_id, "other")
    assert "nonce" in caught.value.reason
    with pytest.raises(OidcError) as caught:
        verify(token, keys, replace(metadata, issuer="https://evil.example"), client_id, nonce)
    assert "issuer" in caught.value.reason
    monkeypatch.setattr("tornado_gate.accounts.oidc.LEEWAY_SECONDS", -1e6)
    with pytest.raises(OidcError) as caught:
        verify(token, keys, metadata, client_id, nonce)
    assert "expired" in caught.value.reason


def test_new_keys_of_the_provider_are_fetched_once_they_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = OidcProvider(tmp_path)
    add_person(provider, "ann")
    client = make_client(make_config(provider))

    async def sign_in_over_a_restart() -> None:
        await authenticate(client, "ann")
        await asyncio.to_thread(provider.stop)
        await asyncio.to_thread(provider.start)  # it has new keys, and the old configuration is cached
        with pytest.raises(UnknownKey):
            await authenticate(client, "ann")  # unknown keys are looked for once in a while only
        monkeypatch.setattr(identity_provider, "NEW_KEYS_SECONDS", 0.0)
        assert (await authenticate(client, "ann")).subject == "ann"

    asyncio.run(sign_in_over_a_restart())
    provider.stop()
    with pytest.raises(OidcError, match="cannot be reached"):
        asyncio.run(make_client(make_config(provider)).begin(start_attempt(), REDIRECT))


def test_an_issuer_that_calls_itself_otherwise_is_refused(provider: OidcProvider) -> None:
    config = make_config(provider, issuer=provider.issuer.replace("127.0.0.1", "localhost"))
    with pytest.raises(OidcError) as caught:
        asyncio.run(make_client(config).begin(start_attempt(), REDIRECT))
    assert "auth.oidc.issuer" in caught.value.reason


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2000000\r\n\r\n" + b" " * 2_000_000, "ValueError"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nnot JSON!", "not JSON"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 50000\r\n\r\n" + b"[" * 50_000, "not JSON"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Length: 2\r\n\r\n{}", "status 302"),
        (b'HTTP/1.1 500 Oops\r\nContent-Length: 20\r\n\r\n{"error": "x\x01y"}    ', "not JSON"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}", "ClientPayloadError"),
        (b"", "TimeoutError"),
    ],
)
def test_what_a_broken_provider_answers_is_refused_in_time(
    monkeypatch: pytest.MonkeyPatch, answer: bytes, reason: str
) -> None:
    monkeypatch.setattr(identity_provider, "REQUEST_SECONDS", 1.0 if answer else 0.1)

    async def ask() -> None:
        closing = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            if not answer:
                await closing.wait()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        issuer = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        config = OidcConfig(issuer=issuer, client_id="gate", client_secret=Secret(""))
        with pytest.raises(OidcError) as caught:
            await make_client(config).begin(start_attempt(), REDIRECT)
        assert reason in caught.value.reason
        closing.set()
        server.close()

    asyncio.run(ask())
