"""One gateway for conversations by voice: with the embedded model, with an upstream in the vendor's shapes, with aimock.

A module that wants it says ``stage = realtime_gateway.stage`` and ``upstream = realtime_gateway.upstream``. Before the gateway
there is TLS too, because the vendor's clients for Node speak to nothing else; and a page's origin is agreed on.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import openai
import pytest

from qa.sdk.realtime_script import Event, Script, check_shapes
from tests.support.aimock import Aimock
from tests.support.gateway import Gateway
from tests.support.site import tls_of_site_test
from tests.support.ws_upstream import WsUpstream

KEY: Final = "test-key-of-the-realtime-clients"
UPSTREAM_KEY: Final = "upstream-key-of-realtime"
CONF: Final = """
plugins: {{local: true, openai: true}}
providers:
  local: {{plugin: local}}
  slow: {{plugin: local, pace_seconds: 0.2}}
  scripted: {{plugin: openai, base_url: "http://127.0.0.1:{port}/v1", api_key: "{upstream_key}"}}
  mock: {{plugin: openai, base_url: "{aimock}/v1", api_key: "{aimock_key}"}}
  mock-beta: {{plugin: openai, base_url: "{aimock}/v1", api_key: "{aimock_key}", realtime_dialect: beta}}
models:
  local-chat: {{provider: local}}
  local-realtime: {{provider: local}}
  slow-realtime: {{provider: slow, model: local-realtime}}
  voice: {{provider: scripted, model: gpt-realtime}}
  mock-voice: {{provider: mock, model: gpt-realtime}}
  mock-old-voice: {{provider: mock-beta, model: gpt-4o-realtime-preview}}
realtime: {{sessions_per_key: 50, origins: ["http://127.0.0.1:{page_port}"]}}
keys:
  - {{name: test, key: "{key}"}}
"""
PATIENCE_SECONDS: Final = 20.0

T = TypeVar("T")
_STARTED: Final = pytest.StashKey["Stage"]()

# Who serves

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Background:
    """An event loop in a thread, for what must listen while a test waits for a client."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._servers: list[asyncio.Server] = []
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="servers of the realtime tests", daemon=True
        )
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`, done there."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_SECONDS)

    def serve(self, serve: Serve, tls: ssl.SSLContext | None = None) -> int:
        """The port, any free one, on which `serve` answers from now on."""
        server = self.run(asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls))
        self._servers.append(server)
        taken: int = server.sockets[0].getsockname()[1]
        return taken

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def stop(self) -> None:
        self.run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_SECONDS)
        self._loop.close()


@dataclass(slots=True)
class Stage:
    """`secure_url` is of the same gateway behind TLS; `certificate` is whom to trust for it. `pages` are by path."""

    gateway: Gateway
    background: Background
    voice: WsUpstream
    secure_url: str
    certificate: Path
    page_port: int
    pages: dict[str, str]

    @property
    def base_url(self) -> str:
        return f"{self.gateway.url}/v1"

    @property
    def socket_url(self) -> str:
        return f"{self.gateway.url.replace('http', 'ws', 1)}/v1/realtime"

    def until(self, ready: Callable[[], bool]) -> None:
        """Wait until something that the upstream sees is so."""
        self.background.run(asyncio.wait_for(self.voice.until(ready), PATIENCE_SECONDS))

    def told_upstream(self) -> list[Event]:
        """What the upstream was told, oldest first."""
        return [json.loads(text) for text in self.voice.received]


async def _pour(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await source.read(65536):
            target.write(piece)
            await target.drain()
    target.close()


def _tunnel(port: int) -> Serve:
    """What is said goes on to `port` of this machine, and back."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(_pour(reader, inner_writer), _pour(inner_reader, writer))

    return serve


def _site(pages: Mapping[str, str]) -> Serve:
    """A web server that has some pages."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode()
        page = pages.get(asked)
        body = (page or "").encode()
        head = f"HTTP/1.1 {'404 Not Found' if page is None else '200 OK'}\r\nContent-Type: text/html; charset=utf-8\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
        with suppress(OSError):
            await writer.drain()
        writer.close()

    return serve


async def _upstream(voice: WsUpstream) -> None:
    voice.start()


def _start(folder: Path, aimock: Aimock) -> Stage:
    background = Background()
    voice = WsUpstream()
    background.run(_upstream(voice))
    pages: dict[str, str] = {}
    page_port = background.serve(_site(pages))
    conf = CONF.format(
        port=voice.port,
        upstream_key=UPSTREAM_KEY,
        aimock=aimock.url,
        aimock_key=aimock.key,
        page_port=page_port,
        key=KEY,
    )
    gateway = Gateway.start(conf, folder)
    server_tls, _ = tls_of_site_test(folder)
    tunnel = _tunnel(int(gateway.url.rpartition(":")[2]))
    secure_url = f"https://site.test:{background.serve(tunnel, tls=server_tls)}/v1"
    return Stage(gateway, background, voice, secure_url, folder / "site.pem", page_port, pages)


def _stop(stage: Stage) -> None:
    stage.gateway.stop()
    stage.background.run(stage.voice.stop())
    stage.background.stop()


@pytest.fixture(scope="session")
def stage(request: pytest.FixtureRequest, aimock: Aimock, tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """The gateway, and who is around it; the same for all modules."""
    stash = request.config.stash
    if _STARTED not in stash:
        stash[_STARTED] = started = _start(tmp_path_factory.mktemp("realtime-clients"), aimock)
        request.session.addfinalizer(lambda: _stop(started))
    return stash[_STARTED]


@pytest.fixture
def upstream(stage: Stage) -> Iterator[WsUpstream]:
    """The scripted upstream, with a conversation that begins and no records."""
    script = Script()
    voice = stage.voice
    voice.refuses = 0
    voice.answers = script
    voice.greeting = [script.created()]
    for record in (voice.headers, voice.uris, voice.received, voice.connections):
        record.clear()
    yield voice
    stage.until(lambda: all(one.closed.is_set() for one in voice.connections))


@contextmanager
def openai_client(stage: Stage, key: str = KEY) -> Iterator[openai.OpenAI]:
    """The SDK's client; its beta half speaks TLS only, unless it is told where sockets are."""
    sockets = stage.base_url.replace("http", "ws", 1)
    with openai.OpenAI(base_url=stage.base_url, websocket_base_url=sockets, api_key=key, max_retries=0) as client:
        yield client


def until(connection: Any, kind: str, *, vendors: bool = True) -> list[Event]:
    """The events that the SDK's connection gives, as far as the first of a kind; no error is among them but the last.

    `vendors`: each must have the shape that the types of the connection's dialect have.
    """
    events: list[Event] = []
    while not events or events[-1]["type"] != kind:
        events.append(connection.recv().to_dict())
        assert kind == "error" or events[-1]["type"] != "error", events[-1]
    if vendors:
        check_shapes(events, "beta" if "beta" in type(connection).__module__ else "current")
    return events


def send_text(connection: Any, text: str) -> None:
    """The user says something in writing."""
    content = [{"type": "input_text", "text": text}]
    connection.conversation.item.create(item={"type": "message", "role": "user", "content": content})


def joined(events: Iterable[Event], kind: str) -> str:
    """The words, or whatever else comes in pieces, of the events of a type."""
    return "".join(event["delta"] for event in events if event["type"] == kind)
