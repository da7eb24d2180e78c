"""Bodies of many callers: what a request holds is released however it ends, and no body keeps other callers waiting."""

from __future__ import annotations

import asyncio
import gc
import logging
import struct
import threading
import tracemalloc
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from socket import SO_LINGER, SOL_SOCKET
from typing import Any

import orjson
import pytest
from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPHeaders, RequestStartLine

from tests.support.front import FRONTS, run, serving
from tests.support.gates import KEY, make_services, model
from tests.support.served import CHAT, Ask, FakeProvider, error_of
from tests.support.variants import vary
from tornado_gate import types
from tornado_gate.admission import body_budget, body_rates
from tornado_gate.admission.body_budget import SMALL_BYTES
from tornado_gate.admission.body_worker import LOOP_BYTES
from tornado_gate.config.model import LimitsConfig
from tornado_gate.pipeline.snapshot_builder import build
from tornado_gate.server.app import GateApplication, make_app
from tornado_gate.server.services import Services
from tornado_gate.types import replace

BODY = orjson.dumps({**CHAT, "pad": "x" * SMALL_BYTES})
LONG_BODY = orjson.dumps({**CHAT, "pad": "x" * LOOP_BYTES})
FORM = (
    b'--b0\r\nContent-Disposition: form-data; name="f"; filename="a.png"\r\n\r\n'
    + b"x" * SMALL_BYTES
    + b"\r\n--b0--\r\n"
)


@pytest.fixture(autouse=True)
def usual_limits(services: Services) -> None:
    """Bodies above the limit that the other tests use."""
    limit(services)


def limit(services: Services, **limits: Any) -> None:
    gate = services.gate
    config = replace(gate.snapshot.config, limits=LimitsConfig(**limits))
    services.replace(build(config, gate.host, gate.snapshot.number + 1))


def assert_nothing_held(services: Services) -> None:
    assert services.bodies.held == services.forms.held == 0
    assert not services.bodies._bodies
    assert not services.forms._bodies
    assert len(services.rates) == 0
    assert services.gate.requests.count == 0


class Line:
    """The connection of a request without a socket: a test decides when the caller has left."""

    finished = False

    def __init__(self) -> None:
        self.sent = b""

    def set_close_callback(self, _callback: object) -> None: ...
    def set_max_body_size(self, _size: int) -> None: ...
    def close(self) -> None: ...

    def finish(self) -> None:
        self.finished = True

    def send(self, chunk: bytes) -> None:
        self.sent += chunk

    def send_head(self, status: int, _reason: str, _headers: object, chunk: bytes) -> None:
        self.sent += b"%d " % status + chunk

    write = write_headers = send


def begin(services: Services, *fields: str, form: bool = False, key: str = KEY) -> tuple[Any, Line]:
    """The handler of a request whose head has arrived."""
    line, app = Line(), make_app(services)
    assert isinstance(app, GateApplication)
    headers = HTTPHeaders()
    for field in ("Host: x", f"Authorization: Bearer {key}", *fields):
        headers.parse_line(field)
    if form:
        headers["Content-Type"] = "multipart/form-data; boundary=b0"
    start = RequestStartLine("POST", "/plain", "HTTP/1.1")
    handler: Any = app.create_exchange(line, start, headers)  # type: ignore[arg-type]
    assert handler.headers_received(start, headers) is None
    return handler, line


async def turn() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def until(is_true: Callable[[], bool]) -> None:
    while not is_true():  # noqa: ASYNC110  a state of the other side of a socket, which has no event
        await asyncio.sleep(0.001)


@pytest.mark.gen_test
@pytest.mark.parametrize("form", [False, True])
@pytest.mark.parametrize(
    "pieces", [0, 1, 2], ids=["before its body", "within its body", "before the answer's first step"]
)
async def test_a_request_whose_caller_leaves_holds_nothing(services: Services, pieces: int, form: bool) -> None:
    await services.gate.callers.authenticate(KEY)
    raw = FORM if form else BODY
    handler, _ = begin(services, "Transfer-Encoding: chunked", form=form)
    for piece in (raw[:-1], raw[-1:])[:pieces]:
        waiting = handler.data_received(piece)
        if waiting is not None:
            await waiting
    if pieces:
        assert (services.forms if form else services.bodies).held
    if pieces == 2:
        handler.finish()
    handler.on_connection_close()
    await turn()
    assert handler.finished
    assert handler.status == 499
    assert_nothing_held(services)


@pytest.mark.gen_test
async def test_an_error_while_the_error_is_rendered_releases_everything(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    await services.gate.callers.authenticate(KEY)
    handler, _ = begin(services, f"Content-Length: {len(BODY)}")
    handler.data_received(BODY)
    monkeypatch.setattr(handler, "answer", lambda: 1 / 0)
    monkeypatch.setattr(handler, "fail", lambda _error: 1 / 0)
    handler.finish()
    with pytest.raises(ZeroDivisionError):
        await handler.work
    assert_nothing_held(services)


async def connect(base_url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", int(base_url.rsplit(":", 1)[1]))


def head(*fields: str, key: str = KEY) -> bytes:
    lines = ("POST /plain HTTP/1.1", "Host: x", f"Authorization: Bearer {key}", *fields)
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


CHUNKED_BODY = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)


@pytest.mark.parametrize("front", vary(*FRONTS))
def test_resets_right_after_a_chunked_request_leak_nothing(tmp_path: Path, front: str) -> None:
    """uvloop tells of the bytes and of the reset before the task of the request takes its first step."""

    async def main() -> None:
        services = make_services(tmp_path, fake=FakeProvider())
        await services.start()
        async with serving(front, make_app(services), body_bytes=1 << 25) as running:
            for _ in range(40):
                client = await running.connect()
                client.writer.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
                client.writer.write(head("Transfer-Encoding: chunked") + CHUNKED_BODY)
                client.reset()
            answer, *_ = await running.ask(head("Transfer-Encoding: chunked") + CHUNKED_BODY)
            assert answer.status == 200
            await until(lambda: not services.bodies.held)
            await services.gate.requests.wait_until_idle()
            await turn()
            assert_nothing_held(services)
        await services.close()

    run(front, main())


@pytest.mark.gen_test
async def test_a_large_body_is_counted_until_its_answer_ends(services: Services, ask: Ask, fake: FakeProvider) -> None:
    held = []

    async def watches(_provider: FakeProvider, _call: types.Call) -> AsyncIterator[types.StreamEvent]:
        held.append(services.bodies.held)
        for event in (types.ResponseStart(model="m"), types.Finish(reason="stop")):
            yield event

    fake.script = watches
    assert (await ask("/plain", BODY, method="POST")).code == 200
    assert (await ask("/plain", CHAT)).code == 200
    assert held[0] > 2 * len(BODY)  # the text and its parsed value
    assert held[1] == 0
    assert_nothing_held(services)


@pytest.mark.gen_test
async def test_declared_bodies_that_do_not_arrive_keep_nobody_waiting(
    services: Services, base_url: str, http_server: HTTPServer, ask: Ask
) -> None:
    limit(services, body_bytes=10_000_000, bodies_bytes=1_000_000)
    writers = []
    for fields in ["Content-Length: 9000000"] * 8 + ["Transfer-Encoding: chunked"] * 8:
        _, writer = await connect(base_url)
        writer.write(head(fields) + (b"1\r\n{" if "chunked" in fields else b"{"))
        writers.append(writer)
    await until(lambda: len(services.rates) == 16)
    assert (await ask("/plain", BODY, method="POST")).code == 200
    for writer in writers:
        writer.close()


@pytest.mark.gen_test
async def test_an_account_that_fills_its_share_is_not_read_and_others_are_answered(
    services: Services, base_url: str, http_server: HTTPServer, ask: Ask
) -> None:
    limit(services, body_bytes=10_000_000, bodies_bytes=2_000_000)
    writers = []
    for _ in range(8):
        _, writer = await connect(base_url)
        writer.write(head("Content-Length: 9000000") + b'{"a":"' + b"x" * 1_000_000)
        writers.append(writer)
    await until(lambda: services.bodies.waiting == 7)
    assert services.bodies.held <= 2_000_000 + SMALL_BYTES
    other = services.bodies.open("another account")
    assert other.grow(50_000) is None
    for writer in writers:
        writer.transport.abort()
    other.release()
    await until(lambda: not len(services.rates))
    assert (await ask("/plain", BODY, method="POST")).code == 200


@pytest.mark.gen_test
@pytest.mark.parametrize("kind", ["application/json", "multipart/form-data; boundary=b0"])
async def test_a_body_that_does_not_arrive_is_a_408(
    services: Services, base_url: str, http_server: HTTPServer, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(body_rates, "WINDOW_SECONDS", 0.1)
    limit(services, body_bytes_per_second=1_000_000)
    reader, writer = await connect(base_url)
    writer.write(head(f"Content-Type: {kind}", "Content-Length: 100000") + b"{")
    answer = await reader.readuntil(b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"onnection: close" in answer
    body = orjson.loads((await reader.read()).partition(b"\n")[0])
    assert "limits.body_bytes_per_second" in body["error"]["message"]
    writer.close()
    assert_nothing_held(services)


@pytest.mark.gen_test
async def test_a_body_that_the_gateway_does_not_read_is_not_slow(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body_rates, "WINDOW_SECONDS", 0.001)
    await services.gate.callers.authenticate(KEY)
    limit(services, bodies_bytes=1000, body_bytes_per_second=1_000_000)
    blocker = services.bodies.open("another account")
    assert blocker.grow(1000) is None
    blocker.complete()
    handler, _ = begin(services, "Transfer-Encoding: chunked")
    waiting = asyncio.ensure_future(handler.data_received(b"x" * (SMALL_BYTES + 1)))
    await asyncio.sleep(0.2)
    for _ in range(100):
        services.rates.on_timer()
    assert not handler.finished
    blocker.release()
    await waiting
    for _ in range(100):
        services.rates.on_timer()
    assert handler.finished
    assert_nothing_held(services)


@pytest.mark.gen_test
async def test_a_budget_that_stays_full_is_not_ready_and_metrics_show_it(
    services: Services, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body_budget, "OVERLOAD_SECONDS", 0.001)
    limit(services, bodies_bytes=1000)
    blocker, waiting = services.bodies.open("a"), services.bodies.open("b")
    assert blocker.grow(1000) is None
    blocker.complete()
    assert (await ask("/readyz")).code == 200
    turn_of_b = waiting.grow(700)
    assert turn_of_b is not None
    task = asyncio.ensure_future(turn_of_b)
    await asyncio.sleep(0.01)
    response = await ask("/readyz")
    assert response.code == 503
    assert orjson.loads(response.body)["status"] == "overloaded"
    assert "limits.bodies_bytes" in orjson.loads(response.body)["reason"]
    shown = (await ask("/metrics")).body.decode()
    assert 'tornado_gate_body_bytes{storage="memory"} 1000.0' in shown
    assert 'tornado_gate_bodies_waiting{storage="memory"} 1.0' in shown
    blocker.release()
    await task
    waiting.release()
    assert (await ask("/readyz")).code == 200
    assert 'tornado_gate_body_bytes{storage="memory"} 0.0' in (await ask("/metrics")).body.decode()


@pytest.mark.gen_test(timeout=30)
async def test_the_memory_that_accounts_share_is_a_metric(services: Services, ask: Ask) -> None:
    large = services.gate.pools.large_responses.open_reader("a")
    large.hold(3000)
    forget = services.turns.keep("a", 2000)
    assert forget is not None
    await services.fetcher.memory.reserve("a", 1000, 1, "busy")
    held = {"large_responses": 3000, "kept_turns": 2000, "fetched_files": 1000}
    shown = (await ask("/metrics")).body.decode()
    for resource, size in held.items():
        assert f'tornado_gate_shared_bytes{{resource="{resource}"}} {size:.1f}' in shown
    large.release()
    forget()
    services.fetcher.memory.release("a", 1000)
    shown = (await ask("/metrics")).body.decode()
    for resource in held:
        assert f'tornado_gate_shared_bytes{{resource="{resource}"}} 0.0' in shown


@pytest.mark.gen_test(timeout=30)
async def test_no_cache_keeps_long_texts_of_callers(services: Services, base_url: str, http_server: HTTPServer) -> None:
    logging.disable()  # pytest keeps every line
    gate = services.gate
    models = {"m": model("m", "fake"), "w/*": model("w/*", "fake")}
    services.replace(build(replace(gate.snapshot.config, models=models), gate.host, gate.snapshot.number + 1))

    length = 100 if isinstance(http_server, HTTPServer) else 50_000  # Tornado itself caches names of headers

    async def send_all(mark: str) -> None:
        long = mark + "x" * 50_000
        body = orjson.dumps({"model": "w/" + long * 10, "ask": ""})
        for request in (
            head(f"Content-Length: {len(body)}") + body,
            head(f"X-{long[:length]}: 1"),
            head(f"Y: {long}"),
            f"POST /plain?{long}={long[:100]} HTTP/1.1\r\nHost: x\r\n\r\n".encode(),
            f"GET /plain/{long} HTTP/1.1\r\nHost: {long[:1000]}\r\n\r\n".encode(),
            f"GET /plain/models HTTP/1.1\r\nHost: {long}\r\nAuthorization: Bearer {KEY}\r\n\r\n".encode(),
            f"GET /plain/models/w/{long} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\n\r\n".encode(),
            f"GET /plain/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {long}\r\n\r\n".encode(),
        ):
            reader, writer = await connect(base_url)
            writer.write(request)
            await reader.readuntil(b"\r\n")
            writer.close()
            await writer.wait_closed()

    await send_all("a")
    gc.collect()
    tracemalloc.start()
    try:
        for mark in "bcdefghi":
            await send_all(mark)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 1_000_000  # eight times 800 KB were sent
    finally:
        tracemalloc.stop()
        logging.disable(logging.NOTSET)


@pytest.mark.gen_test
async def test_forms_of_all_callers_share_the_disk(
    services: Services, base_url: str, http_server: HTTPServer, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body_budget, "WAIT_SECONDS", 0.01)
    limit(services, forms_bytes=len(FORM))
    others = services.forms.open("another account")
    assert others.grow(len(FORM)) is None
    others.complete()
    kind = {"Content-Type": "multipart/form-data; boundary=b0"}
    response = await ask("/plain", FORM, method="POST", headers=kind)
    assert response.code == 503
    assert error_of(response)["code"] == "overloaded"
    assert "limits.forms_bytes" in error_of(response)["message"]
    assert services.forms.held == len(FORM)
    others.release()
    assert (await ask("/plain", FORM, method="POST", headers=kind)).code == 400  # read; it names no model
    assert_nothing_held(services)


# The cost of a body


@pytest.mark.gen_test
@pytest.mark.parametrize("speaks", [frozenset(), frozenset({"plain"})], ids=["common", "verbatim"])
async def test_no_hook_processes_a_large_body_in_the_event_loop(
    services: Services, ask: Ask, fake: FakeProvider, monkeypatch: pytest.MonkeyPatch, speaks: frozenset[str]
) -> None:
    fake.speaks, fake.chunks = speaks, (b"{}",)
    limit(services)
    lanes = services.gate.snapshot.formats["plain"], services.gate.snapshot.targets.providers["fake"].usable_lane
    threads: dict[str, set[bool]] = {"small": set(), "large": set()}
    size = ""

    def watch(hook: Callable[..., Any]) -> Callable[..., Any]:
        def watched(**arguments: Any) -> Any:
            threads[size].add(threading.current_thread() is threading.main_thread())
            return hook(**arguments)

        return watched

    for lane in lanes:
        for name in ("translate_request", "forward_request"):
            if name in lane.hooks:
                monkeypatch.setitem(lane.hooks, name, watch(lane.hooks[name]))
    for size, body in {"small": orjson.dumps(CHAT), "large": LONG_BODY}.items():  # noqa: B007  `watched` reads it
        assert (await ask("/plain", body, method="POST")).code == 200
        assert (await ask("/v1/_explain?route=/plain", body, method="POST")).code == 200
    assert threads == {"small": {True}, "large": {False}}


@pytest.mark.gen_test
@pytest.mark.parametrize(
    ("body", "in_loop"),
    [
        (BODY, True),
        (orjson.dumps({**CHAT, "pad": ["text"] * 20_000}), True),
        (orjson.dumps({**CHAT, "pad": [[]] * 30_000}), False),
        (orjson.dumps({**CHAT, "pad": [1] * 100_000}), False),
        (LONG_BODY, False),
    ],
    ids=["one text", "texts", "arrays", "numbers", "a long text"],
)
async def test_the_bytes_and_the_values_of_a_body_decide_whether_it_is_forwarded_in_the_event_loop(
    services: Services, ask: Ask, fake: FakeProvider, monkeypatch: pytest.MonkeyPatch, body: bytes, in_loop: bool
) -> None:
    fake.speaks, fake.chunks = frozenset({"plain"}), (b"{}",)
    limit(services)
    lane, threads = services.gate.snapshot.targets.providers["fake"].usable_lane, []
    translate = lane.hooks["translate_request"]

    def watched(**arguments: Any) -> Any:
        threads.append(threading.current_thread() is threading.main_thread())
        return translate(**arguments)

    monkeypatch.setitem(lane.hooks, "translate_request", watched)
    assert (await ask("/plain", body, method="POST")).code == 200
    assert threads == [in_loop]
    assert_nothing_held(services)


@pytest.mark.gen_test
@pytest.mark.parametrize("piece", [b'{"":0}', b"[]", b'{"type":"text","text":""}', b'"\\"",0'])
async def test_a_body_with_too_many_values_is_a_413_that_states_the_limit(
    services: Services, ask: Ask, piece: bytes
) -> None:
    limit(services, body_values=10_000)
    raw = b'{"model":"m","ask":"","x":[%b]}' % b",".join([piece] * 40_000)
    response = await ask("/plain", raw, method="POST")
    assert response.code == 413
    assert error_of(response)["code"] == "too_many_values"
    assert "10000 (limits.body_values)" in error_of(response)["message"]
    assert_nothing_held(services)
