"""Realtime sessions through a real gateway process: the handshake, the relay, both dialects, limits, ends."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from tornado.iostream import IOStream, StreamClosedError
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import Frame, Opcode
from websockets.typing import Subprotocol
from websockets.utils import accept_key

from tests.support.gateway import Gateway
from tests.support.variants import vary
from tests.support.ws_upstream import WsUpstream

KEY = "test-key-of-realtime"
CONF = """
plugins: {{local: true, openai: true}}
providers:
  current: {{plugin: openai, base_url: "http://127.0.0.1:{port}/v1", api_key: key-of-the-upstream}}
  beta: {{plugin: openai, base_url: "http://127.0.0.1:{port}/v1", api_key: key-of-the-upstream, realtime_dialect: beta}}
  nowhere: {{plugin: openai, base_url: "http://127.0.0.1:1/v1", api_key: key-of-the-upstream}}
  local: {{plugin: local}}
models:
  voice: {{provider: current, model: gpt-realtime}}
  old-voice: {{provider: beta, model: gpt-4o-realtime-preview}}
  no-voice: {{provider: nowhere}}
  local-chat: {{provider: local}}
realtime: {{sessions_per_key: 3, messages_per_second: 50, message_bytes: 100000, origins: ["https://app.example"]}}
circuits: {{failures: 1000, open_seconds: 0.001}}
server: {{drain_seconds: 5, http: {http}}}
keys:
  - {{name: test, key: {key}}}
  - {{name: other, key: other-{key}}}
  - {{name: narrow, key: narrow-{key}, operations: [chat]}}
  - {{name: few, key: few-{key}, models: [local-*]}}
"""
SDK = {"User-Agent": "OpenAI/Python 3.52.0"}
CREATED = {"type": "session.created", "event_id": "event_1", "session": {"id": "sess_1", "type": "realtime"}}
SOUND = "AAAA" * 1000
DELTA = {"type": "response.output_audio.delta", "event_id": "e2", "response_id": "r", "item_id": "i", "delta": SOUND}
DONE = {
    "type": "response.done", "event_id": "e3",
    "response": {"id": "r", "status": "completed", "output": [], "usage": {
        "total_tokens": 30, "input_tokens": 10, "output_tokens": 20}},
}  # fmt: skip


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module", params=vary("httptools", "tornado"))
def gateway(port: int, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Gateway]:
    """One behind each front."""
    conf = CONF.format(port=port, key=KEY, http=request.param)
    gateway = Gateway.start(conf, tmp_path_factory.mktemp("realtime"))
    yield gateway
    if gateway.child.process.poll() is None:
        gateway.stop()


Test = Callable[[WsUpstream], Awaitable[None]]


@pytest.fixture
def run(port: int) -> Callable[[Test], None]:
    """Runs a test in a loop in which an upstream listens."""

    def run(test: Test) -> None:
        async def main() -> None:
            upstream = WsUpstream(greeting=[CREATED])
            upstream.start(port)
            try:
                async with asyncio.timeout(30):
                    await test(upstream)
            finally:
                await upstream.stop()

        asyncio.run(main())

    return run


@asynccontextmanager
async def session(
    gateway: Gateway, model: str = "voice", key: str = KEY, **rest: Any
) -> AsyncIterator[ClientConnection]:
    headers = dict(rest.pop("headers", SDK))
    if key:
        headers["Authorization"] = f"Bearer {key}"
    url = f"{gateway.url.replace('http', 'ws')}/v1/realtime?model={model}"
    agent = headers.pop("User-Agent", None)
    async with connect(url, additional_headers=headers, user_agent_header=agent, proxy=None, **rest) as client:
        yield client


async def event(client: ClientConnection) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(await client.recv())
    return told


async def catch_refusal(gateway: Gateway, **rest: Any) -> tuple[int, dict[str, Any]]:
    with pytest.raises(InvalidStatus) as caught:
        async with session(gateway, **rest):
            pass
    response = caught.value.response
    return response.status_code, json.loads(response.body or b"{}")["error"]


# The handshake


def test_without_an_upgrade_it_is_426(gateway: Gateway) -> None:
    headers = {"authorization": f"Bearer {KEY}"}
    response = httpx.get(f"{gateway.url}/v1/realtime?model=voice", headers=headers, trust_env=False)
    assert response.status_code == 426
    assert response.headers["upgrade"] == "websocket"
    assert response.json()["error"]["code"] == "upgrade_required"


@pytest.mark.parametrize("content", [b"x", b"x" * 1_000_000])
def test_a_body_is_refused_before_the_key_is_checked(gateway: Gateway, content: bytes) -> None:
    response = httpx.request("GET", f"{gateway.url}/v1/realtime?model=voice", content=content, trust_env=False)
    assert (response.status_code, response.headers["connection"]) == (413, "close")


def test_head_is_no_handshake(gateway: Gateway) -> None:
    assert httpx.head(f"{gateway.url}/v1/realtime?model=voice", trust_env=False).status_code == 405


HANDSHAKE = {
    "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}  # fmt: skip


@pytest.mark.parametrize(
    ("header", "value", "status"),
    [
        ("Connection", "keep-alive", 400),
        ("Upgrade", "h2c", 426),
        ("Sec-WebSocket-Key", "", 400),
        ("Sec-WebSocket-Key", "not base64 at all", 400),
        ("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAA", 400),
        ("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAAA=", 400),
        ("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA==, AAAAAAAAAAAAAAAAAAAAAA==", 400),
        ("Sec-WebSocket-Version", "8", 426),
    ],
)
def test_a_handshake_that_is_none_is_refused(gateway: Gateway, run: Any, header: str, value: str, status: int) -> None:
    async def test(upstream: WsUpstream) -> None:
        headers = {"Authorization": f"Bearer {KEY}", **HANDSHAKE, header: value}
        async with httpx.AsyncClient(trust_env=False) as client:
            response = await client.get(f"{gateway.url}/v1/realtime?model=voice", headers=headers)
        assert response.status_code == status
        assert response.json()["error"]["message"]
        assert response.headers.get("sec-websocket-version") == ("13" if header.endswith("Version") else None)
        assert upstream.headers == []

    run(test)


def handshake(gateway: Gateway, version: str = "HTTP/1.1", **fields: str) -> bytes:
    host = gateway.url.removeprefix("http://")
    lines = [f"GET /v1/realtime?model=voice {version}\r\nHost: {host}\r\nAuthorization: Bearer {KEY}"]
    lines += [f"{name}: {value}" for name, value in {**HANDSHAKE, **fields}.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def connected(gateway: Gateway) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = gateway.url.removeprefix("http://").partition(":")
    return await asyncio.open_connection(host, int(port))


def test_two_keys_in_a_handshake_are_refused(gateway: Gateway, run: Any) -> None:
    async def test(upstream: WsUpstream) -> None:
        reader, writer = await connected(gateway)
        second = b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        writer.write(handshake(gateway)[:-2] + second)
        assert (await reader.readline()).startswith(b"HTTP/1.1 400 ")
        writer.close()
        assert upstream.headers == []

    run(test)


def test_http_1_0_cannot_be_upgraded(gateway: Gateway, run: Any) -> None:
    async def test(upstream: WsUpstream) -> None:
        reader, writer = await connected(gateway)
        writer.write(handshake(gateway, "HTTP/1.0"))
        assert (await reader.readline()).split()[1] == b"426"
        writer.close()
        assert upstream.headers == []

    run(test)


def test_a_browser_that_keeps_its_connection_alive_is_upgraded(gateway: Gateway, run: Any) -> None:
    async def test(upstream: WsUpstream) -> None:
        reader, writer = await connected(gateway)
        writer.write(handshake(gateway, Connection="keep-alive, Upgrade", Upgrade="WebSocket"))
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101 ")
        fields = dict(line.split(": ", 1) for line in head.decode().lower().strip().split("\r\n")[1:])
        assert (fields["connection"], fields["upgrade"]) == ("upgrade", "websocket")
        assert fields["sec-websocket-accept"] == accept_key(HANDSHAKE["Sec-WebSocket-Key"]).lower()
        assert {"content-type", "content-length", "transfer-encoding"}.isdisjoint(fields)
        writer.close()

    run(test)


def test_messages_sent_before_the_handshake_is_answered_go_up_in_order(gateway: Gateway, run: Any) -> None:
    async def test(upstream: WsUpstream) -> None:
        reader, writer = await connected(gateway)
        messages = [b'{"type": "response.cancel", "number": %d}' % number for number in range(5)]
        frames = [Frame(Opcode.TEXT, message).serialize(mask=True) for message in messages]
        writer.write(handshake(gateway) + b"".join(frames[:3]))
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
        writer.write(b"".join(frames[3:]))
        await upstream.until(lambda: len(upstream.received) == 5)
        assert [json.loads(message)["number"] for message in upstream.received] == [0, 1, 2, 3, 4]
        writer.close()
        await upstream.connections[0].closed.wait()

    run(test)


def test_a_caller_who_closes_its_half_after_the_handshake_ends_the_session(gateway: Gateway, run: Any) -> None:
    async def test(upstream: WsUpstream) -> None:
        reader, writer = await connected(gateway)
        early = Frame(Opcode.TEXT, b'{"type": "response.create"}').serialize(mask=True)
        writer.write(handshake(gateway) + early)
        writer.write_eof()
        await reader.read()
        await upstream.until(lambda: all(one.closed.is_set() for one in upstream.connections))
        writer.close()
        async with session(gateway), session(gateway), session(gateway) as third:  # as many as a key may have
            assert (await event(third))["type"] == "session.created"

    run(test)


def test_a_session_takes_one_descriptor_for_each_end(gateway: Gateway, run: Any) -> None:
    def sockets() -> int:
        count = 0
        for link in Path(f"/proc/{gateway.child.process.pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # a file of the database that was closed meanwhile
                count += os.readlink(link).startswith("socket:")
        return count

    async def test(upstream: WsUpstream) -> None:
        async with session(gateway) as first:
            await first.recv()
            before = sockets()
            async with session(gateway) as second, session(gateway) as third:
                await second.recv()
                await third.recv()
                assert sockets() == before + 4

    run(test)


def test_a_caller_who_leaves_while_the_upstream_is_connected_leaves_nothing_open(gateway: Gateway, port: int) -> None:
    async def test() -> None:
        asked, gone, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = await reader.readuntil(b"\r\n\r\n")
            key = next(
                line.split()[1] for line in head.decode().splitlines() if line.lower().startswith("sec-websocket-key")
            )
            asked.set()
            await gone.wait()
            writer.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n")
            writer.write(f"Sec-WebSocket-Accept: {accept_key(key)}\r\n\r\n".encode())
            assert (await reader.readexactly(1))[0] == 0x88  # goodbye
            writer.close()
            ended.set()

        server = await asyncio.start_server(serve, "127.0.0.1", port)
        _, writer = await connected(gateway)
        writer.write(handshake(gateway))
        await asked.wait()
        writer.transport.abort()
        await asyncio.to_thread(httpx.get, f"{gateway.url}/healthz", trust_env=False)  # the gateway has seen it by then
        gone.set()
        async with asyncio.timeout(60):
            await ended.wait()
        server.close()

    asyncio.run(test())


REFUSALS = [
    ({"key": ""}, 401, "missing_api_key"),
    ({"key": "wrong"}, 401, "invalid_api_key"),
    ({"key": f"narrow-{KEY}"}, 403, "not_allowed"),
    ({"key": f"few-{KEY}"}, 403, "model_not_allowed"),
    ({"model": "no-such"}, 404, "model_not_found"),
    ({"model": ""}, 400, "missing_required_parameter"),
    ({"model": "local-chat"}, 400, "operation_not_supported"),
    ({"model": "no-voice"}, 502, "upstream_unreachable"),
    ({"origin": "https://evil.example"}, 403, "origin_not_allowed"),
    ({"key": "ek_never-was"}, 401, "invalid_api_key"),
]


@pytest.mark.parametrize(("how", "status", "code"), REFUSALS, ids=[code for _, _, code in REFUSALS])
def test_what_can_be_refused_is_refused_before_the_upgrade(
    gateway: Gateway, run: Any, how: dict[str, Any], status: int, code: str
) -> None:
    async def test(upstream: WsUpstream) -> None:
        told_status, error = await catch_refusal(gateway, **how)
        if how.get("model") == "":
            assert told_status == 400
        else:
            assert (told_status, error["code"]) == (status, code)
        assert upstream.connections == []

    run(test)


@pytest.mark.parametrize(("status", "answered"), [(401, 502), (403, 502), (404, 404), (429, 429), (500, 502)])
def test_an_upstream_that_refuses_is_an_http_status(gateway: Gateway, run: Any, status: int, answered: int) -> None:
    async def test(upstream: WsUpstream) -> None:
        upstream.refuses = status
        told, error = await catch_refusal(gateway)
        assert told == answered
        assert error["message"]
        assert "key-of-the-upstream" not in json.dumps(error)

    run(test)


def test_the_upstream_gets_its_own_key_and_model_and_nothing_of_the_caller(gateway: Gateway, run: Any) -> None:
    async def test(upstream: WsUpstream) -> None:
        async with session(gateway) as client:
            assert (await event(client))["type"] == "session.created"
            assert client.response is not None
            assert client.response.headers["x-gate-provider"] == "current"
        headers = upstream.headers[0]
        assert headers["authorization"] == "Bearer key-of-the-upstream"
        assert KEY not in json.dumps(headers)
        assert upstream.uris == ["/v1/realtime?model=gpt-realtime"]

    run(test)


def test_pages_of_the_gateway_itself_may_open_sessions_and_other_origins_may_not(gateway: Gateway, run: Any) -> None:
    """The conf names another origin only. An origin is a scheme, a host and a port: all three count."""
    port = gateway.url.rpartition(":")[2]

    async def test(upstream: WsUpstream) -> None:
        for own in (gateway.url, gateway.url.upper(), "https://APP.example"):
            async with session(gateway, origin=own) as client:
                assert (await event(client))["type"] == "session.created", own
        strangers = (
            gateway.url.replace("http:", "https:"), "http://127.0.0.1", f"http://localhost:{port}", f"{gateway.url}.evil.example",
            f"http://127.0.0.1:{int(port) - 1}", f"{gateway.url}/console/", f"http://evil.example/{gateway.url}", "null",
        )  # fmt: skip
        for other in strangers:
            status, error = await catch_refusal(gateway, origin=other)
            assert (status, error["code"]) == (403, "origin_not_allowed"), other
        assert len(upstream.connections) == 3

    run(test)


def test_a_browser_sends_its_key_as_a_subprotocol(gateway: Gateway, run: Any) -> None:
    async def test(upstream: WsUpstream) -> None:
        protocols = [Subprotocol("realtime"), Subprotocol(f"openai-insecure-api-key.{KEY}")]
        async with session(gateway, key="", subprotocols=protocols, origin="https://app.example") as client:
            assert client.subprotocol == "realtime"
            assert (await event(client))["type"] == "session.created"
        assert KEY not in json.dumps(upstream.headers)

    run(test)


def test_no_more_sessions_than_a_key_may_have(gateway: Gateway, run: Any) -> None:
    async def test(upstream: WsUpstream) -> None:
        async with session(gateway), session(gateway), session(gateway):
            assert (await catch_refusal(gateway))[0] == 429
            async with session(gateway, key=f"other-{KEY}") as client:
                assert (await event(client))["type"] == "session.created"
        await upstream.until(lambda: all(one.closed.is_set() for one in upstream.connections))
        async with session(gateway) as client:
            assert (await event(client))["type"] == "session.created"

    run(test)


# The relay


def test_messages_of_one_dialect_pass_as_they_are(gateway: Gateway, run: Any) -> None:
    async def test(upstream: WsUpstream) -> None:
        odd = '{ "type":"input_audio_buffer.append",  "audio":"AAAA", "unknown":[1, 2.50] }'
        async with session(gateway) as client:
            await client.recv()
            await client.send(odd)
            await upstream.until(lambda: bool(upstream.received))
            assert upstream.received == [odd]
            said = json.dumps(DELTA) + "  "
            await upstream.connections[0].write_message(said)
            assert await client.recv() == said

    run(test)


def test_the_upstreams_key_never_comes_down(gateway: Gateway, run: Any) -> None:
    async def test(upstream: WsUpstream) -> None:
        async with session(gateway) as client:
            await client.recv()
            await upstream.connections[0].write_message(json.dumps({"type": "x", "text": "it is key-of-the-upstream."}))
            assert json.loads(await client.recv())["text"] == "it is ***."
            upstream.connections[0].close(4001, "key-of-the-upstream")
            with pytest.raises(ConnectionClosed) as caught:
                await client.recv()
            assert caught.value.rcvd is not None
            assert caught.value.rcvd.reason == "***"

    run(test)


def test_a_client_of_the_contract_works_with_an_upstream_of_today(gateway: Gateway, run: Any) -> None:
    async def test(upstream: WsUpstream) -> None:
        async with session(gateway, headers={"User-Agent": "a-contract-client"}) as client:
            assert (await event(client))["type"] == "session.created"
            update = {"type": "session.update", "session": {
                "modalities": ["text", "audio"], "voice": "alloy", "input_audio_format": "pcm16"}}  # fmt: skip
            await client.send(json.dumps(update))
            await upstream.until(lambda: bool(upstream.received))
            sent = json.loads(upstream.received[0])["session"]
            assert sent["type"] == "realtime"
            assert "modalities" not in sent
            assert sent["audio"]["output"]["voice"] == "alloy"
            await upstream.connections[0].write_message(json.dumps(DELTA))
            told = await event(client)
            assert (told["type"], told["delta"]) == ("response.audio.delta", SOUND)

    run(test)


def test_a_client_of_today_works_with_an_upstream_of_the_contract(gateway: Gateway, run: Any) -> None:
    async def test(upstream: WsUpstream) -> None:
        async with session(gateway, "old-voice") as client:
            await client.recv()
            assert upstream.headers[0]["openai-beta"] == "realtime=v1"
            await upstream.connections[0].write_message(json.dumps({**DELTA, "type": "response.audio.delta"}))
            assert (await event(client))["type"] == "response.output_audio.delta"
            update = {"type": "session.update", "session": {"type": "realtime", "output_modalities": ["audio"]}}
            await client.send(json.dumps(update))
            await upstream.until(lambda: bool(upstream.received))
            assert "modalities" in json.loads(upstream.received[0])["session"]

    run(test)


def test_the_first_session_update_says_what_the_handshake_did_not(gateway: Gateway, run: Any) -> None:
    async def test(upstream: WsUpstream) -> None:
        async with session(gateway, headers={"User-Agent": "my-own-client"}) as client:
            await client.recv()
            await client.send(
                json.dumps({"type": "session.update", "session": {"type": "realtime", "instructions": "x"}})
            )
            await upstream.until(lambda: bool(upstream.received))
            await upstream.connections[0].write_message(json.dumps(DELTA))
            assert (await event(client))["type"] == "response.output_audio.delta"

    run(test)


@pytest.mark.parametrize("strict", ["1", "TRUE"])
def test_a_strict_session_is_told_of_a_setting_that_the_upstream_does_not_have(
    gateway: Gateway, run: Any, strict: str
) -> None:
    """The contract's dialect has a temperature, the upstream's has none."""
    update = {"type": "session.update", "event_id": "mine", "session": {"instructions": "x", "temperature": 0.9}}
    plain = {"type": "session.update", "session": {"instructions": "y"}}

    async def test(upstream: WsUpstream) -> None:
        headers = {"User-Agent": "a-contract-client", "x-gate-strict": strict}
        async with session(gateway, headers=headers) as client:
            assert (await event(client))["type"] == "session.created"
            assert "x-gate-strict" not in upstream.headers[0]
            await client.send(json.dumps(update))
            error = (await event(client))["error"]
            assert (error["code"], error["param"]) == ("unsupported_parameter", "session.temperature")
            assert error["event_id"] == "mine"
            await client.send(json.dumps(plain))
            await upstream.until(lambda: bool(upstream.received))
            assert [json.loads(message)["session"]["instructions"] for message in upstream.received] == ["y"]

    run(test)


@pytest.mark.parametrize("headers", [{}, {"x-gate-strict": "0"}, {"x-gate-strict": "false"}])
def test_a_session_that_is_not_strict_goes_on_without_such_a_setting(
    gateway: Gateway, run: Any, headers: dict[str, str]
) -> None:
    update = {"type": "session.update", "session": {"instructions": "x", "temperature": 0.9}}

    async def test(upstream: WsUpstream) -> None:
        async with session(gateway, headers={"User-Agent": "a-contract-client", **headers}) as client:
            await client.recv()
            await client.send(json.dumps(update))
            await upstream.until(lambda: bool(upstream.received))
            sent = json.loads(upstream.received[0])["session"]
            assert sent["instructions"] == "x"
            assert "temperature" not in sent

    run(test)


@pytest.mark.parametrize("value", ["yes", "2", "", "1, 1"])
def test_a_handshake_with_another_word_for_strict_is_refused(gateway: Gateway, run: Any, value: str) -> None:
    async def test(upstream: WsUpstream) -> None:
        status, error = await catch_refusal(gateway, headers={**SDK, "x-gate-strict": value})
        assert (status, error["code"], error["param"]) == (400, "invalid_value", "x-gate-strict")
        assert upstream.headers == []

    run(test)


def test_what_an_answer_took_is_counted(gateway: Gateway, run: Any) -> None:
    async def test(upstream: WsUpstream) -> None:
        async with session(gateway) as client:
            await client.recv()
            await upstream.connections[0].write_message(json.dumps(DONE))
            assert (await event(client))["type"] == "response.done"

    before = tokens(gateway)
    run(test)
    ends = time.monotonic() + 60
    while tokens(gateway) != before + 30:  # the session ends a moment after its client
        assert time.monotonic() < ends


def tokens(gateway: Gateway) -> float:
    lines = httpx.get(f"{gateway.url}/metrics", trust_env=False).text.splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("tornado_gate_tokens_total{"))


# Bad input


BAD = [
    ("{", ""),
    ("[]", ""),
    ("5", ""),
    ('{"event_id": "mine"}', "mine"),
    ('{"type": 5, "event_id": "mine"}', "mine"),
    (b"\x00\x01", ""),
    ('{"type": "input_audio_buffer.append", "event_id": "mine", "audio": "' + "A" * 200_000 + '"}', "mine"),
]


@pytest.mark.parametrize(("message", "event_id"), BAD, ids=range(len(BAD)))
def test_a_bad_message_is_an_error_event_and_the_session_lives(
    gateway: Gateway, run: Any, message: str | bytes, event_id: str
) -> None:
    async def test(upstream: WsUpstream) -> None:
        async with session(gateway) as client:
            await client.recv()
            await client.send(message)
            told = await event(client)
            assert told["type"] == "error"
            assert told["error"]["message"]
            assert told["error"]["code"]
            assert (told["error"]["event_id"] or "") == event_id
            await client.send('{"type": "response.create"}')
            await upstream.until(lambda: bool(upstream.received))
            assert [json.loads(one) for one in upstream.received] == [{"type": "response.create"}]

    run(test)


def test_a_flood_is_slowed_down_and_nothing_of_it_is_lost(gateway: Gateway, run: Any) -> None:
    async def test(upstream: WsUpstream) -> None:
        async with session(gateway) as client:
            await client.recv()
            for number in range(120):
                await client.send(json.dumps({"type": "response.cancel", "number": number}))
            told = await event(client)
            assert (told["type"], told["error"]["code"]) == ("error", "rate_limited")
            await upstream.until(lambda: len(upstream.received) == 120)
            assert [json.loads(one)["number"] for one in upstream.received] == list(range(120))

    run(test)


def test_a_giant_frame_ends_the_connection_with_1009(gateway: Gateway, run: Any) -> None:
    async def test(upstream: WsUpstream) -> None:
        async with session(gateway) as client:
            await client.recv()
            with pytest.raises(ConnectionClosed) as caught:
                await client.send("x" * (17 * 1024 * 1024))
                await client.recv()
            assert caught.value.rcvd is not None
            assert caught.value.rcvd.code == 1009
        await upstream.connections[0].closed.wait()

    run(test)


BROKEN = {
    "unmasked": ([Frame(Opcode.TEXT, b"{}").serialize(mask=False)], 1002),
    "nothing to continue": ([Frame(Opcode.CONT, b"{}").serialize(mask=True)], 1002),
    "no UTF-8": ([Frame(Opcode.TEXT, b"\xff").serialize(mask=True)], 1007),
    "no UTF-8 in the second part": (
        [Frame(Opcode.TEXT, b"{", False).serialize(mask=True), Frame(Opcode.CONT, b"\xff").serialize(mask=True)], 1007
    ),
}  # fmt: skip


@pytest.mark.parametrize(("frames", "code"), BROKEN.values(), ids=BROKEN)
def test_who_breaks_the_protocol_is_told_by_the_code(
    gateway: Gateway, run: Any, frames: list[bytes], code: int
) -> None:
    async def test(upstream: WsUpstream) -> None:
        async with session(gateway) as client:
            await client.recv()
            client.transport.write(b"".join(frames))
            with pytest.raises(ConnectionClosed) as caught:
                await client.recv()
            assert caught.value.rcvd is not None
            assert caught.value.rcvd.code == code
        await upstream.connections[0].closed.wait()
        assert upstream.received == []

    run(test)


def test_a_message_in_parts_goes_up_whole(gateway: Gateway, run: Any) -> None:
    async def test(upstream: WsUpstream) -> None:
        async with session(gateway) as client:
            await client.recv()
            await client.send(['{"type":', ' "response.', 'create"}'])
            await upstream.until(lambda: bool(upstream.received))
            assert upstream.received == ['{"type": "response.create"}']

    run(test)


# Ends


@pytest.mark.parametrize(("code", "reason"), [(1000, "bye"), (1008, "policy"), (3000, "theirs"), (4001, "own")])
def test_the_upstreams_way_to_close_is_carried_over(gateway: Gateway, run: Any, code: int, reason: str) -> None:
    async def test(upstream: WsUpstream) -> None:
        async with session(gateway) as client:
            await client.recv()
            upstream.connections[0].close(code, reason)
            with pytest.raises(ConnectionClosed) as caught:
                await client.recv()
            assert caught.value.rcvd is not None
            assert (caught.value.rcvd.code, caught.value.rcvd.reason) == (code, reason)

    run(test)


def test_a_broken_upstream_is_an_error_event_and_a_close(gateway: Gateway, run: Any) -> None:
    async def test(upstream: WsUpstream) -> None:
        async with session(gateway) as client:
            await client.recv()
            connection = upstream.connections[0].ws_connection
            assert connection is not None
            connection.stream.close()
            told = await event(client)
            assert (told["type"], told["error"]["code"]) == ("error", "upstream_lost")
            with pytest.raises(ConnectionClosed) as caught:
                await client.recv()
            assert caught.value.rcvd is not None
            assert caught.value.rcvd.code == 1011

    run(test)


HOSTILE = {
    "reserved bits": b"\xf1\x01x",
    "an unknown opcode": b"\x83\x01x",
    "a masked frame": b"\x81\x81\0\0\0\0x",
    "a frame of 4 exabytes": b"\x81\x7f\x40" + bytes(7),
    "a ping in parts": b"\x09\x00",
    "a continuation of nothing": b"\x80\x01x",
    "text that is no UTF-8": b"\x81\x02\xc3\x28",
    "no frames": b"HTTP/1.1 500 Internal Server Error\r\n\r\n",
}


def test_a_hostile_upstream_ends_its_session_and_nothing_else(gateway: Gateway, run: Any) -> None:
    async def test(upstream: WsUpstream) -> None:
        async with session(gateway) as other:
            await other.recv()
            for name, data in HOSTILE.items():
                async with session(gateway) as client:
                    await client.recv()
                    await stream_of(upstream).write(data)
                    told = await event(client)
                    assert (told["type"], told["error"]["type"]) == ("error", "upstream_error"), name
                    with pytest.raises(ConnectionClosed) as caught:
                        await client.recv()
                    assert caught.value.rcvd is not None
                    assert caught.value.rcvd.code == 1011, name
            await upstream.connections[0].write_message(json.dumps(DELTA))
            assert await event(other) == DELTA

    run(test)


def test_a_message_of_an_upstream_that_never_ends_is_given_up(gateway: Gateway, run: Any) -> None:
    async def test(upstream: WsUpstream) -> None:
        async with session(gateway) as client:
            await client.recv()
            stream = stream_of(upstream)
            sent, piece = 0, b"\x7f" + (60_000).to_bytes(8, "big") + b"x" * 60_000
            with suppress(StreamClosedError):
                while sent < 200_000_000:
                    await stream.write((b"\x00" if sent else b"\x01") + piece)
                    sent += 60_000
            assert sent < 100_000_000
            assert (await event(client))["type"] == "error"

    run(test)


def test_an_upstream_that_never_closes_holds_no_place_of_its_caller(gateway: Gateway, run: Any) -> None:
    async def test(upstream: WsUpstream) -> None:
        for _ in range(2):
            async with AsyncExitStack() as stack:
                clients = [await stack.enter_async_context(session(gateway)) for _ in range(3)]
                for client, connection in zip(clients, upstream.connections[-3:], strict=True):
                    await client.recv()
                    assert connection.ws_connection is not None
                    asyncio.get_running_loop().remove_reader(connection.ws_connection.stream.socket.fileno())

    run(test)


def stream_of(upstream: WsUpstream) -> IOStream:
    connection = upstream.connections[-1].ws_connection
    assert connection is not None
    return connection.stream


def test_a_caller_who_leaves_closes_the_upstream(gateway: Gateway, run: Any) -> None:
    async def test(upstream: WsUpstream) -> None:
        async with session(gateway) as client:
            await client.recv()
            client.transport.abort()
            await upstream.connections[0].closed.wait()

    run(test)


def test_a_slow_reader_pauses_the_upstream(gateway: Gateway, run: Any) -> None:
    async def test(upstream: WsUpstream) -> None:
        async with session(gateway, max_queue=1) as client:
            await client.recv()
            sent = 0
            big = json.dumps({**DELTA, "delta": "A" * 60_000})

            async def pour() -> None:
                nonlocal sent
                for _ in range(2000):
                    await upstream.connections[0].write_message(big)
                    sent += 1

            pouring = asyncio.ensure_future(pour())
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1.5):
                    await asyncio.shield(pouring)
            assert sent < 1000, "60 MB went into the gateway while nobody read"
            for _ in range(2000):
                await client.recv()
            await pouring

    run(test)


# Client secrets


def make_secret(gateway: Gateway, key: str = KEY, **body: Any) -> httpx.Response:
    headers = {"authorization": f"Bearer {key}"}
    url = f"{gateway.url}/v1/realtime/client_secrets"
    return httpx.post(
        url, json={"session": {"type": "realtime", "model": "voice"}, **body}, headers=headers, trust_env=False
    )


def test_a_page_gets_a_key_of_its_own_for_one_model(gateway: Gateway, run: Any) -> None:
    made = make_secret(gateway, expires_after={"anchor": "created_at", "seconds": 60}).json()
    assert made["value"].startswith("ek_")

    async def test(upstream: WsUpstream) -> None:
        async with session(gateway, key=made["value"]) as client:
            assert (await event(client))["type"] == "session.created"
        status, error = await catch_refusal(gateway, key=made["value"], model="old-voice")
        assert (status, error["code"]) == (403, "model_not_allowed")

    run(test)
    for path in ("/v1/chat/completions", "/v1/realtime/client_secrets"):
        headers = {"authorization": f"Bearer {made['value']}"}
        response = httpx.post(gateway.url + path, json={"model": "local-chat"}, headers=headers, trust_env=False)
        assert response.status_code == 401


SECRETS = [
    ({"session": None}, 400, "session"),
    ({"session": {"type": "realtime"}}, 400, "session.model"),
    ({"session": {"type": "other", "model": "voice"}}, 400, "session.type"),
    ({"session": {"type": "realtime", "model": "no-such"}}, 404, "model"),
    ({"session": {"type": "realtime", "model": "local-chat"}}, 400, "model"),
    ({"expires_after": {"seconds": 5}}, 400, "expires_after.seconds"),
    ({"expires_after": {"seconds": 99_999}}, 400, "expires_after.seconds"),
    ({"expires_after": {"anchor": "never"}}, 400, "expires_after.anchor"),
]


@pytest.mark.parametrize(("body", "status", "param"), SECRETS, ids=range(len(SECRETS)))
def test_a_bad_request_for_a_secret_says_what_is_wrong(
    gateway: Gateway, body: dict[str, Any], status: int, param: str
) -> None:
    response = make_secret(gateway, **body)
    assert (response.status_code, response.json()["error"]["param"]) == (status, param)


def test_no_key_and_no_word_is_in_the_log(gateway: Gateway) -> None:
    assert KEY not in gateway.logs
    assert "key-of-the-upstream" not in gateway.logs
    assert "ek_" not in gateway.logs


# The last: it ends the gateway of this module


def test_a_gateway_that_shuts_down_says_1001(gateway: Gateway, run: Any) -> None:
    async def test(upstream: WsUpstream) -> None:
        async with session(gateway) as client:
            await client.recv()
            gateway.child.process.terminate()
            with pytest.raises(ConnectionClosed) as caught:
                await client.recv()
            assert caught.value.rcvd is not None
            assert caught.value.rcvd.code == 1001
        await asyncio.to_thread(gateway.child.process.wait, 10)

    run(test)
