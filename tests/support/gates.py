"""A Gate inside the test process, with fake plugins."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch
from weakref import WeakSet

import orjson

from tornado_gate import errors, format_impl, provider_impl, sse, types
from tornado_gate.accounts.keys import KeyStore
from tornado_gate.config.model import Config, KeyEntry, ModelEntry, ModelTarget, ProviderConfig, Secret, ServerConfig
from tornado_gate.hookspecs import Capabilities, ProviderEntry
from tornado_gate.pipeline.gate import Gate
from tornado_gate.plugins.host import PluginHost
from tornado_gate.server import app
from tornado_gate.server.services import Services
from tornado_gate.storage.private import KEY_FILE
from tornado_gate.streams.events import Collector
from tornado_gate.telemetry.metrics import Metrics

KEY = "test-key-0123456789"
START = types.ResponseStart(model="fake-1")
WORDS = (types.PartStart(index=0, kind="text"), types.PartDelta(index=0, data="hello"), types.PartEnd(index=0))
DONE = (types.UsageReport(usage=types.Usage(input_tokens=1, output_tokens=2)), types.Finish(reason="stop", raw="end"))
ANSWER = (START, *WORDS, *DONE)


class PlainFormat:
    """Wire format "plain", also verbatim: ``{"model", "ask", "stream"}`` -> ``{"answer"}``, or SSE events with one word each."""

    @format_impl
    def routes(self) -> list[types.Route]:
        return [
            types.Route("POST", "/plain", "chat", wire_format="plain", multipart="too"),
            types.Route("GET", "/plain/models", "models", model="none"),
            types.Route("GET", "/plain/models/{model}", "models", model="none"),
        ]

    @format_impl
    def translate_request(self, call: types.Call, wire: types.WireRequest) -> types.Request:
        if wire.route.operation == "models":
            return types.ModelsRequest(model=wire.path_arguments.get("model"))
        check(wire)
        message = types.Message(role="user", parts=(types.Text(text=wire.json["ask"]),))
        return types.ChatRequest(
            model=call.model, messages=(message,), stream=wire.json.get("stream", False), wire_format="plain"
        )

    @format_impl
    def translate_response(self, request: types.Request, events: AsyncIterator[types.StreamEvent]) -> types.Reply:
        if getattr(request, "stream", False):
            return types.Reply(content_type="text/event-stream", chunks=streamed(events), keep_alive=b": ping\n\n")
        return types.Reply(content_type="application/json", chunks=whole(events))

    @format_impl
    def translate_error(self, error: errors.GateError, streaming: bool) -> bytes:
        body = {"error": error.body(), "plain": True}
        return sse.render_json(body) if streaming else orjson.dumps(body)

    @format_impl
    def forward_request(self, call: types.Call, wire: types.WireRequest) -> types.VerbatimRequest:
        check(wire)
        return types.VerbatimRequest(
            wire_format="plain",
            operation=call.operation,
            path=wire.path,
            raw=wire.raw,
            body=wire.json,
            stream=bool(wire.json.get("stream")),
        )

    @format_impl
    def forward_response(self, request: types.VerbatimRequest, incoming: types.UpstreamResponse) -> types.Reply:
        content_type = "text/event-stream" if request.stream else "application/json"
        return types.Reply(content_type=content_type, chunks=incoming.chunks)


def check(wire: types.WireRequest) -> None:
    if not isinstance(wire.json.get("ask"), str):
        raise errors.InvalidField("ask", "'ask' must be a string.")


async def whole(events: AsyncIterator[types.StreamEvent]) -> AsyncIterator[bytes]:
    async for event in events:
        if isinstance(event, types.ModelList):
            yield orjson.dumps([model.id for model in event.models])
            return
        break
    else:
        return
    async for chunk in rest_of(event, events):
        yield chunk


async def rest_of(first: types.StreamEvent, events: AsyncIterator[types.StreamEvent]) -> AsyncIterator[bytes]:
    collector = Collector()
    collector.add(first)
    async for event in events:
        collector.add(event)
    parts = collector.result().choices[0].parts
    yield orjson.dumps({"answer": "".join(part.text for part in parts if isinstance(part, types.Text))})


async def streamed(events: AsyncIterator[types.StreamEvent]) -> AsyncIterator[bytes]:
    async for event in events:
        if isinstance(event, types.PartDelta):
            yield sse.render_json({"word": event.data})
        elif isinstance(event, types.StreamError):
            yield sse.render_json({"error": event.error.body()})
            return
        elif isinstance(event, types.Finish):
            yield sse.render_json({"why": event.reason})


Script = Callable[["FakeProvider", types.Call], AsyncIterator[types.StreamEvent]]


KEY_STORES: WeakSet[KeyStore] = WeakSet()
"""Those of the running test."""


async def answers(_provider: FakeProvider, _call: types.Call) -> AsyncIterator[types.StreamEvent]:
    for event in ANSWER:
        yield event


@dataclass(eq=False)
class FakeProvider:
    """A provider plugin whose events come from `script`; `raises` fails each call of the upstream.

    `asked` and `requests` record what it gets; `left` is set when its event iterator is closed.
    """

    script: Script = answers
    raises: BaseException | None = None
    speaks: frozenset[str] = frozenset()
    operations: frozenset[str] = frozenset({"chat"})
    missing: dict[str, str] = field(default_factory=dict)
    loses: tuple[str, ...] = ()
    chunks: tuple[bytes, ...] = ()
    asked: list[types.Call] = field(default_factory=list)
    requests: list[types.Request] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    left: asyncio.Event = field(default_factory=asyncio.Event)

    @provider_impl
    def configure(self, entry: ProviderEntry) -> Capabilities:
        return Capabilities(operations=self.operations, speaks=self.speaks, missing_operations=self.missing)

    @provider_impl
    def translate_request(self, call: types.Call, request: types.Request) -> types.UpstreamRequest:
        self.requests.append(request)
        for name in self.loses:
            call.drop_field(name)
        return types.UpstreamRequest()

    @provider_impl
    async def call_upstream(self, call: types.Call) -> types.UpstreamResponse:
        self.asked.append(call)
        call.closing.callback(self.closed.append, call.id)
        if self.raises is not None:
            raise self.raises
        return types.UpstreamResponse(chunks=self._chunks())

    async def _chunks(self) -> AsyncIterator[bytes]:
        for chunk in self.chunks:
            yield chunk

    @provider_impl
    async def translate_response(self, call: types.Call) -> AsyncIterator[types.StreamEvent]:
        try:
            async for event in self.script(self, call):
                yield event
        finally:
            self.left.set()


def make_config(
    tmp_path: Path,
    models: Mapping[str, ModelEntry] | None = None,
    providers: tuple[str, ...] = ("fake",),
    **rest: Any,
) -> Config:
    """Conf with one provider entry for each fake plugin, and the model "m" on the first unless `models` is given."""
    entries = models or {"m": model("m", providers[0])}
    key = KeyEntry(name="test", key=Secret(KEY), account="test")
    defaults: dict[str, Any] = {"keys": (key,), "server": ServerConfig(data_dir=tmp_path, access_log=False)}
    return Config(
        path=None,
        plugins={"plain": True, **dict.fromkeys(providers, True)},
        providers={name: ProviderConfig(name=name, plugin=name) for name in providers},
        models=entries,
        **{**defaults, **rest},
    )


def model(name: str, *providers: str, **rest: Any) -> ModelEntry:
    return ModelEntry(name=name, targets=tuple(ModelTarget(provider=provider) for provider in providers), **rest)


def open_key_store(folder: Path) -> KeyStore:
    """A key store that is closed after the test, also when the test has not started the services that close it."""
    if not (folder / KEY_FILE).exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / KEY_FILE).write_bytes(_make_empty_file())
    store = KeyStore.open(folder)
    KEY_STORES.add(store)
    return store


@lru_cache(1)
def _make_empty_file() -> bytes:
    """An SQLite file with all tables: to copy it takes a tenth of the time of making one."""
    with TemporaryDirectory() as folder:
        store = KeyStore.open(Path(folder))
        store.close()
        return (Path(folder) / KEY_FILE).read_bytes()


def make_gate(tmp_path: Path, config: Config | None = None, **plugins: Any) -> Gate:
    """A Gate with PlainFormat and the given providers. If it serves, start and close it inside the event loop."""
    config = config or make_config(tmp_path, providers=tuple(plugins))
    return Gate(config, make_host(plugins), open_key_store(tmp_path), Metrics())


def make_services(tmp_path: Path, config: Config | None = None, **plugins: Any) -> Services:
    """The parts of a serving process with PlainFormat and the given providers. Start and close them inside the event loop."""
    config = config or make_config(tmp_path, providers=tuple(plugins))
    return app.make_services(config, make_host(plugins), open_key_store(tmp_path), Metrics())


def make_empty_host() -> PluginHost:
    """A host without plugins: the search for those that are installed takes 10 ms."""
    with patch("tornado_gate.plugins.host.find_installed", dict):
        return PluginHost()


def make_host(plugins: Mapping[str, Any]) -> PluginHost:
    """A host with PlainFormat and the given providers only."""
    host = make_empty_host()
    host.add("plain", PlainFormat)
    for name, implementation in plugins.items():
        host.add(name, implementation)
    return host
