"""Connections whose messages are requests, in this process: their time and memory, callers who do not read, faulty formats."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from msgspec.structs import replace
from tornado.netutil import bind_sockets
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

import tornado_gate_openai.format
from tests.support.gates import ANSWER, KEY, FakeProvider, make_config, make_services
from tests.support.gates import model as make_model
from tornado_gate import format_impl, types
from tornado_gate.config.model import LimitsConfig, RealtimeConfig
from tornado_gate.http.server.front import HttpServer
from tornado_gate.pipeline.snapshot_builder import build
from tornado_gate.server.app import make_app
from tornado_gate.server.handlers.message_lanes import MAX_PARALLEL, MAX_WAITING, Lanes
from tornado_gate.server.handlers.message_socket import MessageSocketHandler
from tornado_gate.server.services import Services
from tornado_gate.types import PartDelta
from tornado_gate_openai.format.response_socket import open_socket

MANY = 400
CREATE = {"type": "response.create", "model": "m", "input": "Hi", "store": False}


@asynccontextmanager
async def serving(
    tmp_path: Path, fake: FakeProvider, minutes: float = 60.0, format: Any = tornado_gate_openai.format, **limits: int
) -> AsyncIterator[tuple[Services, Callable[[], connect]]]:
    rules = RealtimeConfig(minutes=minutes)
    config = make_config(tmp_path, realtime=rules, limits=LimitsConfig(**limits))
    config = replace(config, plugins={"format-openai": True, "fake": True})
    services = make_services(tmp_path, config, **{"format-openai": format, "fake": fake})
    await services.start()
    server = HttpServer(make_app(services))
    sockets = bind_sockets(0, "127.0.0.1")
    await server.listen(sockets)
    url = f"ws://127.0.0.1:{sockets[0].getsockname()[1]}/v1/responses"
    headers = {"Authorization": f"Bearer {KEY}"}
    try:
        async with asyncio.timeout(30):
            yield services, lambda: connect(url, additional_headers=headers, proxy=None, max_queue=1, max_size=None)
    finally:
        server.stop()
        await server.close_all_connections()
        await services.close()


async def send(client: ClientConnection, **fields: Any) -> None:
    await client.send(json.dumps({**CREATE, **fields}))


async def read_all(client: ClientConnection) -> tuple[list[dict[str, Any]], int]:
    """The events until the connection is closed, and the close code."""
    events: list[dict[str, Any]] = []
    with pytest.raises(ConnectionClosed) as caught:
        while True:
            events.append(json.loads(await client.recv()))
    assert caught.value.rcvd is not None
    return events, caught.value.rcvd.code


async def until(ready: Callable[[], bool]) -> None:
    while not ready():  # noqa: ASYNC110  states of the gateway that have no event
        await asyncio.sleep(0.005)


def held(begun: asyncio.Event, go_on: asyncio.Event) -> Any:
    """A provider's script that begins, and goes on when told."""

    async def script(_provider: FakeProvider, _call: types.Call) -> AsyncIterator[types.StreamEvent]:
        for event in ANSWER[:2]:
            yield event
        begun.set()
        await go_on.wait()
        for event in ANSWER[2:]:
            yield event

    return script


@pytest.mark.gen_test(timeout=40)
async def test_a_connection_that_has_been_open_long_enough_ends_with_an_error(tmp_path: Path) -> None:
    async with serving(tmp_path, FakeProvider(), minutes=0.0005) as (_, dial), dial() as client:
        (error,), code = await read_all(client)
        assert (error["type"], error["status"], code) == ("error", 400, 1000)
        assert error["error"]["code"] == "websocket_connection_limit_reached"


@pytest.mark.gen_test(timeout=40)
async def test_a_response_that_runs_when_the_time_is_over_is_finished(tmp_path: Path) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()
    fake = FakeProvider(script=held(begun, go_on))
    async with serving(tmp_path, fake, minutes=0.005) as (services, dial), dial() as client:
        await send(client)
        await send(client, input="this one waits")
        await begun.wait()
        (handler,) = services.sessions._timers
        await until(lambda: handler.session._expired)  # type: ignore[attr-defined]
        go_on.set()
        events, code = await read_all(client)
        assert [event["type"] for event in events[-2:]] == ["response.completed", "error"]
        assert (events[-1]["error"]["code"], code) == ("websocket_connection_limit_reached", 1000)
        assert len(fake.asked) == 1


@pytest.mark.gen_test(timeout=40)
async def test_what_has_arrived_of_a_message_is_counted_until_the_connection_ends(tmp_path: Path) -> None:
    async with serving(tmp_path, FakeProvider(), body_bytes=1_000_000, bodies_bytes=1_000_000) as (services, dial):
        client = await dial()
        # The head of a frame with 500,000 bytes, a mask, and a part of them
        client.transport.write(b"\x81\xff" + (500_000).to_bytes(8, "big") + bytes(4) + b"x" * 200_000)
        await until(lambda: services.bodies.held >= 200_000)
        client.transport.abort()
        await until(lambda: services.bodies.held == 0)
        assert len(services.sessions) == 0


@pytest.mark.gen_test(timeout=40)
async def test_memory_is_released_after_each_request_and_with_the_connection(tmp_path: Path) -> None:
    async with serving(tmp_path, FakeProvider()) as (services, dial):
        async with dial() as client:
            for _ in range(3):
                await send(client, input="word " * 30_000)
                while json.loads(await client.recv())["type"] != "response.completed":
                    pass
            assert services.bodies.held == 0
            assert 150_000 < services.turns.held < 300_000, "one turn is kept, not three"
        await until(lambda: services.turns.held == 0)
        assert services.gate.requests.count == 0


@pytest.mark.gen_test(timeout=40)
async def test_a_caller_who_does_not_read_pauses_the_provider(tmp_path: Path) -> None:
    sent: list[int] = []

    async def script(_provider: FakeProvider, _call: types.Call) -> AsyncIterator[types.StreamEvent]:
        for event in ANSWER[:2]:
            yield event
        for number in range(MANY):
            sent.append(number)
            yield PartDelta(index=0, data="x" * 50_000)
        for event in ANSWER[2:]:
            yield event

    async with serving(tmp_path, FakeProvider(script=script)) as (services, dial), dial() as client:
        await send(client)
        (handler,) = services.sessions._timers
        await until(lambda: handler.session._connection._room is not None)  # type: ignore[attr-defined]
        paused = len(sent)
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(sent) == paused < MANY
        while json.loads(await client.recv())["type"] != "response.completed":
            pass
        assert len(sent) == MANY


@pytest.mark.gen_test(timeout=40)
async def test_a_caller_who_leaves_during_the_handshake_leaves_no_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, left, prepared = asyncio.Event(), asyncio.Event(), asyncio.Event()
    authenticate, on_close, prepare = (
        getattr(MessageSocketHandler, name) for name in ("_authenticate", "on_close", "prepare")
    )

    async def authenticate_late(handler: MessageSocketHandler) -> None:
        begun.set()
        await left.wait()
        await authenticate(handler)

    def note_close(handler: MessageSocketHandler) -> None:
        on_close(handler)
        left.set()

    async def note_prepared(handler: MessageSocketHandler) -> None:
        try:
            await prepare(handler)
        finally:
            prepared.set()

    monkeypatch.setattr(MessageSocketHandler, "_authenticate", authenticate_late)
    monkeypatch.setattr(MessageSocketHandler, "on_close", note_close)
    monkeypatch.setattr(MessageSocketHandler, "prepare", note_prepared)
    async with serving(tmp_path, FakeProvider()) as (services, dial):
        dialling = asyncio.ensure_future(dial().__aenter__())
        await begun.wait()
        dialling.cancel()
        await asyncio.gather(dialling, return_exceptions=True)
        await prepared.wait()
        assert len(services.sessions) == 0


def make_format(open_socket: Callable[..., Any]) -> ModuleType:
    """The format, with another adapter."""
    made = ModuleType("format_with_another_adapter")
    vars(made).update(vars(tornado_gate_openai.format))

    @format_impl
    def routes() -> list[types.Route]:
        found = tornado_gate_openai.format.routes()
        return [route if route.messages is None else replace(route, messages=open_socket) for route in found]

    made.routes = routes  # type: ignore[attr-defined]
    return made


@pytest.mark.gen_test(timeout=40)
async def test_requests_use_the_current_configuration(tmp_path: Path) -> None:
    async with serving(tmp_path, FakeProvider()) as (services, dial), dial() as client:
        await send(client, model="added")
        assert json.loads(await client.recv())["error"]["code"] == "model_not_found"
        config = services.gate.snapshot.config
        models = {**config.models, "added": make_model("added", "fake")}
        services.replace(build(replace(config, models=models), services.gate.host, 2))
        await send(client, model="added")
        assert json.loads(await client.recv())["type"] == "response.created"
        services.replace(build(replace(config, plugins={"fake": True, "format-openai": False}), services.gate.host, 3))
        await send(client)
        events, code = await read_all(client)
        assert (events[-1]["type"], code) == ("response.completed", 1012)


@pytest.mark.gen_test(timeout=40)
async def test_a_gateway_that_stores_nothing_continues_the_last_response_of_a_connection(tmp_path: Path) -> None:
    fake = FakeProvider()
    async with serving(tmp_path, fake) as (services, dial):
        config = replace(services.gate.snapshot.config, responses=types.ResponseRules(store="never"))
        services.replace(build(config, services.gate.host, 2))
        async with dial() as client:
            await send(client, store=None)
            while (event := json.loads(await client.recv()))["type"] != "response.completed":
                pass
            first = event["response"]
            await send(client, store=None, previous_response_id=first["id"])
            while (event := json.loads(await client.recv()))["type"] != "response.completed":
                pass
            assert (first["store"], event["response"]["previous_response_id"]) == (False, first["id"])
    request = fake.requests[-1]
    assert isinstance(request, types.ChatRequest)
    assert [message.role for message in request.messages] == ["user", "assistant", "user"]


# The order of requests


async def play_lanes(
    lanes: Lanes, count: int, lane_of: Callable[[int], str]
) -> tuple[list[int], list[Awaitable[object] | None]]:
    """Add jobs that end when told; returns the numbers in the order in which they began, and what `add` returned."""
    begun: list[int] = []
    rooms = []

    async def job(number: int) -> None:
        begun.append(number)
        await asyncio.sleep(0)

    for number in range(count):
        rooms.append(lanes.add(lane_of(number), lambda number=number: job(number)))
    await until(lambda: lanes.is_idle)
    return begun, rooms


@pytest.mark.gen_test
async def test_lanes_take_turns_and_pause_the_reader() -> None:
    idle: list[bool] = []
    lanes = Lanes(lambda: idle.append(True))
    begun, rooms = await play_lanes(lanes, 100, lambda number: str(number % 50))
    assert sorted(begun) == list(range(100))
    assert begun[:MAX_PARALLEL] == list(range(MAX_PARALLEL))
    assert [room is None for room in rooms] == [number < MAX_PARALLEL + MAX_WAITING for number in range(100)]
    assert all(room.done() for room in rooms if isinstance(room, asyncio.Future))
    assert idle


@pytest.mark.gen_test
async def test_cancelled_lanes_run_nothing_more() -> None:
    lanes = Lanes(lambda: None)
    begun: list[int] = []
    ended: list[int] = []

    async def job(number: int) -> None:
        begun.append(number)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(number)

    for number in range(3):
        lanes.add("", lambda number=number: job(number))
    await asyncio.sleep(0)
    lanes.cancel()
    await until(lambda: lanes.is_idle)
    assert (begun, ended) == ([0], [0])


@pytest.mark.gen_test(timeout=40)
async def test_an_adapter_that_fails_gives_errors_without_its_text(tmp_path: Path) -> None:
    def fail_at_once(call: Any, keep: Any) -> Any:
        raise RuntimeError("secret")

    def fail_at_messages(call: Any, keep: Any) -> Any:
        adapter = open_socket(call, keep)

        def read_message(body: Any, raw: bytes) -> Any:
            raise RuntimeError("secret")

        adapter.read_message = read_message  # type: ignore[method-assign]
        return adapter

    async with serving(tmp_path, FakeProvider(), format=make_format(fail_at_once)) as (services, dial):
        with pytest.raises(InvalidStatus) as caught:
            async with dial():
                pass
        assert caught.value.response.status_code == 503
        assert b"secret" not in caught.value.response.body
        assert len(services.sessions) == 0
    async with serving(tmp_path, FakeProvider(), format=make_format(fail_at_messages)) as (_, dial), dial() as client:
        await send(client)
        error = json.loads(await client.recv())
        assert (error["type"], error["status"], "secret" in json.dumps(error)) == ("error", 500, False)
