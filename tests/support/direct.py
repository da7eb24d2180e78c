"""A gateway in the test process for requests that begin without a task. A test scripts the bytes of its upstream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import orjson

from tests.support import front, raw
from tests.support.gates import PlainFormat, make_config, make_empty_host, model, open_key_store
from tornado_gate import format_impl, provider_impl, types
from tornado_gate.config.model import Config, KeyEntry, LimitsConfig, ProviderConfig, Secret, ServerConfig
from tornado_gate.hookspecs import Capabilities
from tornado_gate.pipeline.direct import DirectAttempt
from tornado_gate.pipeline.gate import Gate
from tornado_gate.pipeline.snapshot_builder import build
from tornado_gate.server import app
from tornado_gate.server.services import Services
from tornado_gate.streams.timer_wheel import get_wheel
from tornado_gate.telemetry.entries import Entry
from tornado_gate.telemetry.metrics import Metrics
from tornado_gate.types.value import replace

PROVIDER_KEY = "provider-key-0123456789"
ALICE, BOB, NARROW = "alice-key-0123456789", "bobby-key-0123456789", "narro-key-0123456789"
KEYS = (
    KeyEntry(name="alice", key=Secret(ALICE), account="a"),
    KeyEntry(name="bob", key=Secret(BOB), account="b"),
    KeyEntry(name="narrow", key=Secret(NARROW), account="n", models=("other",)),
)
BODY_LIMIT = 2000
OK = b'{"answer":"hello"}'
JSON = "application/json"
Hook = Callable[[types.Call], Any]


class Sender:
    """A provider plugin whose requests the core sends. `hook` runs in `translate_request`, and may return another result."""

    def __init__(self) -> None:
        self.hook: Hook | None = None
        self.calls: list[types.Call] = []
        self.speaks = frozenset({"plain"})
        self._headers = MappingProxyType({"Authorization": f"Bearer {PROVIDER_KEY}"})

    @provider_impl
    def configure(self) -> Capabilities:
        return Capabilities(operations=frozenset({"chat"}), speaks=self.speaks)

    @provider_impl
    def translate_request(self, call: types.Call, request: Any) -> Any:
        self.calls.append(call)
        result = self.hook(call) if self.hook is not None else None
        if result is not None:
            return result
        return self.make_request(call, request)

    def make_request(self, call: types.Call, request: Any) -> types.UpstreamRequest:
        body = getattr(request, "raw", None) or b'{"translated":true}'
        return types.UpstreamRequest(url=f"{call.target.base_url}/v1", headers=self._headers, body=body)

    @provider_impl
    async def translate_response(self, incoming: types.UpstreamResponse) -> AsyncIterator[types.StreamEvent]:
        data = b"".join([chunk async for chunk in incoming.chunks])
        yield types.ResponseStart(model="m")
        yield types.PartStart(index=0, kind="text")
        yield types.PartDelta(index=0, data=orjson.loads(data)["answer"])
        yield types.PartEnd(index=0)
        yield types.Finish(reason="stop", raw="end")


class HookedFormat(PlainFormat):
    """`PlainFormat`. `before` and `after` run in its hooks of the verbatim lane, `translate` in `translate_request`.

    They return the result of the hook, or ``...`` for the usual one.
    """

    before: Hook | None = None
    after: Hook | None = None
    translate: Hook | None = None

    @format_impl
    def translate_request(self, call: types.Call, wire: types.WireRequest) -> Any:
        result = self.translate(call) if self.translate is not None else ...
        return PlainFormat.translate_request(self, call, wire) if result is ... else result

    @format_impl
    def forward_request(self, call: types.Call, wire: types.WireRequest) -> Any:
        result = self.before(call) if self.before is not None else ...
        return PlainFormat.forward_request(self, call, wire) if result is ... else result

    @format_impl
    def forward_response(  # type: ignore[override]  # a hook takes the arguments that it names
        self, call: types.Call, request: types.VerbatimRequest, incoming: Any
    ) -> Any:
        result = self.after(call) if self.after is not None else ...
        return PlainFormat.forward_response(self, request, incoming) if result is ... else result


def make_head(length: int | str, *fields: str, key: str = ALICE, path: str = "/plain") -> bytes:
    """A head whose Content-Length is the last header."""
    lines = [f"POST {path} HTTP/1.1", "Host: h", f"Authorization: Bearer {key}", f"Content-Type: {JSON}", *fields]
    return "\r\n".join([*lines, f"Content-Length: {length}", "", ""]).encode()


def make_request(ask: str = "hi", *fields: str, key: str = ALICE, **members: Any) -> bytes:
    body = orjson.dumps({"model": "m", "ask": ask, **members})
    return make_head(len(body), *fields, key=key) + body


def read_error(answer: front.Answer) -> tuple[int, str]:
    return answer.status, orjson.loads(answer.body)["error"]["code"]


@dataclass
class Stage:
    """The running gateway. `entries` are the recorded requests.

    `direct` counts the attempts that began without a task, `sent` those that were sent so.
    """

    services: Services
    running: front.Running
    upstream: raw.Raw
    sender: Sender
    form: HookedFormat
    config: Config
    entries: list[Entry] = field(default_factory=list)
    recorded: asyncio.Condition = field(default_factory=asyncio.Condition)
    direct: int = 0
    sent: int = 0

    @property
    def gate(self) -> Gate:
        return self.services.gate

    def reload(self, **changes: Any) -> None:
        """Serve another configuration."""
        self.config = replace(self.config, **changes)
        self.services.replace(build(self.config, self.gate.host, self.gate.snapshot.number + 1))

    async def warm(self) -> None:
        """Open a connection to the upstream, which the next request uses."""
        [answer] = await self.running.ask(make_request("warm"))
        assert answer.status == 200, answer

    async def wait_for_entries(self, count: int) -> list[Entry]:
        """The recorded requests, as soon as there are `count`."""
        async with self.recorded:
            await self.recorded.wait_for(lambda: len(self.entries) >= count)
        return self.entries

    async def wait_for_bodies(self) -> None:
        """Wait until the gateway waits for a body."""
        rates = self.services.rates
        if not len(rates):
            added = asyncio.get_running_loop().create_future()
            add = rates.add

            def note(body: Any) -> None:
                add(body)
                rates.add = add  # type: ignore[method-assign]
                added.set_result(None)

            rates.add = note  # type: ignore[method-assign]
            await added

    def list_rest(self) -> dict[str, int]:
        """What requests have left behind; {} after a complete clean-up. The timer of all arriving bodies ends itself later."""
        gate, requests = self.gate, self.gate.requests
        rest = {
            "overload": gate.overload.open,
            "count": requests.count,
            "running": len(requests.running),
            "users": sum(requests._users.values()),
            "bodies": len(self.services.rates),
            "timers": sum(each is not self.services.rates for slot in get_wheel()._slots.values() for each in slot),
        }
        return {name: value for name, value in rest.items() if value}


@asynccontextmanager
async def serving(
    folder: Path,
    script: raw.Script,
    *,
    server: str = "httptools",
    timeouts: types.Timeouts | None = None,
    keys: Sequence[KeyEntry] = KEYS,
    speaks: frozenset[str] = frozenset({"plain"}),
    models: Sequence[str] = ("m", "other", "any-*"),
    **rest: Any,
) -> AsyncIterator[Stage]:
    """Serve a gateway with one provider entry, whose upstream runs `script`. Afterwards nothing may be left."""
    async with raw.serving(script) as upstream:
        sender, form = Sender(), HookedFormat()
        sender.speaks = speaks
        entry = ProviderConfig(
            name="sender",
            plugin="sender",
            base_url=upstream.url,
            api_key=Secret(PROVIDER_KEY),
            timeouts=timeouts or types.Timeouts(),
        )
        defaults: dict[str, Any] = {
            "models": {name: model(name, "sender") for name in models},
            "keys": tuple(keys),
            "limits": LimitsConfig(body_bytes=BODY_LIMIT),
            "server": ServerConfig(data_dir=folder, access_log=False),
        }
        config = replace(
            make_config(folder, providers=("sender",), **{**defaults, **rest}), providers={"sender": entry}
        )
        host = make_empty_host()
        host.add("plain", form)
        host.add("sender", sender)
        services = app.make_services(config, host, open_key_store(folder), Metrics())
        await services.start()
        try:
            async with front.serving(server, app.make_app(services)) as running:
                stage = Stage(services, running, upstream, sender, form, config)
                _watch(stage)
                try:
                    yield stage
                finally:
                    DirectAttempt.begin = _BEGIN  # type: ignore[method-assign]
            await asyncio.wait_for(services.gate.requests.wait_until_idle(), 5)
            assert not stage.list_rest(), stage.list_rest()
        finally:
            await services.close()


_BEGIN = DirectAttempt.begin


def _watch(stage: Stage) -> None:
    """Count direct attempts, and keep what is recorded of requests."""
    add = stage.gate.metrics.requests.add

    def begin(attempt: DirectAttempt) -> bool:
        stage.direct += 1
        is_sent = _BEGIN(attempt)
        stage.sent += is_sent
        return is_sent

    def note(entry: Entry) -> None:
        add(entry)
        stage.entries.append(entry)
        asyncio.get_running_loop().create_task(tell())

    async def tell() -> None:
        async with stage.recorded:
            stage.recorded.notify_all()

    DirectAttempt.begin = begin  # type: ignore[method-assign, assignment]
    stage.gate.metrics.requests.add = note  # type: ignore[method-assign]


def echo(*replies: bytes) -> raw.Script:
    """Send one of `replies` to each request in turn, the last one again and again; on every connection."""
    left = list(replies or (raw.answer(OK, Content_Type=JSON),))

    async def script(peer: raw.Peer) -> None:
        while True:
            await peer.request()
            await peer.say(left.pop(0) if len(left) > 1 else left[0])

    return script


def reply(body: bytes = OK, status: str = "200 OK", **headers: str) -> bytes:
    return raw.answer(body, status, **{"Content_Type": JSON, **headers})
