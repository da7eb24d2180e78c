"""The HTTP server of an imitation: a thread with an event loop of its own, so that a run can look at what it received."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler


@dataclass(frozen=True, slots=True)
class Received:
    """One request: its path with the query, its headers in lower case, and its body."""

    path: str
    headers: Mapping[str, str]
    raw: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.raw)


@dataclass(frozen=True, slots=True)
class Response:
    """What an imitation answers. `refused` is the vendor's message when it refused; `said` is its answer as JSON; `ignored` are
    the paths that the vendor accepts and ignores.
    """

    status: int
    media_type: str
    chunks: tuple[bytes, ...]
    refused: str = ""
    said: Any = None
    ignored: tuple[str, ...] = ()


Answer = Callable[[Received], Response]


@dataclass(slots=True)
class Imitation:
    """A running imitation. `exchanges` are its requests and answers, oldest first."""

    answer: Answer
    url: str = ""
    exchanges: list[tuple[Received, Response]] = field(default_factory=list)
    _loop: asyncio.AbstractEventLoop | None = None
    _thread: threading.Thread | None = None
    _stopped: asyncio.Event = field(default_factory=asyncio.Event)

    def start(self) -> None:
        """Serve on a free port; ready when this returns."""
        (listening,) = bind_sockets(0, "127.0.0.1")
        self.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        ready = threading.Event()

        async def serve() -> None:
            self._loop = asyncio.get_running_loop()
            server = HTTPServer(Application([(".*", _Handler, {"imitation": self})], log_function=lambda _: None))
            server.add_socket(listening)
            ready.set()
            await self._stopped.wait()
            server.stop()
            await server.close_all_connections()

        self._thread = threading.Thread(target=asyncio.run, args=(serve(),), daemon=True)
        self._thread.start()
        ready.wait()

    def stop(self) -> None:
        """Stop serving."""
        assert self._loop is not None
        assert self._thread is not None
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()


class _Handler(RequestHandler):
    def initialize(self, imitation: Imitation) -> None:
        self.imitation = imitation

    async def prepare(self) -> None:
        headers = {name.lower(): value for name, value in self.request.headers.get_all()}
        received = Received(self.request.uri or "", headers, self.request.body)
        response = self.imitation.answer(received)
        self.imitation.exchanges.append((received, response))
        self.set_status(response.status)
        self.set_header("Content-Type", response.media_type)
        for chunk in response.chunks:
            self.write(chunk)
            await self.flush()
        await self.finish()

    def compute_etag(self) -> None:
        """No header that the vendor does not send."""
