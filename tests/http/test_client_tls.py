"""The client over TLS: whom it trusts, what it says of itself, and endings that nobody has signed."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import textwrap
from pathlib import Path

import pytest

from tests.support.raw import Peer, Raw, Script, always, answer, on_both_loops, once, serving
from tests.support.site import CERTIFICATE, KEY
from tornado_gate.http.client.faults import ConnectError, ConnectionBroken, ConnectTimeout
from tornado_gate.http.client.pool import HttpClient, make_default_ssl_context


def pem(kind: str, text: str) -> str:
    return f"-----BEGIN {kind}-----\n{textwrap.dedent(text).strip()}\n-----END {kind}-----\n"


@pytest.fixture
def server_tls(tmp_path: Path) -> ssl.SSLContext:
    """A server that is site.test, as a certificate says that trusts only itself."""
    files = tmp_path / "certificate", tmp_path / "key"
    files[0].write_text(pem("CERTIFICATE", CERTIFICATE))
    files[1].write_text(pem("PRIVATE KEY", KEY))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files)
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context


def trusting() -> ssl.SSLContext:
    """As a client usually trusts, and this certificate too."""
    context = ssl.create_default_context(cadata=pem("CERTIFICATE", CERTIFICATE))
    context.set_alpn_protocols(("http/1.1",))
    return context


@pytest.fixture(autouse=True)
def site_test_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    async def resolved(_: HttpClient, origin: tuple[str, str, int]) -> list[object]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", origin[2]))]

    monkeypatch.setattr(HttpClient, "_resolve_origin", resolved)


def named(raw: Raw, host: str = "site.test") -> str:
    return raw.url.replace("127.0.0.1", host)


async def body_of(client: HttpClient, url: str, body: bytes = b"{}") -> bytes:
    return b"".join([piece async for piece in await client.request("POST", url, {}, body)])


@on_both_loops
async def test_requests_go_over_one_connection_that_speaks_http_1_1_and_names_its_host(
    server_tls: ssl.SSLContext,
) -> None:
    seen: list[object] = []
    server_tls.sni_callback = lambda _socket, name, _context: seen.append(name)

    async def script(peer: Peer) -> None:
        seen.append(peer.writer.get_extra_info("ssl_object").selected_alpn_protocol())
        await always(answer(b"x" * 300_000))(peer)

    async with serving(script, server_tls) as raw:
        client = HttpClient(5, trusting())
        for _ in range(3):
            assert await body_of(client, named(raw), b"y" * 300_000) == b"x" * 300_000
        assert len(raw.peers) == 1
        await client.close()
    assert seen == ["site.test", "http/1.1"]


@on_both_loops
async def test_a_long_body_that_is_wanted_whole_comes_over_tls(server_tls: ssl.SSLContext) -> None:
    body = b"0123456789abcdef" * 100_000
    async with serving(always(answer(body)), server_tls) as raw:
        client = HttpClient(5, trusting())
        for _ in range(2):
            response = await client.request("POST", named(raw), {}, b"{}")
            assert response.gather_body(lambda size: None) == len(body)
            assert [piece async for piece in response if piece] == [body]
        assert len(raw.peers) == 1
        await client.close()


@on_both_loops
@pytest.mark.parametrize("host", ["other.test", "127.0.0.1"])
async def test_a_certificate_for_somebody_else_is_refused(server_tls: ssl.SSLContext, host: str) -> None:
    async with serving(always(answer()), server_tls) as raw:
        client = HttpClient(5, trusting())
        with pytest.raises(ConnectError, match="certificate"):
            await body_of(client, named(raw, host))
        await client.close()


@on_both_loops
async def test_a_certificate_that_nobody_vouches_for_is_refused(server_tls: ssl.SSLContext) -> None:
    async with serving(always(answer()), server_tls) as raw:
        client = HttpClient(5)
        with pytest.raises(ConnectError, match="certificate"):
            await body_of(client, named(raw))
        await client.close()


def test_the_usual_trust_checks_certificates_and_hosts_and_is_made_once() -> None:
    trust = make_default_ssl_context()
    assert trust.verify_mode is ssl.CERT_REQUIRED
    assert trust.check_hostname
    assert trust is make_default_ssl_context()


@on_both_loops
async def test_a_server_without_tls_is_not_connected() -> None:
    async def script(peer: Peer) -> None:
        await peer.say(answer(status="400 Bad Request"))

    async with serving(script) as raw:
        client = HttpClient(5, trusting())
        with pytest.raises(ConnectError):
            await body_of(client, named(raw).replace("http://", "https://"))
        await client.close()


@on_both_loops
async def test_a_handshake_that_never_ends_is_within_the_time_for_connecting() -> None:
    async def script(peer: Peer) -> None:
        await peer.gone()

    async with serving(script) as raw:
        client = HttpClient(0.05, trusting())
        with pytest.raises(ConnectTimeout):
            await body_of(client, named(raw).replace("http://", "https://"))
        await client.close()


UNTIL_CLOSED = b"HTTP/1.1 200 OK\r\n\r\nbody"


@on_both_loops
async def test_a_body_that_ends_with_its_connection_ends_where_the_other_side_says_so(
    server_tls: ssl.SSLContext,
) -> None:
    async with serving(once(UNTIL_CLOSED), server_tls) as raw:
        client = HttpClient(5, trusting())
        assert await body_of(client, named(raw)) == b"body"
        await client.close()


def ends_unsigned(said: bytes) -> Script:
    """The TCP connection is closed under TLS, as anybody on the way could do it."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(said)
        with socket.socket(fileno=os.dup(peer.writer.get_extra_info("socket").fileno())) as under:
            under.shutdown(socket.SHUT_WR)
        await peer.gone()

    return script


@on_both_loops
@pytest.mark.parametrize("said", [UNTIL_CLOSED, answer(b"half", Content_Length="8")], ids=["no length", "a length"])
async def test_an_ending_that_nobody_signed_is_no_end(server_tls: ssl.SSLContext, said: bytes) -> None:
    async with serving(ends_unsigned(said), server_tls) as raw:
        client = HttpClient(5, trusting())
        with pytest.raises(ConnectionBroken):
            await body_of(client, named(raw))
        await client.close()


@on_both_loops
async def test_leaving_half_way_closes_the_connection(server_tls: ssl.SSLContext) -> None:
    left = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(answer(b"half", Content_Length="8"))
        await peer.gone()
        left.set()

    async with serving(script, server_tls) as raw:
        client = HttpClient(5, trusting())
        response = await client.request("POST", named(raw), {}, b"")
        assert await anext(response) == b"half"
        response.close()
        await left.wait()
        await client.close()
        assert not client._open
