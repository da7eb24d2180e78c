"""Requests that begin without a task are served as all others: their heads, keys, limits, and configurations."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.support import front, raw
from tests.support.direct import (
    ALICE,
    BOB,
    BODY_LIMIT,
    KEYS,
    NARROW,
    Stage,
    echo,
    make_head,
    make_request,
    read_error,
    serving,
)
from tests.support.garbage import find_garbage
from tests.support.gates import model
from tornado_gate import format_impl, guard_impl, types
from tornado_gate.config.model import CorsConfig, LimitsConfig
from tornado_gate.http.server.connection import ServerConnection
from tornado_gate.pipeline import plans
from tornado_gate.streams.passthrough import EVENTS
from tornado_gate.types.value import replace

Play = Callable[[Stage], Coroutine[Any, Any, None]]


def play(folder: Path, test: Play, script: Any = None, **rest: Any) -> None:
    """Run `test` with a gateway whose upstream is ready for a request without a task."""

    async def check() -> None:
        async with serving(folder, script or echo(), **rest) as stage:
            await test(stage)

    front.run("httptools", check())


def last_length(stage: Stage) -> tuple[str, str]:
    """The Content-Length that the plugin has seen, and the length of the body."""
    call = stage.sender.calls[-1]
    return call.headers["content-length"], call.id


def test_plugins_see_the_length_of_each_request(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        client = await stage.running.connect()
        for ask in ("hi", "longer", "hi", "much longer"):
            sent = make_request(ask)
            await client.send(sent)
            assert (await client.answer()).status == 200
            _, _, body = sent.partition(b"\r\n\r\n")
            assert stage.sender.calls[-1].headers["content-length"] == str(len(body))
        await client.close()
        assert stage.direct == 4

    play(tmp_path, test)


def test_plugins_see_the_length_of_a_body_that_comes_later(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        client = await stage.running.connect()
        await client.send(make_request("hi"))
        assert (await client.answer()).status == 200
        for ask in ("longer", "and longer"):
            head, _, body = make_request(ask).partition(b"\r\n\r\n")
            await client.send(head + b"\r\n\r\n")
            await stage.wait_for_bodies()
            await client.send(body[:5])
            await client.send(body[5:])
            assert (await client.answer()).status == 200
            assert stage.sender.calls[-1].headers["content-length"] == str(len(body))
        await client.close()

    play(tmp_path, test)


def test_plugins_see_the_length_of_a_request_without_a_plan(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        client = await stage.running.connect()
        for ask in ("hi", "longer", "much longer"):
            sent = make_request(ask)
            await client.send(sent)
            assert (await client.answer()).status == 200
            assert stage.sender.calls[-1].headers["content-length"] == str(len(sent.partition(b"\r\n\r\n")[2]))
        await client.close()
        assert stage.direct == 0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plans, "make_plan", lambda *_: None)
        play(tmp_path, test)


ORIGIN = "https://a.example"


@pytest.mark.parametrize("origins", [(ORIGIN,), ("*",), ("https://other.example",)])
@pytest.mark.parametrize("origin", [ORIGIN, ""])
def test_pages_of_other_origins_get_the_same_headers_without_a_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, origins: tuple[str, ...], origin: str
) -> None:
    """A whole response, a stream and an error, with and without a plan."""
    asked = [make_request("hi", *[f"Origin: {origin}"][: bool(origin)], **rest) for rest in ({}, {"stream": True})]
    wrong = make_request("hi", *[f"Origin: {origin}"][: bool(origin)], model="?")

    def read(answers: list[front.Answer]) -> list[dict[str, str]]:
        names = ("Access-Control-Allow-Origin", "Access-Control-Expose-Headers", "Vary")
        return [{name: answer.headers[name] for name in names if name in answer.headers} for answer in answers]

    async def test(stage: Stage) -> None:
        direct = await stage.running.ask(*asked, *asked, wrong)
        assert [answer.status for answer in direct] == [200] * 4 + [404]
        assert stage.direct == 4
        monkeypatch.setattr(plans, "make_plan", lambda *_: None)
        stage.gate.plans.clear()
        general = await stage.running.ask(*asked, *asked, wrong)
        assert stage.direct == 4
        assert read(direct) == read(general)
        assert read(direct)[0], "an origin is always considered"

    play(tmp_path, test, cors=CorsConfig(origins=origins))


def test_a_page_never_gets_the_headers_of_another_origin(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        origins = ["https://a.example", "https://b.example", "https://a.example", "https://evil.example"]
        for _ in range(2):
            answers = await stage.running.ask(*[make_request("hi", f"Origin: {origin}") for origin in origins])
            allowed = [answer.headers.get("Access-Control-Allow-Origin") for answer in answers]
            assert allowed == [*origins[:3], None]
        assert stage.direct == 8

    play(tmp_path, test, cors=CorsConfig(origins=("https://a.example", "https://b.example")))


def test_a_key_that_is_limited_to_addresses_needs_no_task(tmp_path: Path) -> None:
    keys = (replace(KEYS[0], addresses=("127.0.0.0/8",)), replace(KEYS[1], addresses=("10.0.0.0/8",)))

    async def test(stage: Stage) -> None:
        for _ in range(2):
            answers = await stage.running.ask(*[make_request(key=ALICE)] * 2, make_request(key=BOB))
            assert [answer.status for answer in answers] == [200, 200, 403]
        assert stage.direct == 4

    play(tmp_path, test, keys=keys)


def test_the_address_behind_a_proxy_is_checked_for_each_head(tmp_path: Path) -> None:
    keys = (replace(KEYS[0], addresses=("10.0.0.0/8",)),)

    async def test(stage: Stage) -> None:
        server = replace(stage.config.server, trusted_proxies=(ip_network("127.0.0.1/32"),))
        stage.reload(server=server)
        addresses = ("10.1.1.1", "10.1.1.1", "10.1.1.2", "11.1.1.1")
        answers = await stage.running.ask(*[make_request("hi", f"X-Forwarded-For: {each}") for each in addresses])
        assert [answer.status for answer in answers] == [200, 200, 200, 403]
        assert stage.direct == 3

    play(tmp_path, test, keys=keys)


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_body_above_the_limit_is_refused_after_a_repeated_head(tmp_path: Path, *, is_whole: bool) -> None:
    async def test(stage: Stage) -> None:
        client = await stage.running.connect()
        await client.send(make_request())
        assert (await client.answer()).status == 200
        large = make_request("x" * BODY_LIMIT)
        await client.send(large if is_whole else large.partition(b"\r\n\r\n")[0] + b"\r\n\r\n")
        answer = await client.answer()
        assert read_error(answer) == (413, "request_too_large")
        assert answer.headers["Connection"] == "close"
        await client.close()

    play(tmp_path, test)


def test_an_empty_body_after_a_repeated_head_is_refused(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        answers = await stage.running.ask(make_request(), make_head(0), make_head("00"), make_request())
        assert [answer.status for answer in answers] == [200, 400, 400, 200]

    play(tmp_path, test)


def test_an_equally_long_head_with_another_key_is_another_caller(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        answers = await stage.running.ask(
            make_request(key=ALICE), make_request(key=BOB), make_request(key=NARROW), make_request(key=ALICE[:-1] + "x")
        )
        assert [answer.status for answer in answers] == [200, 200, 403, 401]
        entries = await stage.wait_for_entries(4)
        assert [entry.caller.account for entry in entries] == ["a", "b", "n", ""]

    play(tmp_path, test)


def test_pipelined_requests_are_answered_in_order(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        names = ["m", "other", "any-1", "m", "?", "other"]
        answers = await stage.running.ask(*[make_request(model=name) for name in names])
        assert [answer.headers.get("X-Gate-Model") for answer in answers] == ["m", "other", "1", "m", None, "other"]
        assert [answer.status for answer in answers] == [200] * 4 + [404, 200]

    play(tmp_path, test)


def revoke(stage: Stage) -> None:
    stage.reload(keys=KEYS[1:])


def limit_models(stage: Stage) -> None:
    stage.reload(keys=(replace(KEYS[0], models=("other",)), *KEYS[1:]))


def limit_operations(stage: Stage) -> None:
    stage.reload(keys=(replace(KEYS[0], operations=("embeddings",)), *KEYS[1:]))


def limit_addresses(stage: Stage) -> None:
    stage.reload(keys=(replace(KEYS[0], addresses=("10.0.0.0/8",)), *KEYS[1:]))


def limit_requests(stage: Stage) -> None:
    stage.reload(keys=(replace(KEYS[0], requests_per_minute=0), *KEYS[1:]))


def remove_model(stage: Stage) -> None:
    stage.reload(models={"other": model("other", "sender")})


def lower_limit(stage: Stage) -> None:
    stage.reload(limits=LimitsConfig(body_bytes=10))


CHANGES: list[tuple[Callable[[Stage], None], tuple[int, str]]] = [
    (revoke, (401, "invalid_api_key")),
    (limit_models, (403, "model_not_allowed")),
    (limit_operations, (403, "not_allowed")),
    (limit_addresses, (403, "address_not_allowed")),
    (remove_model, (404, "model_not_found")),
    (lower_limit, (413, "request_too_large")),
]


def test_a_change_of_the_configuration_is_effective_at_the_next_request(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        original = {name: getattr(stage.config, name) for name in ("keys", "models", "limits")}
        for change, expected in CHANGES:
            stage.reload(**original)
            client = await stage.running.connect()
            for _ in range(2):
                await client.send(make_request())
                assert (await client.answer()).status == 200, change.__name__
            change(stage)
            await client.send(make_request())
            assert read_error(await client.answer()) == expected, change.__name__
            await client.close()

    play(tmp_path, test)


def test_a_limit_that_comes_between_two_requests_is_effective(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        client = await stage.running.connect()
        await client.send(make_request())
        assert (await client.answer()).status == 200
        stage.reload(keys=(replace(KEYS[0], requests_per_minute=1), *KEYS[1:]))
        for status in (200, 429):
            await client.send(make_request())
            assert (await client.answer()).status == status
        stage.reload(keys=KEYS, cors=CorsConfig(origins=("https://a.example",)))
        await client.send(make_request("hi", "Origin: https://a.example"))
        assert (await client.answer()).headers["Access-Control-Allow-Origin"] == "https://a.example"
        await client.close()

    play(tmp_path, test)


def test_nothing_is_left_for_the_collector(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        await stage.warm()

        async def ask() -> None:
            answers = await stage.running.ask(
                make_request(), make_request("longer"), make_request(model="?"), make_head(1) + b"{"
            )
            assert [answer.status for answer in answers] == [200, 200, 404, 400]

        assert await find_garbage(ask) == {}

    play(tmp_path, test)


def test_a_caller_who_waits_for_100_continue_gets_it_on_a_warm_connection(tmp_path: Path) -> None:
    body = orjson.dumps({"model": "m", "ask": "hi"})
    head = make_head(len(body), "Expect: 100-continue")

    async def test(stage: Stage) -> None:
        client = await stage.running.connect()
        await client.send(make_request())
        assert (await client.answer()).status == 200
        for _ in range(2):
            await client.send(head)
            assert (await client.head()).status == 100
            await client.send(body)
            assert (await client.answer()).status == 200
        await client.send(make_request())
        assert (await client.answer()).status == 200
        await client.close()

    play(tmp_path, test)


def test_a_chunked_body_on_a_warm_connection_is_read_to_its_end(tmp_path: Path) -> None:
    body = orjson.dumps({"model": "m", "ask": "hi"})
    head = make_head("").replace(b"Content-Length: \r\n", b"Transfer-Encoding: chunked\r\n")
    chunks = b"%x\r\n%b\r\n%x\r\n%b\r\n0\r\n\r\n" % (5, body[:5], len(body) - 5, body[5:])

    async def test(stage: Stage) -> None:
        client = await stage.running.connect()
        for request in (make_request(), head + chunks, head + chunks, make_request()):
            await client.send(request)
            answer = await client.answer()
            assert (answer.status, orjson.loads(answer.body)) == (200, {"answer": "hello"})
        await client.close()

    play(tmp_path, test)


@pytest.mark.parametrize("change", ["the provider stays", "the provider is removed"])
def test_a_reload_during_an_attempt_leaves_it_its_configuration(tmp_path: Path, change: str) -> None:
    """The pool of a removed provider stays open until the attempt has ended; `serving` checks that nothing is left."""

    async def test(stage: Stage) -> None:
        asked, may_answer = asyncio.Event(), asyncio.Event()

        async def script(peer: raw.Peer) -> None:
            while True:
                await peer.request()
                asked.set()
                await may_answer.wait()
                await peer.say(raw.answer(b'{"answer":"hello"}', Content_Type="application/json"))

        client = await stage.running.connect()
        await client.send(make_request())
        assert (await client.answer()).status == 200
        stage.upstream.script = script
        for peer in stage.upstream.peers:
            peer.hang_up()
        await client.send(make_request())
        await asked.wait()
        if change == "the provider stays":
            stage.reload(models={"m": model("m", "sender")})
        else:
            other = replace(stage.config.providers["sender"], name="other")
            stage.reload(providers={"other": other}, models={"m": model("m", "other")})
        may_answer.set()
        answer = await client.answer()
        assert (answer.status, answer.headers["X-Gate-Provider"]) == (200, "sender")
        await client.send(make_request())
        after = await client.answer()
        assert (after.status, after.headers["X-Gate-Provider"]) == (
            200,
            "sender" if change == "the provider stays" else "other",
        )
        await client.close()

    play(tmp_path, test)


FIRST_EVENT, LAST_EVENT = b'data: {"word":"a"}\n\n', b'data: {"why":"stop"}\n\n'
FIRST, LAST = (b"%x\r\n%b\r\n" % (len(event), event) for event in (FIRST_EVENT, LAST_EVENT))


def test_the_last_event_and_the_end_of_a_stream_are_one_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[bytes] = []
    send = ServerConnection.send

    def note(connection: ServerConnection, data: bytes) -> asyncio.Future[None] | None:
        written.append(data)
        return send(connection, data)

    async def test(stage: Stage) -> None:
        may_end = asyncio.Event()

        async def script(peer: raw.Peer) -> None:
            await peer.request()
            await peer.say(raw.answer(b'{"answer":"hello"}', Content_Type="application/json"))
            await peer.request()
            await peer.say(raw.chunked(FIRST_EVENT, end=b"", Content_Type=EVENTS))
            await may_end.wait()
            await peer.say(LAST + b"0\r\n\r\n")
            await peer.request()
            await peer.say(raw.chunked(FIRST_EVENT, LAST_EVENT, Content_Type=EVENTS))

        stage.upstream.script = script
        await stage.warm()
        monkeypatch.setattr(ServerConnection, "send", note)
        client = await stage.running.connect()
        await client.send(make_request(stream=True))
        assert (await client.head()).status == 200
        assert await client.reader.readexactly(len(FIRST)) == FIRST
        may_end.set()
        await client.reader.readuntil(b"\r\n0\r\n\r\n")
        assert written[1:] == [LAST + b"0\r\n\r\n"]

        written.clear()
        stage.sender.hook = lambda call: call.drop_field("ask")
        await client.send(make_request(stream=True))
        answer = await client.answer()
        assert (answer.headers["X-Gate-Loss"], answer.body) == ("ask", FIRST_EVENT + LAST_EVENT)
        assert len(written) == 1
        assert stage.sent == 2
        await client.close()

    play(tmp_path, test)


class GuardOfAnswers:
    """A guard that allows all responses, so that a task reads each stream."""

    @guard_impl
    def guard_options(self) -> types.GuardOptions:
        return types.GuardOptions(lookahead=0, reads=frozenset({"response"}))

    @guard_impl
    def review_response(self) -> None:
        return None


class WrapperOfAnswers:
    """A wrapper of responses, so that a task reads each stream."""

    @format_impl(wrapper=True)
    def forward_response(self) -> Generator[None, Any, Any]:
        return (yield)


@pytest.mark.parametrize("plugin", [None, GuardOfAnswers, WrapperOfAnswers])
def test_a_stream_that_a_task_reads_has_the_writes_of_one_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plugin: type | None
) -> None:
    """The upstream sends the events in two reads, and then all in one. Without a plugin its connection is cold."""
    written: list[bytes] = []
    send = ServerConnection.send

    def note(connection: ServerConnection, data: bytes) -> asyncio.Future[None] | None:
        written.append(data)
        return send(connection, data)

    monkeypatch.setattr(ServerConnection, "send", note)

    async def test(stage: Stage) -> None:
        may_end = asyncio.Event()

        async def script(peer: raw.Peer) -> None:
            await peer.request()
            await peer.say(raw.chunked(FIRST_EVENT, end=b"", Content_Type=EVENTS))
            await may_end.wait()
            await peer.say(LAST + b"0\r\n\r\n")
            await peer.request()
            await peer.say(raw.chunked(FIRST_EVENT, LAST_EVENT, Content_Type=EVENTS))

        stage.upstream.script = script
        if plugin is not None:
            stage.gate.host.add("plugin", plugin())
            stage.reload(plugins={**stage.config.plugins, "plugin": True})
        client = await stage.running.connect()
        await client.send(make_request(stream=True))
        assert (await client.head()).status == 200
        assert await client.reader.readexactly(len(FIRST)) == FIRST
        may_end.set()
        await client.reader.readuntil(b"\r\n0\r\n\r\n")
        assert written[1:] == [LAST + b"0\r\n\r\n"]

        written.clear()
        await client.send(make_request(stream=True))
        assert (await client.answer()).body == FIRST_EVENT + LAST_EVENT
        assert len(written) == 1
        await client.close()

    play(tmp_path, test)
