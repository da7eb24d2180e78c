"""What a caller gets of video tasks, in a gate inside the test's process whose provider is the test's own."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.support.gates import make_config, make_services, model
from tornado_gate import format_impl, provider_impl, types
from tornado_gate.admission.bounds import make_bound
from tornado_gate.config.model import VideosConfig
from tornado_gate.errors import GateError, InvalidField, RateLimited
from tornado_gate.hookspecs import Capabilities, ProviderEntry
from tornado_gate.pipeline.pipeline import PreparedAnswer
from tornado_gate.pipeline.snapshot_builder import build
from tornado_gate.server.dispatch import dispatch
from tornado_gate.server.services import Services
from tornado_gate.tasks.provider_client import ProviderClient
from tornado_gate.tasks.record import TaskRecord, encode_request
from tornado_gate.tasks.translation import translate
from tornado_gate.types import replace

ROUTE = types.Route("POST", "/films", "videos")
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
STATES = ("running", "queued")
SECRET = "key-that-must-never-be-on-the-disk"


class FilmFormat:
    """``{"model", "prompt", "image"}`` -> the task as JSON."""

    @format_impl
    def routes(self) -> list[types.Route]:
        return [ROUTE]

    @format_impl
    def translate_request(self, wire: types.WireRequest) -> types.VideoRequest:
        image = wire.files[0] if wire.files else None
        if "image" in wire.json:
            image = types.Data(media_type="image/png", base64=wire.json["image"])
        return types.VideoRequest(model=wire.json["model"], prompt=wire.json["prompt"], image=image)

    @format_impl
    def translate_response(self, request: types.Request, events: AsyncIterator[types.StreamEvent]) -> types.Reply:
        async def chunks() -> AsyncIterator[bytes]:
            async for event in events:
                assert isinstance(event, types.TaskResult)
                yield orjson.dumps({"id": event.task.id, "status": event.task.status})

        return types.Reply(content_type="application/json", chunks=chunks())

    @format_impl
    def translate_error(self, error: GateError) -> bytes:
        return orjson.dumps(error.body())


@dataclass(eq=False)
class FilmProvider:
    """Works on each video for ever. Counts translations of requests, and what the upstream was sent."""

    translated: list[types.VideoRequest] = field(default_factory=list)
    sent: list[types.UpstreamRequest] = field(default_factory=list)
    images: list[bytes] = field(default_factory=list)
    refuses: str = ""
    opens: Callable[[], None] | None = None
    started: asyncio.Event = field(default_factory=asyncio.Event)

    @provider_impl
    def configure(self, entry: ProviderEntry) -> Capabilities:
        return Capabilities(operations=frozenset({"videos"}))

    @provider_impl
    def translate_request(self, call: types.Call, request: types.Request) -> types.UpstreamRequest:
        if not isinstance(request, types.VideoRequest):
            return types.UpstreamRequest(url="https://upstream.test/", context=request)
        self.translated.append(request)
        if self.refuses:
            raise InvalidField("prompt", self.refuses)
        if self.opens is not None:
            call.closing.callback(self.opens)
        return types.UpstreamRequest(
            headers={"authorization": SECRET}, json={"prompt": request.prompt}, context=request
        )

    @provider_impl
    async def call_upstream(self, outgoing: types.UpstreamRequest) -> types.UpstreamResponse:
        if isinstance(outgoing.context, types.VideoRequest):
            image = outgoing.context.image
            if image is not None and not isinstance(image, types.Data | types.Link):
                self.images.append(await image.read())
            self.sent.append(outgoing)
            self.started.set()
        return types.UpstreamResponse(chunks=types.BufferedBody(b""))

    @provider_impl
    async def translate_response(self) -> AsyncIterator[types.StreamEvent]:
        yield types.VideoOperation(status="running", operation={"id": "up-1"}, poll_after=60.0)


@dataclass(eq=False)
class FormFile:
    """A file of a form, which is closed when its request ends."""

    data: bytes = PNG
    field: str = "image"
    filename: str = "image.png"
    media_type: str = "image/png"
    closed: bool = False

    @property
    def size(self) -> int:
        return len(self.data)

    async def read(self, size: int = -1) -> bytes:
        assert not self.closed
        return self.data if size < 0 else self.data[:size]

    async def chunks(self) -> AsyncIterator[bytes]:
        yield await self.read()


@dataclass
class World:
    """The parts of a process that serves, and its provider."""

    services: Services
    provider: FilmProvider

    caller: types.Caller = types.Caller(id="k", account="a")
    headers: dict[str, str] = field(default_factory=dict)

    async def create(self, *files: FormFile, prompt: str = "a fox", **fields: str) -> dict[str, Any]:
        """Create a task; its request has ended when this returns."""
        body = {"model": "film", "prompt": prompt, **fields}
        wire = types.WireRequest(
            route=ROUTE, path=ROUTE.path, path_arguments={}, query={}, headers={}, raw=b"", json=body, files=files
        )
        call = types.Call(id="r1", operation="videos", format="film", caller=self.caller, headers=self.headers)
        found = await dispatch(self.services, self.services.gate.snapshot, call, wire)
        assert isinstance(found, PreparedAnswer)
        told: dict[str, Any] = orjson.loads(b"".join([chunk async for chunk in found.reply.chunks]))
        for file in files:
            file.closed = True
        return told

    async def wait_for_calls(self, count: int) -> None:
        while len(self.provider.sent) < count:
            self.provider.started.clear()
            await self.provider.started.wait()


def run(tmp_path: Path, test: Callable[[World], Awaitable[None]], provider: FilmProvider, concurrency: int = 4) -> None:
    async def main() -> None:
        videos = VideosConfig(poll_seconds=0.01, concurrency=concurrency)
        config = make_config(tmp_path, {"film": model("film", "fake")}, videos=videos)
        config = replace(config, plugins={"film": True, **config.plugins})
        services = make_services(tmp_path, config, film=FilmFormat(), fake=provider)
        await services.start()
        try:
            async with asyncio.timeout(60):
                await test(World(services, provider))
        finally:
            await services.close()

    asyncio.run(main())


@pytest.mark.parametrize("fields", [{}, {"image": base64.b64encode(PNG).decode()}])
def test_the_request_of_a_task_that_starts_at_once_is_translated_once(tmp_path: Path, fields: dict[str, str]) -> None:
    async def test(world: World) -> None:
        created = await world.create(**fields)
        await world.wait_for_calls(1)
        assert [request.task_id for request in world.provider.translated] == [created["id"]]
        assert world.provider.sent[0].json == {"prompt": "a fox"}

    run(tmp_path, test, FilmProvider())


def test_a_task_that_waits_for_a_slot_is_translated_again_when_it_starts(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        first, second = await world.create(), await world.create(prompt="a hen")
        await world.wait_for_calls(1)
        while (await world.services.tasks.engine.get(first["id"])).step != "running":
            await world.services.tasks.engine.wait_for_change(await world.services.tasks.engine.get(first["id"]), 0.05)
        await world.services.tasks.engine.cancel(await world.services.tasks.engine.get(first["id"]))
        await world.wait_for_calls(2)
        asked = [(request.task_id, request.prompt) for request in world.provider.translated]
        assert asked == [(first["id"], "a fox"), (second["id"], "a hen"), (second["id"], "a hen")]
        assert world.provider.sent[1].json == {"prompt": "a hen"}

    run(tmp_path, test, FilmProvider(), concurrency=1)


def test_an_uploaded_image_is_sent_from_the_store_after_its_request_has_ended(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        await world.create(FormFile())
        await world.wait_for_calls(1)
        assert world.provider.images == [PNG]

    run(tmp_path, test, FilmProvider())


def test_what_a_translation_has_opened_is_closed_and_its_result_not_used(tmp_path: Path) -> None:
    closed: list[bool] = []

    async def test(world: World) -> None:
        await world.create()
        assert closed == [True]
        await world.wait_for_calls(1)
        assert len(world.provider.translated) == 2

    run(tmp_path, test, FilmProvider(opens=lambda: closed.append(True)))


def test_what_the_provider_finds_wrong_is_an_error_at_creation_and_leaves_no_task(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        with pytest.raises(InvalidField, match="no foxes"):
            await world.create()
        assert await world.services.tasks.engine.store.list_active() == []

    run(tmp_path, test, FilmProvider(refuses="no foxes"))


def make_limited_caller(name: str, limit: int) -> types.Caller:
    return types.Caller(id="k", account="a", bounds=(make_bound("key", "k", name, limit),))


async def count_used(world: World) -> int:
    """What the store counts against the caller's bound, in this and every other process."""
    (level,) = await world.services.gate.admission.limiter.read(world.caller.bounds)
    return level.used


@pytest.mark.parametrize("name", ["requests_per_minute", "concurrent_requests"])
def test_a_task_that_fails_at_creation_gives_back_what_it_reserved(tmp_path: Path, name: str) -> None:
    async def test(world: World) -> None:
        world.caller = make_limited_caller(name, 1)
        for _ in range(2):
            with pytest.raises(InvalidField, match="no foxes"):
                await world.create()
            assert await count_used(world) == 0
        world.provider.refuses = ""
        await world.create()
        assert await count_used(world) == 1
        with pytest.raises(RateLimited):
            await world.create()

    run(tmp_path, test, FilmProvider(refuses="no foxes"))


def test_of_two_requests_with_one_idempotency_key_the_later_gives_back_what_it_reserved(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        world.caller, world.headers = make_limited_caller("concurrent_requests", 2), {"idempotency-key": "one"}
        first, second = await asyncio.gather(world.create(), world.create())
        assert first["id"] == second["id"]
        assert len(world.provider.translated) >= 2, "both were admitted before either was stored"
        assert await count_used(world) == 1

    run(tmp_path, test, FilmProvider())


def test_no_header_of_a_translation_reaches_the_disk(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        await world.create()
        await world.wait_for_calls(1)
        await world.create()

    run(tmp_path, test, FilmProvider())
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.parent.parent.name == "records" for path in files)
    assert not any(SECRET.encode() in path.read_bytes() for path in files)


def test_a_translation_of_an_older_configuration_is_not_used(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        gate = world.services.gate
        lane = gate.snapshot.targets.providers["fake"].lane
        assert lane is not None
        call = types.Call(id="r1", operation="videos", format="film", caller=types.Caller(id="k", account="a"))
        request = types.VideoRequest(model="film", prompt="a fox", task_id="video_" + "0" * 32)
        made = await translate(call, lane, request)
        assert made is not None
        assert SECRET not in repr(made)
        record = TaskRecord(
            id=request.task_id, account="a", model="film", provider="fake", upstream_model="film", created_at=1.0,
            deadline=2.0, request=encode_request(request),
        )  # fmt: skip
        client = ProviderClient(gate, world.services.fetcher)
        await client.begin(record, request, made)
        assert len(world.provider.translated) == 1
        gate.replace(build(gate.snapshot.config, gate.host, gate.snapshot.number + 1))
        await client.begin(record, request, made)
        assert len(world.provider.translated) == 2

    run(tmp_path, test, FilmProvider())


def test_a_task_that_is_created_while_the_engine_looks_starts_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tornado_gate.tasks.engine.SCAN_SECONDS", 3600.0)

    async def test(world: World) -> None:
        store = world.services.tasks.engine.store
        look, looked, created = store.list_active, asyncio.Event(), asyncio.Event()

        async def active() -> Any:
            found = await look()
            looked.set()
            await created.wait()
            return found

        monkeypatch.setattr(store, "list_active", active)
        world.services.tasks.engine.wake()
        await looked.wait()
        await world.create()
        created.set()
        await world.wait_for_calls(1)

    run(tmp_path, test, FilmProvider())


def test_the_metrics_have_the_running_and_waiting_tasks_and_the_age_of_the_oldest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1_000_000_000.0]
    monkeypatch.setattr("time.time", lambda: now[0])

    async def test(world: World) -> None:
        assert read_task_metrics(world) == {}
        for seconds in (100, 30, 0):
            await world.create(prompt=str(seconds))
            now[0] += seconds
        await wait_for_active_tasks(world, 3)
        assert read_task_metrics(world) == {"running": 1.0, "queued": 2.0, "oldest": 130.0}

    run(tmp_path, test, FilmProvider(), concurrency=1)


async def wait_for_active_tasks(world: World, count: int) -> None:
    """Wait until the engine has seen so many tasks that have not ended."""
    engine, looked = world.services.tasks.engine, asyncio.Event()
    count_active = engine.on_look

    def note_look() -> None:
        count_active()
        looked.set()

    engine.on_look = note_look
    while len(engine.queues.active) != count:
        looked.clear()
        engine.wake()
        await looked.wait()


def read_task_metrics(world: World) -> dict[str, float]:
    """The numbers of tasks by state, and the age of the oldest."""
    lines = world.services.gate.metrics.render()[0].decode().splitlines()
    values = {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines) if name[:1] != "#"}
    found = {state: values.get(f'tornado_gate_open_video_tasks{{provider="fake",state="{state}"}}') for state in STATES}
    found["oldest"] = values.get("tornado_gate_video_oldest_seconds")
    return {name: value for name, value in found.items() if value}
