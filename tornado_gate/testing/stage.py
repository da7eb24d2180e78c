"""A gateway inside the process of a test or of the conformance kit: chosen plugins, a real port, a caller."""

from __future__ import annotations

import asyncio
import socket
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tornado_gate.config.model import (
    Config,
    FetchRules,
    KeyEntry,
    ModelEntry,
    ProviderConfig,
    Secret,
    ServerConfig,
    VideosConfig,
)
from tornado_gate.config.routing import CircuitsConfig
from tornado_gate.plugins.host import PluginHost
from tornado_gate.types.value import Value, field

if TYPE_CHECKING:
    import aiohttp

    from tornado_gate.server.services import Services

CALLER_KEY = "sk-gate-caller-key-that-must-not-leave-the-gateway"
CALLER_SOCKET_BYTES = 64 * 1024
LEFT_SECONDS = 3.0
"""Seconds after its response within which the tasks of a request must end."""


class CallerRequest(Value, frozen=True, kw_only=True):
    """A request of a caller. `body` is a JSON value, or bytes that are sent unchanged.

    `form` are the fields and files of a form: name to text, or to (file name, media type, bytes).
    """

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    form: Mapping[str, str | tuple[str, str, bytes]] | None = None


class CallerAnswer(Value, frozen=True, kw_only=True):
    """The response that the caller received. `broken`: the connection ended before the body did."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    broken: bool = False

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


class Stage:
    """A serving gateway with the plugins of `host`. Use `open_stage`."""

    def __init__(self, services: Services, url: str, session: aiohttp.ClientSession) -> None:
        self.services = services
        self.url = url
        self._session = session
        self._calm: set[asyncio.Task[Any]] = set()

    async def send(self, request: CallerRequest) -> CallerAnswer:
        """Send a request and read its whole response."""
        import aiohttp

        async with self.sending(request) as response:
            body, broken = b"", False
            try:
                async for chunk in response.content.iter_any():
                    body += chunk
            except aiohttp.ClientPayloadError:
                broken = True
            headers = {name.lower(): value for name, value in response.headers.items()}
            return CallerAnswer(status=response.status, headers=headers, body=body, broken=broken)

    @asynccontextmanager
    async def sending(self, request: CallerRequest) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request; the block reads the parts of the response that it needs. At the end of the block the
        connection is closed.
        """
        import aiohttp

        headers = {"Authorization": f"Bearer {CALLER_KEY}", **request.headers}
        options: dict[str, Any] = {}
        if request.body is not None:
            options = {"data" if isinstance(request.body, bytes) else "json": request.body}
        if request.form is not None:
            form = aiohttp.FormData()
            for name, value in request.form.items():
                if isinstance(value, str):
                    form.add_field(name, value)
                else:
                    form.add_field(name, value[2], filename=value[0], content_type=value[1])
            options = {"data": form}
        response = await self._session.request(request.method, self.url + request.path, headers=headers, **options)
        try:
            yield response
        finally:
            response.close()

    @asynccontextmanager
    async def holding(self, request: CallerRequest) -> AsyncIterator[None]:
        """Send a request, and read no part of its response inside the block. At the end of the block the connection is
        closed.
        """
        asking = asyncio.create_task(self._hold_request(request))
        try:
            yield
        finally:
            asking.cancel()
            await asyncio.wait([asking])

    async def _hold_request(self, request: CallerRequest) -> None:
        async with self.sending(request):
            await asyncio.Event().wait()

    def connect(
        self, path: str, headers: Mapping[str, str] = {}
    ) -> AbstractAsyncContextManager[aiohttp.ClientWebSocketResponse]:
        """Return a WebSocket to the gateway."""
        sent = {**headers, "Authorization": f"Bearer {CALLER_KEY}"}
        return self._session.ws_connect(self.url + path, headers=sent, max_msg_size=0)

    def mark_calm(self) -> None:
        """Record the tasks that run now. Later tasks belong to requests."""
        self._calm = set(asyncio.all_tasks())

    async def find_left_tasks(self) -> list[str]:
        """Return the names of the tasks that still run `LEFT_SECONDS` after the requests; [] as soon as all have ended."""
        loop = asyncio.get_running_loop()
        end = loop.time() + LEFT_SECONDS
        while left := self._list_new_tasks():
            if loop.time() > end:
                return [_describe_task(task) for task in left]
            await asyncio.wait(left, timeout=0.05)
        return []

    def _list_new_tasks(self) -> list[asyncio.Task[Any]]:
        own = asyncio.current_task()
        return [task for task in asyncio.all_tasks() - self._calm if task is not own and not _is_of_kit(task)]


def _is_of_kit(task: asyncio.Task[Any]) -> bool:
    """Return whether a task belongs to the kit's own client or upstream, which are made with aiohttp."""
    code = getattr(task.get_coro(), "cr_code", None)
    return code is None or "aiohttp" in code.co_filename


def _describe_task(task: asyncio.Task[Any]) -> str:
    coroutine = task.get_coro()
    return getattr(coroutine, "__qualname__", repr(coroutine))


@asynccontextmanager
async def open_stage(
    host: PluginHost,
    models: Mapping[str, ModelEntry],
    providers: Sequence[ProviderConfig],
    **rest: Any,
) -> AsyncIterator[Stage]:
    """Serve with every plugin of `host` switched on, without retries and circuits; files go to a temporary folder."""
    import aiohttp

    async with AsyncExitStack() as closing:
        folder = Path(closing.enter_context(tempfile.TemporaryDirectory(prefix="tornado-gate-")))
        config = make_config(folder, host, models, providers, **rest)
        services, url = await _start_server(closing, config, host)
        connector = aiohttp.TCPConnector(force_close=True, limit=0, socket_factory=_make_small_socket)
        session = aiohttp.ClientSession(connector=connector, read_bufsize=16 * 1024, trust_env=False)
        await closing.enter_async_context(session)
        yield Stage(services, url, session)


def make_config(
    folder: Path, host: PluginHost, models: Mapping[str, ModelEntry], providers: Sequence[ProviderConfig], **rest: Any
) -> Config:
    """Return a configuration with one key, no retries, and files below `folder`."""
    values: dict[str, Any] = {
        "path": None,
        "server": ServerConfig(data_dir=folder, access_log=False),
        "plugins": dict.fromkeys(host.plugins, True),
        "providers": {entry.name: entry for entry in providers},
        "models": dict(models),
        "keys": (KeyEntry(name="conformance", key=Secret(CALLER_KEY), account="conformance"),),
        "circuits": CircuitsConfig(failures=1_000_000, failure_share=2.0),
        "videos": VideosConfig(poll_seconds=0.01),
        "fetch": FetchRules(allow_private=True),
    }
    return Config(**{**values, **rest})


async def _start_server(closing: AsyncExitStack, config: Config, host: PluginHost) -> tuple[Services, str]:
    from tornado_gate.accounts.keys import KeyStore
    from tornado_gate.http.server.front import HttpServer
    from tornado_gate.server.app import make_app, make_services
    from tornado_gate.telemetry.metrics import Metrics

    services = make_services(config, host, KeyStore.open(config.server.data_dir), Metrics())
    await services.start()
    closing.push_async_callback(services.close)
    server = HttpServer(make_app(services))
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, CALLER_SOCKET_BYTES)
    bound.bind(("127.0.0.1", 0))
    await server.listen([bound])
    closing.push_async_callback(server.close_all_connections)
    closing.callback(server.stop)
    return services, f"http://127.0.0.1:{bound.getsockname()[1]}"


def _make_small_socket(address: Any) -> socket.socket:
    """Return a socket of the caller with a small receive buffer, so that a caller who does not read stops the gateway
    soon.
    """
    family, kind, protocol = address[:3]
    made = socket.socket(family=family, type=kind, proto=protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, CALLER_SOCKET_BYTES)
    made.setblocking(False)
    return made
