"""The client through an HTTP proxy: what it sends to the proxy and to the server, and refusals."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import AsyncExitStack
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from tests.support.fetching import make_names
from tests.support.proxies import ForwardProxy
from tests.support.raw import Peer, always, answer, on_both_loops, serving
from tests.support.site import Site
from tests.support.site import answer as site_answer
from tests.support.tls import CertificateFiles
from tests.support.ws_upstream import WsUpstream
from tornado_gate import config as conf
from tornado_gate.accounts.identity_provider import IdentityProvider
from tornado_gate.accounts.oidc import OidcError
from tornado_gate.config.model import OidcConfig, Secret
from tornado_gate.config.network import Network, Proxy
from tornado_gate.config.network_keys import build_network, build_proxy
from tornado_gate.errors import InvalidField, UpstreamError
from tornado_gate.http.client.faults import ConnectError, ConnectTimeout
from tornado_gate.http.client.pool import HttpClient
from tornado_gate.http.fetch import Fetcher, FetchRules
from tornado_gate.http.upstream import Pool
from tornado_gate.http.websocket import open_socket
from tornado_gate.pipeline.conf_secrets import collect_secrets
from tornado_gate.server.process.conf_diff import mask_secrets
from tornado_gate.testing import call_to
from tornado_gate.types import Timeouts, UpstreamRequest, replace

LOGIN = "user:pass%40word"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)


@pytest.fixture(scope="module")
def forward() -> Iterator[ForwardProxy]:
    proxy = ForwardProxy("user:pass@word")
    yield proxy
    proxy.stop()


def make_proxy(forward: ForwardProxy, login: str = LOGIN, direct: tuple[str, ...] = ()) -> Proxy:
    proxy = build_proxy(f"http://{login}@127.0.0.1:{forward.port}", direct)
    assert proxy is not None
    return proxy


async def post(client: HttpClient, url: str, body: bytes = b"{}") -> bytes:
    return b"".join([piece async for piece in await client.request("POST", url, {"X-Own": "1"}, body)])


@on_both_loops
async def test_a_request_over_http_has_the_whole_url_and_the_login_which_the_server_does_not_see(
    forward: ForwardProxy,
) -> None:
    heads: list[bytes] = []

    async def script(peer: Peer) -> None:
        while request := await peer.request():
            heads.append(request)
            await peer.say(answer(b"from the server"))

    async with serving(script) as raw:
        client = HttpClient(5, proxy=make_proxy(forward))
        assert await post(client, f"{raw.url}/v1/a?b=c") == b"from the server"
        await client.close()
    assert heads[0].startswith(b"POST /v1/a?b=c HTTP/1.1\r\n")
    assert b"x-own: 1" in heads[0].lower()
    assert b"proxy-authorization" not in heads[0].lower()
    forward.wait_for_line(f"POST 127.0.0.1:{raw.url.rpartition(':')[2]}/v1/a")


@on_both_loops
async def test_a_tunnel_carries_tls_to_the_server_and_is_used_again(forward: ForwardProxy, tmp_path: Path) -> None:
    files = CertificateFiles.write(tmp_path)
    async with serving(always(answer(b"x" * 300_000)), files.make_server_context()) as raw:
        client = HttpClient(5, files.trust(), make_proxy(forward))
        url = raw.url.replace("127.0.0.1", "localhost")
        for _ in range(3):
            assert await post(client, url, b"y" * 300_000) == b"x" * 300_000
        assert len(raw.peers) == 1
        await client.close()
        await asyncio.to_thread(forward.wait_for_line, f"CONNECT localhost:{url.rpartition(':')[2]}")


@on_both_loops
async def test_hosts_of_no_proxy_are_reached_directly(forward: ForwardProxy) -> None:
    async with serving(always(answer(b"direct"))) as raw:
        client = HttpClient(5, proxy=make_proxy(forward, "nobody:wrong", ("127.0.0.0/8",)))
        assert await post(client, raw.url) == b"direct"
        await client.close()


@on_both_loops
@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "user or password"),
        (b"HTTP/1.1 403 Forbidden\r\n\r\n", "status 403"),
        (b"HTTP/1.1 200 OK\r\n\r\nearly", "before the tunnel"),
        (b"no HTTP at all\r\n\r\n", "no tunnel"),
        (b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 4000, "no complete answer"),
        (b"", "no complete answer"),
    ],
    ids=["login", "forbidden", "early data", "nonsense", "endless", "closed"],
)
async def test_a_tunnel_that_is_not_opened_is_a_failed_connection(said: bytes, reason: str) -> None:
    async def script(peer: Peer) -> None:
        await peer.reader.readuntil(b"\r\n\r\n")
        await peer.say(said)

    async with serving(script) as raw:
        proxy = Proxy(host="127.0.0.1", port=int(raw.url.rpartition(":")[2]), login="user:hidden-password")
        client = HttpClient(5, proxy=proxy)
        with pytest.raises(ConnectError, match=reason) as caught:
            await post(client, "https://unknown.test/v1")
        assert "hidden" not in str(caught.value)
        assert "hidden" not in repr(proxy)
        await client.close()


@on_both_loops
async def test_a_proxy_that_does_not_answer_is_within_the_time_for_connecting() -> None:
    async def script(peer: Peer) -> None:
        await peer.gone()

    async with serving(script) as raw:
        client = HttpClient(0.05, proxy=Proxy(host="127.0.0.1", port=int(raw.url.rpartition(":")[2])))
        with pytest.raises(ConnectTimeout):
            await post(client, "https://unknown.test/v1")
        await client.close()


NO_PROXY_CASES = {
    "internal.example": ("internal.example", "a.internal.example", "A.INTERNAL.example."),
    ".internal.example": ("internal.example", "a.internal.example"),
    "10.0.0.0/8": ("10.1.2.3",),
    "fd00::/8": ("fd00::1",),
    "*": ("any.example", "8.8.8.8"),
}


def test_no_proxy_names_hosts_with_their_subdomains_and_networks_of_addresses() -> None:
    for text, hosts in NO_PROXY_CASES.items():
        proxy = build_proxy("http://proxy.example", (text,))
        assert proxy is not None
        assert proxy.port == 3128
        assert not any(map(proxy.covers, hosts)), text
        assert text == "*" or all(map(proxy.covers, ("notinternal.example", "11.1.1.1", "fe00::1"))), text


def make_fetcher(proxy: Proxy, resolve: Any, **rules: Any) -> Fetcher:
    return Fetcher(FetchRules(network=Network(proxy=proxy), **rules), resolve=resolve)


@pytest.mark.gen_test
async def test_the_fetcher_leaves_names_to_the_proxy_that_only_the_proxy_knows(
    forward: ForwardProxy, site: Site
) -> None:
    site.answers["/"] = site_answer(PNG, Content_Type="image/png")

    def knows_nothing(name: str, port: int) -> list[str]:
        raise OSError("unknown")

    fetcher = make_fetcher(make_proxy(forward), knows_nothing)
    url = f"http://localhost:{site.port}/"
    assert (await fetcher.fetch(url, kinds=["image/"], param="image_url")).data == PNG
    assert await fetcher.post(url, b"{}", {}, seconds=10) == 200


@pytest.mark.parametrize("host", ["127.0.0.1", "169.254.169.254", "inside.test", "[::1]"])
@pytest.mark.gen_test
async def test_the_fetcher_refuses_private_addresses_that_it_can_see_before_it_asks_the_proxy(
    forward: ForwardProxy, host: str
) -> None:
    fetcher = make_fetcher(make_proxy(forward, "nobody:wrong"), make_names())
    with pytest.raises(InvalidField) as caught:
        await fetcher.fetch(f"http://{host}/", kinds=["image/"], param="image_url")
    assert caught.value.code == "private_address"


@pytest.mark.gen_test
async def test_a_fetch_past_the_proxy_connects_to_checked_addresses_only(forward: ForwardProxy) -> None:
    proxy = make_proxy(forward, "nobody:wrong", ("*",))
    assert not proxy.covers("site.test")
    fetcher = make_fetcher(proxy, make_names(), allow_networks=(ip_network("192.0.2.0/24"),))
    with pytest.raises(InvalidField) as caught:
        await fetcher.fetch("http://site.test/", kinds=["image/"], param="image_url")
    assert caught.value.code == "private_address"


@pytest.mark.gen_test
async def test_files_behind_tls_are_fetched_through_a_tunnel_with_the_private_authority(
    forward: ForwardProxy, tmp_path: Path
) -> None:
    files, site = CertificateFiles.write(tmp_path), Site()
    await site.start(files.make_server_context())
    site.answers["/"] = site_answer(PNG, Content_Type="image/png")
    url = f"https://localhost:{site.port}/"
    section = {"ca_file": str(files.certificate)}
    for trust, works in ((build_network(section, {}, tmp_path).trust, True), (None, False)):
        rules = FetchRules(network=Network(proxy=make_proxy(forward), trust=trust), allow_private=True)
        fetched = Fetcher(rules).fetch(url, kinds=["image/"], param="image_url")
        if works:
            assert (await fetched).data == PNG
        else:
            with pytest.raises(InvalidField, match="certificate"):
                await fetched
    await site.stop()


@pytest.mark.gen_test
async def test_the_providers_of_sign_in_are_reached_through_the_proxy(forward: ForwardProxy, site: Site) -> None:
    issuer = f"http://localhost:{site.port}"
    names = ("authorization_endpoint", "token_endpoint", "jwks_uri")
    document = {"issuer": issuer, **{name: f"{issuer}/{name}" for name in names}}
    site.answers["/.well-known/openid-configuration"] = site_answer(json.dumps(document).encode())
    config = OidcConfig(issuer=issuer, client_id="gateway", client_secret=Secret(""))
    for login, works in ((LOGIN, True), ("nobody:wrong", False)):
        provider = IdentityProvider()
        provider.configure(config, Network(proxy=make_proxy(forward, login)))
        if works:
            assert (await provider._read_metadata(config)).issuer == issuer
        else:
            with pytest.raises(OidcError):
                await provider._read_metadata(config)


@pytest.mark.gen_test
async def test_a_websocket_without_tls_goes_through_a_tunnel_too(forward: ForwardProxy) -> None:
    upstream = WsUpstream(greeting=[{"type": "hello"}])
    upstream.start()
    url = f"http://localhost:{upstream.port}"
    for login, works in ((LOGIN, True), ("nobody:wrong", False)):
        pool = Pool(Timeouts(connect=5), network=Network(proxy=make_proxy(forward, login)))
        async with AsyncExitStack() as closing:
            call = call_to(pool=pool, closing=closing)
            call = replace(call, target=replace(call.target, base_url=url))
            opening = open_socket(call, UpstreamRequest(url=url.replace("http", "ws") + "/realtime"))
            if works:
                assert await (await opening).receive() == '{"type": "hello"}'
            else:
                with pytest.raises(UpstreamError) as caught:
                    await opening
                assert caught.value.code == "upstream_unreachable"
        await pool.close()
    assert [head for head in upstream.headers if "proxy-authorization" in head] == []
    await upstream.stop()
    await asyncio.to_thread(forward.wait_for_line, f"CONNECT localhost:{upstream.port}")


def test_the_password_of_a_proxy_is_a_secret_of_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "gate.yaml"
    file.write_text(
        'network: {proxy: "http://user:pass%40word-1@proxy.example"}\nfetch: {proxy: "http://a:other-word@b"}\n'
    )
    config = conf.load(file, {})
    assert {"pass@word-1", "pass%40word-1", "other-word"} <= collect_secrets(config)
    shown = repr(config) + mask_secrets(file.read_text())
    assert not [word for word in ("word-1", "other-word") if word in shown]
