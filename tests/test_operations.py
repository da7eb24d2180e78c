"""Routes that are more than chat: forms, operations a route can also be, defaults, many inputs in several requests."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest
from tornado.httpclient import AsyncHTTPClient, HTTPResponse
from tornado.httpserver import HTTPServer
from tornado.ioloop import IOLoop
from tornado.iostream import IOStream
from tornado.tcpclient import TCPClient

from tests.support.gates import KEY, make_config, make_services, model
from tornado_gate import errors, format_impl, provider_impl, types
from tornado_gate.admission.body_budget import BodyClaim
from tornado_gate.codec import multipart
from tornado_gate.config.model import KeyEntry, LimitsConfig, Secret
from tornado_gate.hookspecs import Capabilities, ProviderEntry
from tornado_gate.pipeline.gate import Gate
from tornado_gate.server.services import Services
from tornado_gate.streams.events import iterate_events
from tornado_gate.types import replace

UPLOAD_LIMIT = 3_000_000
BODY_LIMIT = 200_000
NARROW = KeyEntry(name="narrow", key=Secret("narrow-key-0123"), account="n", operations=("speech",))


class ManyFormat:
    """Vectors of texts at /vectors; a form at /form; a drawing, or else speech, at /draw."""

    @format_impl
    def routes(self) -> list[types.Route]:
        return [
            types.Route("POST", "/vectors", "embeddings", wire_format="many"),
            types.Route("POST", "/form", "images", multipart="only"),
            types.Route("POST", "/either", "images", multipart="too"),
            types.Route("POST", "/draw", "images", other_operations=("speech",), default=which_default),
        ]

    @format_impl
    def translate_request(self, call: types.Call, wire: types.WireRequest) -> types.Request:
        body = wire.json
        if call.operation == "embeddings":
            return types.EmbeddingRequest(model=body["model"], inputs=tuple(body["inputs"]))
        if call.operation == "speech":
            return types.SpeechRequest(model=call.model, text=body["ask"])
        names = {"facts": str(dict(call.facts)), "fields": orjson.dumps(body).decode(), "form": str(wire.form)}
        return types.ImageRequest(model=call.model, prompt="", images=wire.files, names=names)

    @format_impl
    def translate_response(self, request: types.Request, events: AsyncIterator[types.StreamEvent]) -> types.Reply:
        return types.Reply(content_type="application/json", chunks=told(events))

    @format_impl
    def translate_error(self, error: errors.GateError) -> bytes:
        return orjson.dumps({"error": error.body()})

    @format_impl
    def forward_request(self, wire: types.WireRequest) -> types.VerbatimRequest | None:
        if wire.json.get("apart"):
            return None
        return types.VerbatimRequest(
            wire_format="many", operation="embeddings", path=wire.path, raw=wire.raw, body=wire.json
        )

    @format_impl
    def forward_response(self, incoming: types.UpstreamResponse) -> types.Reply:
        return types.Reply(content_type="application/json", chunks=incoming.chunks)


def which_default(body: Any) -> str:
    return "images_three" if "fine" in body else "images"


async def told(events: AsyncIterator[types.StreamEvent]) -> AsyncIterator[bytes]:
    async for event in events:
        match event:
            case types.EmbeddingResult():
                told = {
                    "vectors": [list(vector) for vector in event.vectors],
                    "usage": event.usage and event.usage.input_tokens,
                }
                yield orjson.dumps(told)
            case types.ImageResult(extra=extra):
                yield orjson.dumps(extra)
            case types.SpeechEnd():
                yield b'{"spoken": true}'


@dataclass(eq=False)
class ManyProvider:
    """Echoes what it gets. `m` draws and embeds, `tts` speaks."""

    most: int | None = None
    speaks: frozenset[str] = frozenset()
    fails: set[str] = field(default_factory=set)
    batches: list[int] = field(default_factory=list)
    running: int = 0
    most_running: int = 0
    uploads: list[types.FileSource] = field(default_factory=list)
    held: asyncio.Event | None = None

    @provider_impl
    def configure(self, entry: ProviderEntry) -> Capabilities:
        return Capabilities(
            operations=frozenset({"embeddings", "images", "speech"}),
            models={"tts*": frozenset({"speech"}), "m*": frozenset({"images", "embeddings"})},
            inputs_at_once=self.most,
            speaks=self.speaks,
        )

    @provider_impl
    def translate_request(self, request: types.Request) -> types.UpstreamRequest:
        return types.UpstreamRequest(context=request)

    @provider_impl
    async def call_upstream(self, outgoing: types.UpstreamRequest) -> types.UpstreamResponse:
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        await asyncio.sleep(0)
        self.running -= 1
        request = outgoing.context
        if isinstance(request, types.VerbatimRequest):
            return types.UpstreamResponse(chunks=iterate_events(iter([b'{"verbatim": true}'])))  # type: ignore[list-item, arg-type]
        if self.held is not None:
            await self.held.wait()
        return types.UpstreamResponse(chunks=iterate_events(iter([])), context=request)  # type: ignore[arg-type]

    @provider_impl
    async def translate_response(
        self, request: types.Request, incoming: types.UpstreamResponse
    ) -> AsyncIterator[types.StreamEvent]:
        match request:
            case types.EmbeddingRequest(inputs=inputs):
                self.batches.append(len(inputs))
                if self.fails & set(map(str, inputs)):
                    raise errors.UpstreamRefused("no", status=422)
                vectors = tuple([float(text)] for text in map(str, inputs))
                yield types.EmbeddingResult(vectors=vectors, usage=types.Usage(input_tokens=len(inputs)))
            case types.ImageRequest(images=images, names=names):
                self.uploads += images
                files = [[f.field, f.filename, f.media_type, f.size, sum(await f.read())] for f in images]  # type: ignore[union-attr]
                yield types.ImageResult(images=(), extra={**names, "files": files})
            case types.SpeechRequest():
                yield types.SpeechStart(media_type="audio/pcm")
                yield types.SpeechChunk(data=b"..")
                yield types.SpeechEnd()


@pytest.fixture
def provider() -> ManyProvider:
    return ManyProvider()


@pytest.fixture
def services(tmp_path: Path, provider: ManyProvider, io_loop: IOLoop) -> Iterator[Services]:
    models = {
        "m": replace(model("m", "many"), facts={"image_family": "two"}),
        "m3": model("m3", "many"),
        "tts-1": model("tts-1", "many"),
        "both": model("both", "many"),
    }
    base = make_config(tmp_path, models, ("many",))
    config = make_config(
        tmp_path,
        models,
        ("many",),
        keys=(*base.keys, NARROW),
        limits=LimitsConfig(body_bytes=BODY_LIMIT, upload_bytes=UPLOAD_LIMIT),
        defaults={"images": "m", "images_three": "m3"},
    )
    config = replace(config, plugins={"lots": True, "many": True})
    services = make_services(tmp_path, config, lots=ManyFormat(), many=provider)
    io_loop.run_sync(services.start)
    yield services
    io_loop.run_sync(services.close)


@pytest.fixture
def send(http_client: AsyncHTTPClient, base_url: str, http_server: HTTPServer) -> Any:
    async def send(path: str, body: Any, content_type: str = "application/json", key: str = KEY) -> HTTPResponse:
        content = body if isinstance(body, bytes) else orjson.dumps(body)
        headers = {"Authorization": f"Bearer {key}", "Content-Type": content_type}
        return await http_client.fetch(base_url + path, method="POST", body=content, headers=headers, raise_error=False)

    return send


def form(*parts: tuple[str, bytes, str | None]) -> bytes:
    """A form with the boundary "b": name, content, and for a file its name."""
    pieces = []
    for name, content, filename in parts:
        told = f'; filename="{filename}"\r\nContent-Type: image/png' if filename is not None else ""
        pieces.append(
            f'--b\r\nContent-Disposition: form-data; name="{name}"{told}\r\n\r\n'.encode() + content + b"\r\n"
        )
    return b"".join(pieces) + b"--b--\r\n"


FORM = "multipart/form-data; boundary=b"


def error(response: HTTPResponse) -> dict[str, Any]:
    told: dict[str, Any] = orjson.loads(response.body)["error"]
    return told


# Operations


@pytest.mark.gen_test
async def test_a_route_is_what_the_model_can_do(send: Any) -> None:
    drawn = orjson.loads((await send("/draw", {"model": "m", "ask": "x"})).body)
    assert drawn["form"] == "False"
    assert orjson.loads((await send("/draw", {"model": "tts-1", "ask": "x"})).body) == {"spoken": True}


@pytest.mark.gen_test
async def test_a_key_narrowed_to_what_a_route_can_also_be_may_use_it_for_that(send: Any) -> None:
    spoken = await send("/draw", {"model": "both", "ask": "x"}, key="narrow-key-0123")
    assert orjson.loads(spoken.body) == {"spoken": True}
    refused = await send("/draw", {"model": "m", "ask": "x"}, key="narrow-key-0123")
    assert (refused.code, error(refused)["code"]) == (400, "operation_not_supported")
    assert (await send("/vectors", {"model": "m", "inputs": ["1"]}, key="narrow-key-0123")).code == 403


@pytest.mark.gen_test
async def test_a_model_is_refused_what_only_others_of_its_provider_can_do(send: Any) -> None:
    response = await send("/vectors", {"model": "tts-1", "inputs": ["1"]})
    assert response.code == 400
    assert error(response)["code"] == "operation_not_supported"
    assert error(response)["param"] == "model"


def test_a_model_list_says_what_each_model_can_do(gate: Gate) -> None:
    caller = types.Caller(id="k", account="k")
    offered = {model.id: set(model.operations) for model in gate.snapshot.targets.list_models(caller)}
    assert offered["tts-1"] == {"speech"}
    assert offered["m"] == {"images", "embeddings"}
    assert offered["both"] == {"images", "embeddings", "speech"}


@pytest.mark.gen_test
async def test_the_body_says_which_default_holds(send: Any) -> None:
    usual = orjson.loads((await send("/draw", {"ask": "x"})).body)
    fine = orjson.loads((await send("/draw", {"ask": "x", "fine": 1})).body)
    assert usual["facts"] == "{'image_family': 'two'}"
    assert fine["facts"] == "{}"
    missing = await send("/vectors", {"inputs": ["1"]})
    assert (missing.code, error(missing)["param"]) == (400, "model")


# Many inputs


@pytest.mark.gen_test
async def test_many_inputs_go_in_several_requests_and_come_back_in_order(
    send: Any, gate: Gate, provider: ManyProvider
) -> None:
    provider.most = 3
    gate.replace(rebuilt(gate))
    inputs = [str(number) for number in range(20)]
    answer = orjson.loads((await send("/vectors", {"model": "m", "inputs": inputs})).body)
    assert answer == {"vectors": [[float(number)] for number in range(20)], "usage": 20}
    assert sorted(provider.batches) == [2, 3, 3, 3, 3, 3, 3]
    assert 1 < provider.most_running <= 4


@pytest.mark.gen_test
async def test_one_batch_that_is_refused_is_the_answer(send: Any, gate: Gate, provider: ManyProvider) -> None:
    provider.most, provider.fails = 3, {"7"}
    gate.replace(rebuilt(gate))
    response = await send("/vectors", {"model": "m", "inputs": [str(number) for number in range(20)]})
    assert response.code == 422


@pytest.mark.gen_test
async def test_what_fits_goes_verbatim_and_what_does_not_is_split(
    send: Any, gate: Gate, provider: ManyProvider
) -> None:
    provider.most, provider.speaks = 3, frozenset({"many"})
    gate.replace(rebuilt(gate))
    assert (await send("/vectors", {"model": "m", "inputs": ["1", "2", "3"]})).body == b'{"verbatim": true}'
    assert provider.batches == []
    assert len(orjson.loads((await send("/vectors", {"model": "m", "inputs": ["1"] * 4})).body)["vectors"]) == 4
    assert sorted(provider.batches) == [1, 3]


@pytest.mark.gen_test
async def test_a_format_may_decline_the_verbatim_lane(send: Any, gate: Gate, provider: ManyProvider) -> None:
    provider.speaks = frozenset({"many"})
    gate.replace(rebuilt(gate))
    answer = await send("/vectors", {"model": "m", "inputs": ["4"], "apart": True})
    assert orjson.loads(answer.body)["vectors"] == [[4.0]]


def rebuilt(gate: Gate) -> Any:
    from tornado_gate.pipeline.snapshot_builder import build

    return build(gate.snapshot.config, gate.host, gate.snapshot.number + 1)


# Forms


@pytest.mark.gen_test
async def test_a_form_is_fields_and_files(send: Any) -> None:
    body = form(("model", b"m", None), ("n", b"2", None), ("tag[]", b"a", None), ("image[]", b"\x01\x02", "a.png"))
    answer = orjson.loads((await send("/form", body, FORM)).body)
    assert orjson.loads(answer["fields"]) == {"model": "m", "n": "2", "tag": ["a"]}
    assert answer["files"] == [["image[]", "a.png", "image/png", 2, 3]]
    assert answer["form"] == "True"


@pytest.mark.gen_test
async def test_which_bodies_a_route_takes(send: Any) -> None:
    json, a_form = {"model": "m"}, form(("model", b"m", None))
    assert (await send("/form", json)).code == 415
    assert (await send("/draw", a_form, FORM)).code == 415
    assert (await send("/either", json)).code == 200
    assert (await send("/either", a_form, FORM)).code == 200
    assert (await send("/either", b"x=1", "application/x-www-form-urlencoded")).code == 415


@pytest.mark.gen_test
@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"", FORM),
        (b"no form", FORM),
        (form(("model", b"m", None))[:-6], FORM),
        (form(("model", b"m", None)), "multipart/form-data"),
        (b"--b\r\nContent-Type: text/plain\r\n\r\nx\r\n--b--\r\n", FORM),
        (form(("model", b"\xff\xfe", None)), FORM),
    ],
)
async def test_a_broken_form_is_400(send: Any, body: bytes, content_type: str) -> None:
    response = await send("/form", body, content_type)
    assert response.code == 400
    assert error(response)["message"]


@pytest.mark.gen_test
async def test_a_form_at_the_limit_passes_and_one_byte_more_is_413(send: Any) -> None:
    empty = len(form(("model", b"m", None), ("image", b"", "a.png")))
    at_limit = form(("model", b"m", None), ("image", b"x" * (UPLOAD_LIMIT - empty), "a.png"))
    assert len(at_limit) == UPLOAD_LIMIT > BODY_LIMIT
    assert (await send("/form", at_limit, FORM)).code == 200
    over = await send("/form", at_limit[:-2] + b"\r\n\n", FORM)
    assert over.code == 413
    assert str(UPLOAD_LIMIT) in error(over)["message"]


@pytest.mark.gen_test
async def test_the_files_of_a_form_are_gone_with_its_request(send: Any, provider: ManyProvider, tmp_path: Path) -> None:
    before = open_files()
    await send("/form", form(("model", b"m", None), ("image", b"x" * 100, "a.png")), FORM)
    assert list((tmp_path / "uploads").iterdir()) == []
    assert open_files() <= before
    with pytest.raises((ValueError, errors.GateError)):
        await provider.uploads[0].read()  # type: ignore[union-attr]


@pytest.mark.gen_test
async def test_a_caller_who_leaves_in_the_middle_of_a_form_leaves_no_file(
    base_url: str, http_server: HTTPServer, gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, closed = asyncio.Event(), asyncio.Event()
    feed, close = multipart.FormReader.feed, multipart.FormReader.close

    async def watched_feed(reader: multipart.FormReader, data: bytes) -> None:
        await feed(reader, data)
        if uploads(tmp_path):
            written.set()

    def watched_close(reader: multipart.FormReader) -> None:
        close(reader)
        closed.set()

    monkeypatch.setattr(multipart.FormReader, "feed", watched_feed)
    monkeypatch.setattr(multipart.FormReader, "close", watched_close)
    connection = await half_a_form(base_url, form(("image", b"x" * 2_500_000, "a.png")))
    await written.wait()
    connection.close()
    await closed.wait()
    assert uploads(tmp_path) == []


async def half_a_form(base_url: str, body: bytes) -> IOStream:
    """A connection that has sent all of a form but its end."""
    port = int(base_url.rpartition(":")[2])
    connection = await TCPClient().connect("127.0.0.1", port)
    head = f"POST /form HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\nContent-Type: {FORM}\r\n"
    await connection.write(head.encode() + f"Content-Length: {len(body) + 10}\r\n\r\n".encode() + body[:-6])
    return connection


def uploads(folder: Path) -> list[str]:
    """The unnamed files of `folder` that this process has open."""
    links = [os.readlink(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd") if is_open(number)]
    return [link for link in links if link.startswith(str(folder / "uploads"))]


def is_open(number: str) -> bool:
    return os.path.lexists(f"/proc/self/fd/{number}")


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


# Memory


@pytest.mark.gen_test
async def test_large_bodies_wait_for_each_other(
    send: Any, services: Services, provider: ManyProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = services.gate.snapshot
    services.bodies.total = 1
    complete_before: list[int] = []
    complete = BodyClaim.complete

    def watched(claim: BodyClaim) -> None:
        complete_before.append(services.bodies._complete_bytes)
        complete(claim)

    monkeypatch.setattr(BodyClaim, "complete", watched)
    raised = replace(snapshot.config.limits, body_bytes=4_000_000)
    services.replace(replace(snapshot, config=replace(snapshot.config, limits=raised)))
    services.bodies.total = 1
    body = {"model": "m", "inputs": ["1"], "pad": "x" * 2_000_000}
    answers = await asyncio.gather(*(send("/vectors", body) for _ in range(5)))
    assert [answer.code for answer in answers] == [200] * 5
    assert complete_before == [0] * 5  # one at a time
    assert services.bodies.held == 0
