"""Cookies of the console: their protection over https, and cookies that somebody else has planted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from http.cookies import Morsel, SimpleCookie
from pathlib import Path
from urllib.parse import urlencode

import httpx
import pytest

from tests.support.gateway import Gateway
from tests.support.oidc import OidcProvider

CONF = """
server: {SERVER}
plugins: {local: true}
providers: {local: {plugin: local}}
models: {local-chat: {provider: local}}
keys: [{name: test, key: a-key-of-the-test-012}]
console: {signup: open}
auth: {oidc: {issuer: 'ISSUER', client_id: gate, client_secret: the-secret-of-the-client-0123456789}}
"""
EMAIL, PASSWORD = "ada@example.org", "correct horse battery"
COOKIES = ("gate_session", "gate_xsrf", "gate_device", "gate_oidc", "gate_flash")
HOST = "__Host-"
HTTPS = {"X-Forwarded-Proto": "https"}
Jar = dict[str, str]


def encode(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    """Headers as bytes, in UTF-8; a surrogate escape is a single byte."""
    return [(name.encode(), value.encode("utf-8", "surrogateescape")) for name, value in headers.items()]


class Site:
    """A gateway, and requests with exactly the cookies and headers that a test gives them."""

    def __init__(self, gateway: Gateway, headers: dict[str, str]) -> None:
        self.gateway, self.headers = gateway, headers
        self.client = httpx.Client(base_url=gateway.url, trust_env=False, timeout=30)

    def send(self, method: str, path: str, cookies: Sequence[str] = (), **form: str) -> httpx.Response:
        headers = {"Accept": "text/html", **self.headers, **({"Cookie": "; ".join(cookies)} if cookies else {})}
        content = urlencode(form).encode() if form else None
        if form:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        self.client.cookies.clear()
        return self.client.request(method, path, headers=encode(headers), content=content)

    def collect(self, response: httpx.Response) -> dict[str, Morsel[str]]:
        """The cookies that a response sets, by name."""
        lines = response.headers.get_list("set-cookie")
        return {name: morsel for line in lines for name, morsel in SimpleCookie(line).items()}

    def sign_up(self, prefix: str, email: str = EMAIL) -> tuple[Jar, dict[str, Morsel[str]]]:
        """The cookies of a new account by name with its prefix, and all cookies that were set."""
        found = self.collect(self.send("GET", "/console/signup"))
        token = found[prefix + "gate_xsrf"].value
        setup = re.search(r"/console/signup\?token=(\S+)", self.gateway.wait_for_log("/console/signup?token="))
        assert setup is not None
        fields = {"_xsrf": token, "email": email, "password": PASSWORD, "setup_token": setup[1]}
        response = self.send("POST", "/console/signup", [f"{prefix}gate_xsrf={token}"], **fields)
        assert response.status_code == 303, response.text
        found |= self.collect(response)
        found |= self.collect(self.send("GET", "/console/oidc/start"))
        jar = {name: morsel.value for name, morsel in found.items()}
        out = self.send("POST", "/console/logout", [f"{prefix}gate_xsrf={token}"], _xsrf=token)
        found |= {name: morsel for name, morsel in self.collect(out).items() if morsel.value}
        return jar, found


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OidcProvider]:
    started = OidcProvider(tmp_path_factory.mktemp("provider"))
    yield started
    started.stop()


def serve(folder: Path, provider: OidcProvider, server: str) -> Gateway:
    return Gateway.start(CONF.replace("SERVER", server).replace("ISSUER", provider.issuer), folder)


@pytest.fixture(scope="module", params=["public_url", "trusted proxy"])
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, provider: OidcProvider
) -> Iterator[Site]:
    """A gateway behind a proxy that speaks https with browsers and http with the gateway."""
    by_conf = request.param == "public_url"
    server = "public_url: 'https://gate.example.org'" if by_conf else "trusted_proxies: [127.0.0.1]"
    gateway = serve(tmp_path_factory.mktemp("https"), provider, server)
    yield Site(gateway, {} if by_conf else HTTPS)
    gateway.stop()


@pytest.fixture(scope="module")
def signed_up(site: Site) -> tuple[Jar, dict[str, Morsel[str]]]:
    return site.sign_up(HOST)


def test_every_cookie_is_secure_and_of_this_host_alone_when_the_public_address_is_https(
    signed_up: tuple[Jar, dict[str, Morsel[str]]],
) -> None:
    _, cookies = signed_up
    assert cookies.keys() == {HOST + name for name in COOKIES}
    for name, cookie in cookies.items():
        protection = (cookie["secure"], cookie["httponly"], cookie["samesite"], cookie["path"], cookie["domain"])
        assert protection == (True, True, "Lax", "/", ""), name


def is_signed_in(site: Site, *cookies: str) -> bool:
    return site.send("GET", "/console/keys", cookies).status_code == 200


def test_a_planted_session_is_not_that_of_the_visitor(
    site: Site, signed_up: tuple[Jar, dict[str, Morsel[str]]]
) -> None:
    jar, _ = signed_up
    own = f"{HOST}gate_session={jar[HOST + 'gate_session']}"
    planted = jar[HOST + "gate_session"]
    assert is_signed_in(site, own, "other=1")
    assert not is_signed_in(site, own, f"{HOST}gate_session=planted")
    assert not is_signed_in(site, f"{HOST}gate_session=planted", own)
    assert not is_signed_in(site, own, own)
    assert not is_signed_in(site, f"gate_session={planted}")
    for name in (
        "__host-gate_session",
        f"\udc85{HOST}gate_session",
        f"\u2000{HOST}gate_session",
        f"{HOST}gate_session\udca0",
    ):
        assert not is_signed_in(site, f"{name}={planted}"), ascii(name)
    assert is_signed_in(site, own, f"\u2000{HOST}gate_session=planted", "gate_session=planted")


def test_two_cookies_in_two_headers_are_two_cookies(site: Site, signed_up: tuple[Jar, dict[str, Morsel[str]]]) -> None:
    own = f"{HOST}gate_session={signed_up[0][HOST + 'gate_session']}"
    for cookies, status in (([own, "other=1"], 200), ([own, f"{HOST}gate_session=planted"], 302)):
        headers = [*encode(site.headers), *((b"Cookie", cookie.encode()) for cookie in cookies)]
        assert site.client.get("/console/keys", headers=headers).status_code == status, cookies


def test_a_form_with_two_tokens_in_cookies_is_refused(
    site: Site, signed_up: tuple[Jar, dict[str, Morsel[str]]]
) -> None:
    jar, _ = signed_up
    session = f"{HOST}gate_session={jar[HOST + 'gate_session']}"
    token = jar[HOST + "gate_xsrf"]
    planted = "2|00000000|00000000000000000000000000000000|1700000000"

    def rename(*cookies: str, xsrf: str) -> int:
        fields = {"_xsrf": xsrf, "name": "Ada"}
        return site.send("POST", "/console/account/name", [session, *cookies], **fields).status_code

    own = f"{HOST}gate_xsrf={token}"
    assert rename(own, xsrf=token) == 303
    for cookies in ([own, f"{HOST}gate_xsrf={planted}"], [f"{HOST}gate_xsrf={planted}", own], [f"gate_xsrf={planted}"]):
        assert rename(*cookies, xsrf=planted) == 403, cookies


@pytest.mark.qa
def test_two_device_cookies_prove_no_device_and_two_states_no_sign_in(
    site: Site, signed_up: tuple[Jar, dict[str, Morsel[str]]]
) -> None:
    jar, _ = signed_up
    state = f"{HOST}gate_oidc={jar[HOST + 'gate_oidc']}"
    for cookies in ([state, state], [f"{HOST}gate_oidc=planted", state]):
        response = site.send("GET", "/console/oidc/callback?state=x&code=y", cookies)
        assert response.status_code == 400
        assert "another browser" in response.text
    token = jar[HOST + "gate_xsrf"]
    device = f"{HOST}gate_device={jar[HOST + 'gate_device']}"

    def sign_in(password: str, *cookies: str) -> int:
        fields = {"_xsrf": token, "email": EMAIL, "password": password}
        return site.send("POST", "/console/login", [f"{HOST}gate_xsrf={token}", *cookies], **fields).status_code

    while sign_in("wrong password") != 429:
        pass
    assert sign_in(PASSWORD, device, f"{HOST}gate_device=planted") == 429
    assert sign_in(PASSWORD, f"{HOST}gate_device=planted", device) == 429
    assert sign_in(PASSWORD, device) == 303


def test_plain_http_keeps_the_plain_names_and_refuses_two_sessions(tmp_path: Path, provider: OidcProvider) -> None:
    gateway = serve(tmp_path, provider, "trusted_proxies: [127.0.0.1]")
    site = Site(gateway, {"X-Forwarded-Proto": "http"})
    jar, cookies = site.sign_up("")
    assert cookies.keys() == set(COOKIES)
    for name, cookie in cookies.items():
        assert (cookie["secure"], cookie["httponly"], cookie["path"], cookie["domain"]) == ("", True, "/console", ""), (
            name
        )
    own = f"gate_session={jar['gate_session']}"
    assert is_signed_in(site, own)
    assert not is_signed_in(site, own, "gate_session=planted")
    assert not is_signed_in(site, f"{HOST}gate_session={jar['gate_session']}")
    # Behind the same address over https, the cookie of plain http is not read: people sign in again.
    assert not is_signed_in(Site(gateway, HTTPS), own)
    gateway.stop()
