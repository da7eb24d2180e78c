"""HTTPS of the fast front: handshakes, limits, back-pressure and ends of connections."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from websockets.asyncio.client import connect as connect_to_socket

from tests.support.front import Client, Running, run
from tests.support.front_stage import Stage, application, get, ours, play, post
from tests.support.tls import CertificateFiles
from tornado_gate.http.server.limits import ConnectionLimits
from tornado_gate.http.server.pacing import Times
from tornado_gate.http.server.refusals import Limit, PlainRefusals


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> CertificateFiles:
    return CertificateFiles.write(tmp_path_factory.mktemp("tls"))


class SeenLimits(PlainRefusals):
    def __init__(self) -> None:
        self.reached: list[str] = []

    def on_limit(self, limit: str, address: str) -> None:
        self.reached.append(limit)


def connect_socket(port: int, files: CertificateFiles) -> connect_to_socket:
    return connect_to_socket(f"wss://127.0.0.1:{port}/echo", ssl=files.trust(), proxy=None)


async def connect(running: Running, files: CertificateFiles) -> Client:
    return Client(*await asyncio.open_connection("127.0.0.1", running.port, ssl=files.trust(), limit=1 << 16))


@ours
def test_requests_have_the_scheme_https_and_a_connection_serves_several(front: str, files: CertificateFiles) -> None:
    async def scene(running: Running, stage: Stage) -> None:
        client = await connect(running, files)
        for _ in range(3):
            await client.send(get(b"/"))
            assert b'"protocol": "https"' in (await client.answer()).body
        body = b"x" * 700_000
        await client.send(post(b"/", body))
        assert (await client.answer()).body == body
        await client.close()

    play(front, scene, tls=files.make_server_context())


@ours
def test_a_stream_arrives_in_chunks(front: str, files: CertificateFiles) -> None:
    async def scene(running: Running, stage: Stage) -> None:
        client = await connect(running, files)
        await client.send(get(b"/pieces"))
        await client.head()
        chunks = client.chunks()
        assert await anext(chunks) == b"one"
        stage.go.set()
        assert await anext(chunks) == b"two"
        await client.close()

    play(front, scene, tls=files.make_server_context())


@ours
def test_a_client_that_does_not_read_stops_the_handler_and_is_closed(front: str, files: CertificateFiles) -> None:
    async def scene(running: Running, stage: Stage) -> None:
        client = await connect(running, files)
        client.pause()
        await client.send(get(b"/big"))
        written = 0
        while (told := await stage.told.get()) != "closed":
            written = told
        assert written < 20_000_000
        client.reset()

    seen = SeenLimits()
    play(front, scene, tls=files.make_server_context(), refusals=seen, times=Times(stall_seconds=0.3))
    assert seen.reached == [Limit.STALLED]


@ours
def test_the_handler_learns_that_its_client_has_left(front: str, files: CertificateFiles) -> None:
    async def scene(running: Running, stage: Stage) -> None:
        client = await connect(running, files)
        await client.send(get(b"/slow"))
        assert await stage.told.get() == "begun"
        client.writer.close()
        assert await stage.told.get() == "left"

    play(front, scene, tls=files.make_server_context())


@ours
def test_plain_http_gets_the_end_of_the_connection(front: str, files: CertificateFiles) -> None:
    async def scene(running: Running, stage: Stage) -> None:
        client = await running.connect()
        await client.send(get(b"/"))
        assert not (await client.rest()).startswith(b"HTTP/")  # at most an alert of TLS; no reset
        await client.close()

    play(front, scene, tls=files.make_server_context())


@ours
@pytest.mark.parametrize("begin", [b"", b"\x16\x03\x01"])
def test_a_handshake_that_never_ends_is_closed(front: str, files: CertificateFiles, begin: bytes) -> None:
    async def scene(running: Running, stage: Stage) -> None:
        client = await running.connect()
        await client.send(begin)
        assert await client.rest() == b""
        await client.close()

    play(front, scene, tls=files.make_server_context(), times=Times(first_head_seconds=0.2))


@ours
def test_connections_in_their_handshake_count_and_make_room_for_others(front: str, files: CertificateFiles) -> None:
    async def scene(running: Running, stage: Stage) -> None:
        silent = [await running.connect() for _ in range(2)]
        client = await connect(running, files)
        await client.send(get(b"/"))
        assert (await client.answer()).status == 200
        ends = [asyncio.ensure_future(one.rest()) for one in silent]
        (end,), (other,) = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        assert end.result() == b""
        other.cancel()
        await client.close()

    seen = SeenLimits()
    play(front, scene, tls=files.make_server_context(), refusals=seen, limits=ConnectionLimits(total=2))
    assert seen.reached == [Limit.CONNECTIONS]


@ours
def test_a_connection_beyond_the_limit_gets_its_503_over_tls(front: str, files: CertificateFiles) -> None:
    async def scene(running: Running, stage: Stage) -> None:
        busy = await connect(running, files)
        await busy.send(get(b"/slow"))
        assert await stage.told.get() == "begun"
        refused = await connect(running, files)
        assert (await refused.answer()).status == 503
        assert await refused.rest() == b""
        await refused.close()
        stage.go.set()
        assert (await busy.answer()).status == 200
        await busy.close()

    play(front, scene, tls=files.make_server_context(), limits=ConnectionLimits(total=1))


@ours
def test_a_refused_client_that_still_sends_gets_its_response(front: str, files: CertificateFiles) -> None:
    async def scene(running: Running, stage: Stage) -> None:
        client = await connect(running, files)
        client.writer.write(post(b"/", b"x" * 3_000_000))
        assert (await client.answer()).status == 413
        assert await client.rest() == b""
        await client.close()

    play(front, scene, tls=files.make_server_context(), body_bytes=1000)


@ours
def test_a_websocket_runs_over_tls(front: str, files: CertificateFiles) -> None:
    async def scene(running: Running, stage: Stage) -> None:
        message = "x" * 500_000
        async with connect_socket(running.port, files) as client:
            for _ in range(4):
                await client.send(message)
            assert [await client.recv() for _ in range(4)] == [message] * 4
        assert await stage.told.get() == "left"

    play(front, scene, tls=files.make_server_context())


def test_a_websocket_runs_over_tls_behind_tornados_server(files: CertificateFiles) -> None:
    async def scene() -> None:
        stage = Stage()
        sockets = bind_sockets(0, "127.0.0.1")
        server = HTTPServer(application(stage), ssl_options=files.make_server_context())
        server.add_sockets(sockets)
        message = "x" * 500_000
        async with connect_socket(sockets[0].getsockname()[1], files) as client:
            for _ in range(4):
                await client.send(message)
            assert [await client.recv() for _ in range(4)] == [message] * 4
        assert await stage.told.get() == "left"
        server.stop()

    run("tornado", scene())


@ours
def test_a_renewed_certificate_is_for_new_connections(front: str, files: CertificateFiles, tmp_path: Path) -> None:
    renewed = CertificateFiles.write(tmp_path, "renewed")

    async def scene(running: Running, stage: Stage) -> None:
        old = await connect(running, files)
        running.server.renew_certificate(renewed.make_server_context())  # type: ignore[union-attr]
        new = await connect(running, renewed)
        for client in (old, new):
            await client.send(get(b"/"))
            assert (await client.answer()).status == 200
            await client.close()
        with pytest.raises(ssl.SSLCertVerificationError):
            await connect(running, files)

    play(front, scene, tls=files.make_server_context())
