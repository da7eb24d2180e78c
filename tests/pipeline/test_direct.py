"""An attempt without a task ends like any other, whatever its upstream, its hooks and its caller do."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support import front
from tests.support.direct import JSON, OK, PROVIDER_KEY, Hook, Sender, Stage, echo, make_request, reply, serving
from tests.support.raw import Peer, chunked
from tests.support.variants import vary
from tornado_gate import types
from tornado_gate.config.model import LimitsConfig
from tornado_gate.config.routing import CircuitsConfig
from tornado_gate.errors import ConfigError, InvalidField, Unavailable
from tornado_gate.http.client.connection import ClientConnection
from tornado_gate.http.client.faults import ConnectionBroken
from tornado_gate.pipeline import plans
from tornado_gate.server.handlers.answer import AnswerHandler
from tornado_gate.types.value import replace

LIMITS = LimitsConfig(body_bytes=2000, answer_bytes=5000, stream_bytes=5000)
CIRCUITS = CircuitsConfig(failures=1000)
Step = bytes | str
"""Bytes to send as a piece of their own, or what else the upstream does: `close` or `reset`."""

EVENTS = b'data: {"word":"a"}\n\ndata: {"why":"stop"}\n\n'
SSE = "text/event-stream"
RESPONSES: dict[str, Sequence[Step]] = {
    "whole": [reply()],
    "head and body in two reads": [reply()[:-5], reply()[-5:]],
    "head in two reads": [reply()[:20], reply()[20:]],
    "byte by byte": [reply()[index : index + 1] for index in range(len(reply()))],
    "chunked": [chunked(OK, Content_Type=JSON)],
    "chunked in two pieces": [chunked(OK[:4], OK[4:], Content_Type=JSON)],
    "chunked in two reads": [chunked(OK[:4], OK[4:], Content_Type=JSON)[:-9], chunked(OK[:4], OK[4:])[-9:]],
    "a trailer": [chunked(OK, end=b"0\r\nX-Trailer: 1\r\n\r\n", Content_Type=JSON)],
    "a wrong chunk": [chunked(OK, end=b"zz\r\n", Content_Type=JSON)],
    "gzip": [reply(gzip.compress(OK, mtime=0), Content_Encoding="gzip")],
    "gzip in two reads": [
        reply(gzip.compress(OK, mtime=0), Content_Encoding="gzip")[:-9],
        gzip.compress(OK, mtime=0)[-9:],
    ],
    "no gzip": [reply(OK, Content_Encoding="gzip")],
    "another coding": [reply(OK, Content_Encoding="zstd-x")],
    "103 first": [b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", reply()],
    "100 first, in the same read": [b"HTTP/1.1 100 Continue\r\n\r\n" + reply()],
    "101": [reply(b"", "101 Switching Protocols", Upgrade="x", Connection="upgrade")],
    "201": [reply(status="201 Created")],
    "204": [reply(b"", "204 No Content", Content_Length="")],
    "206": [reply(status="206 Partial Content")],
    "302": [reply(b"", "302 Found", Location="http://example.invalid/")],
    "304": [reply(b"", "304 Not Modified", Content_Length="")],
    **{
        status: [reply(b'{"error":{"message":"no","code":"c"}}', status, Retry_After="7")]
        for status in (
            "400 A",
            "401 A",
            "403 A",
            "404 A",
            "413 A",
            "422 A",
            "429 A",
            "500 A",
            "502 A",
            "503 A",
            "529 A",
        )
    },
    "500 without a body": [reply(b"", "500 A")],
    "400 whose body breaks": [reply(b'{"error":{}}', "400 A")[:-3], "close"],
    "empty": [reply(b"")],
    "empty, chunked": [chunked(Content_Type=JSON)],
    "an error in a 200": [reply(b'{"error":{"message":"overloaded","type":"server_error"}}')],
    "no JSON": [reply(b"<html>")],
    "no content type": [reply(Content_Type="")],
    "another content type": [reply(Content_Type="text/plain; charset=utf-8")],
    "a content type that is not ASCII": [reply(Content_Type="text/\xe9")],
    "the key in the body": [reply(b'{"answer":"%s"}' % PROVIDER_KEY.encode())],
    "the key in a 400": [reply(b'{"error":{"message":"bad key %s"}}' % PROVIDER_KEY.encode(), "400 A")],
    "the key in the content type": [reply(Content_Type=f"application/json; x={PROVIDER_KEY}")],
    "announced too large": [reply(b"", Content_Length="6000"), b"x"],
    "too large in one read": [reply(b'{"answer":"%s"}' % (b"x" * 6000))],
    "too large, chunked": [chunked(*[b'{"answer":"', *[b"x" * 1000] * 6, b'"}'], Content_Type=JSON)],
    "just small enough": [reply(b'{"answer":"%s"}' % (b"x" * 4980))],
    "closed before the head": ["close"],
    "reset before the head": ["reset"],
    "closed in the head": [b"HTTP/1.1 200 OK\r\nContent-", "close"],
    "closed in the body": [reply()[:-3], "close"],
    "reset in the body": [reply()[:-3], "reset"],
    "closed after the head": [reply()[: -len(OK)], "close"],
    "ended by closing": [reply(Content_Length="", Connection="close"), "close"],
    "Connection: close": [reply(Connection="close"), "close"],
    "HTTP/1.0": [reply().replace(b"HTTP/1.1", b"HTTP/1.0"), "close"],
    "data after the response": [reply() + b"HTTP/1.1 200 OK\r\n\r\n"],
    "garbage": [b"garbage\r\n\r\n", "close"],
    "a length twice": [reply(b"", Content_Length="5\r\nContent-Length: 6") + b"hello!", "close"],
    "status 99": [reply(status="099 A")],
    "large headers": [reply(X_Large="x" * 70_000)],
    "events, whole": [reply(EVENTS, Content_Type=SSE)],
    "events, chunked": [chunked(EVENTS[:20], EVENTS[20:], Content_Type=SSE)],
    "events in two reads": [
        chunked(EVENTS[:20], EVENTS[20:], Content_Type=SSE)[:-30],
        chunked(EVENTS[:20], EVENTS[20:])[-30:],
    ],
    "events that break off": [chunked(EVENTS[:20], end=b"", Content_Type=SSE), "close"],
}


class Scripted:
    """An upstream that answers the first request of each connection, and every other one with `steps`.

    `requests` counts those other ones, on any connection.
    """

    def __init__(self) -> None:
        self.steps: Sequence[Step] = ()
        self.requests = 0
        self.peers: list[Peer] = []

    async def __call__(self, peer: Peer) -> None:
        await peer.request()
        await peer.say(reply())
        self.peers.append(peer)
        while True:
            await peer.request()
            self.requests += 1
            for step in self.steps:
                if step == "close":
                    peer.hang_up()
                    return
                if step == "reset":
                    peer.reset()
                    return
                assert isinstance(step, bytes)
                await peer.say(step)


Play = Callable[[Stage], Coroutine[Any, Any, None]]


def play(folder: Path, script: Any, test: Play, **rest: Any) -> None:
    async def check() -> None:
        rest.setdefault("limits", LIMITS)
        rest.setdefault("circuits", CIRCUITS)
        async with serving(folder, script, **rest) as stage:
            await test(stage)

    front.run("httptools", check())


VARIABLE = {"X-Request-Id", "Request-Id", "Date"}
FRAMING = {"Content-Length", "Transfer-Encoding"}


async def observe(stage: Stage, request: bytes) -> dict[str, Any]:
    """Send a request on a warm connection to the upstream. Return all that can be observed of it."""
    gate = stage.gate
    gate.health.circuits._circuits.clear()
    gate.health.keys.suspensions.clear()
    gate.host.failures.clear()
    stage.entries.clear()
    client = await stage.running.connect()
    await client.send(request)
    seen: Any = "nothing"
    [entry] = await stage.wait_for_entries(1)
    try:
        if entry.status == 499:
            raise asyncio.IncompleteReadError(b"", None)
        answer = await client.answer()
        headers = {name: value for name, value in answer.headers.get_all() if name not in VARIABLE}
        if "event-stream" in headers.get("Content-Type", ""):  # a stream that arrives whole may have a length
            headers = {name: value for name, value in headers.items() if name not in FRAMING}
        seen = answer.status, headers, answer.body
    except asyncio.IncompleteReadError:
        pass  # the gateway has closed the connection, or will not answer
    await client.close()
    meter, progress = entry.meter, entry.progress
    circuit = gate.health.circuits.find_circuit(entry.target)
    return {
        "response": seen,
        "entry": (entry.status, entry.error_code, entry.outcome, entry.model, entry.target.provider, entry.bytes_out),
        "meter": (meter.usage, meter.finish_reason, meter.produced_bytes),
        "progress": (progress.attempts, progress.is_sent, progress.attempt_error, progress.error_code, progress.model),
        "circuit": circuit and (list(circuit._outcomes), circuit.last_failure and circuit.last_failure[1]),
        "failures": {name: detail for name, (_, detail) in gate.host.failures.items()},
        "rest": stage.list_rest(),
    }


async def compare(
    stage: Stage,
    monkeypatch: pytest.MonkeyPatch,
    request: bytes,
    look: Callable[[bytes], Coroutine[Any, Any, dict[str, Any]]] | None = None,
) -> list[str]:
    """Send a request without a task, and as all others. Return what differs in the results of `look`."""
    seen = []
    for is_direct in (True, False):
        with monkeypatch.context() as patch:
            if not is_direct:
                patch.setattr(plans, "make_plan", lambda *_: None)
            stage.gate.plans.clear()
            await stage.gate.pools.get_pool(stage.gate.snapshot.targets.providers["sender"]).close()
            stage.gate.pools._pools.clear()
            await stage.warm()
            before = stage.direct, stage.sent
            seen.append(await (observe(stage, request) if look is None else look(request)))
            assert stage.direct - before[0] == is_direct
            assert look is not None or stage.sent - before[1] == is_direct
    stage.gate.plans.clear()
    direct, general = seen
    return [f"{name}: {direct[name]} instead of {general[name]}" for name in direct if direct[name] != general[name]]


@pytest.mark.parametrize("speaks", vary("plain", "other"))
def test_every_response_of_an_upstream_ends_like_that_of_any_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, speaks: str
) -> None:
    """In the verbatim lane and in the common lane, with and without a stream for the caller."""
    script = Scripted()
    failed: dict[tuple[str, bool], list[str]] = {}

    async def test(stage: Stage) -> None:
        for name, steps in RESPONSES.items():
            script.steps = steps
            for stream in (False, True):
                script.requests = 0
                differences = await compare(stage, monkeypatch, make_request(stream=stream))
                if script.requests != 2:
                    differences.append(f"{script.requests} requests")
                if differences:
                    failed[name, stream] = differences

    play(tmp_path, script, test, speaks=frozenset({speaks}))
    assert not failed, "\n".join(f"{name}: {differences}" for name, differences in failed.items())


class HookFailed(Exception):
    """A failure of a plugin."""


def fail(_call: types.Call) -> Any:
    raise HookFailed


def refuse(_call: types.Call) -> Any:
    raise InvalidField("ask", "the hook refuses it")


def cancel(_call: types.Call) -> Any:
    raise asyncio.CancelledError


def fault(_call: types.Call) -> Any:
    raise ConfigError([(("a",), "the hook finds a fault")])


def push(call: types.Call) -> Any:
    call.closing.callback(log_of(call).append, "closed")
    return ...


def push_and_fail(call: types.Call) -> Any:
    push(call)
    raise HookFailed


def push_and_refuse(call: types.Call) -> Any:
    push(call)
    raise InvalidField("ask", "the hook refuses it")


def push_and_find_a_fault(call: types.Call) -> Any:
    push(call)
    raise ConfigError([(("a",), "the hook finds a fault")])


def push_and_cancel(call: types.Call) -> Any:
    push(call)
    raise asyncio.CancelledError


def add_header(call: types.Call) -> Any:
    call.add_response_header("X-Hook", "yes")
    return ...


def add_wrong_header(call: types.Call) -> Any:
    call.add_response_header("X:\r\nHook", "yes")
    return ...


def add_strange_header(call: types.Call) -> Any:
    call.add_response_header("X-Hook", "a\r\nX-Other: \u20ac")
    return ...


def drop_field(call: types.Call) -> Any:
    call.drop_field("ask")
    return ...


def observe_end(call: types.Call) -> Any:
    log = log_of(call)
    call.when_ended(lambda end: log.append(f"ended {end.status} {end.outcome} {end.error_code}"))
    return ...


def fail_at_end(call: types.Call) -> Any:
    call.when_ended(fail)  # type: ignore[arg-type]
    return ...


def use_services(call: types.Call) -> Any:
    assert call.fetcher is not None
    assert call.files is not None
    log_of(call).append(
        f"{type(call.memory).__name__} {call.files.public_url} {call.strict} {call.operation} {call.model}"
    )
    return ...


def return_coroutine(_call: types.Call) -> Any:
    async def wait() -> None:
        await asyncio.sleep(0)

    return wait()


def return_failing_coroutine(_call: types.Call) -> Any:
    async def wait() -> None:
        await asyncio.sleep(0)
        raise HookFailed

    return wait()


LOG: list[str] = []
"""What the hooks of one request have done."""


def log_of(_call: types.Call) -> list[str]:
    return LOG


HOOKS: dict[str, Hook] = {
    hook.__name__: hook
    for hook in (
        *(fail, refuse, cancel, fault, push, push_and_fail, push_and_refuse, push_and_find_a_fault, push_and_cancel),
        *(add_header, add_wrong_header, add_strange_header, drop_field, observe_end, fail_at_end, use_services),
        *(return_coroutine, return_failing_coroutine),
    )
}
WRONG_RESULTS: dict[str, Hook] = {
    "text": lambda _call: "text",
    "none": lambda _call: None,
    "another type": lambda _call: types.UpstreamResponse(),
}
UPSTREAM_REQUESTS: dict[str, Callable[[Sender, types.Call], Any]] = {
    "another host": lambda sender, call: replace(make_outgoing(sender, call), url="http://elsewhere.invalid/v1"),
    "no URL": lambda sender, call: replace(make_outgoing(sender, call), url=""),
    "a wrong header": lambda sender, call: replace(make_outgoing(sender, call), headers={"a b": "c"}),
    "a header that is no text": lambda sender, call: replace(make_outgoing(sender, call), headers={"a": 5}),
    "JSON": lambda sender, call: replace(make_outgoing(sender, call), body=None, json={"a": 1}),
    "no JSON": lambda sender, call: replace(make_outgoing(sender, call), body=None, json={"a": object()}),
    "no body": lambda sender, call: replace(make_outgoing(sender, call), body=None),
    "a text as the body": lambda sender, call: replace(make_outgoing(sender, call), body="text"),
    "GET": lambda sender, call: replace(make_outgoing(sender, call), method="GET", body=None),
    "a context": lambda sender, call: replace(make_outgoing(sender, call), context=object()),
}


def make_outgoing(sender: Sender, call: types.Call) -> types.UpstreamRequest:
    return sender.make_request(call, None)


@pytest.mark.parametrize("speaks", vary("other", "plain"))
def test_every_hook_is_called_once_and_may_do_what_it_may_in_any_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, speaks: str
) -> None:
    script = Scripted()
    script.steps = [reply()]
    failed: dict[str, Any] = {}

    async def test(stage: Stage) -> None:
        sender, form = stage.sender, stage.form
        hooks: dict[str, tuple[str, Hook]] = {
            f"{name} in {place}": (place, hook)
            for place in ("before", "after", "translate", "sender")
            for name, hook in {**HOOKS, **WRONG_RESULTS}.items()
            if place != "after" or "coroutine" not in name  # `forward_response` is never awaited
        }
        for name, make in UPSTREAM_REQUESTS.items():
            hooks[f"{name} in sender"] = "sender", partial(make, sender)
        for name, (place, hook) in hooks.items():
            for strict in ([], ["X-Gate-Strict: 1"])[: 1 + (hook is drop_field)]:

                def run(call: types.Call, hook: Hook = hook, place: str = place) -> Any:
                    LOG.append("called")
                    result = hook(call)
                    return None if place == "sender" and result is ... else result

                async def play_hook(request: bytes, place: str = place) -> dict[str, Any]:
                    LOG.clear()
                    target = sender if place == "sender" else form
                    setattr(target, "hook" if place == "sender" else place, run)
                    try:
                        return {**await observe(stage, request), "log": LOG.copy()}
                    finally:
                        setattr(target, "hook" if place == "sender" else place, None)

                differences = await compare(stage, monkeypatch, make_request("hi", *strict), play_hook)
                if differences:
                    failed[f"{name} {strict}"] = differences

    play(tmp_path, script, test, speaks=frozenset({speaks}))
    assert not failed, "\n".join(f"{name}: {differences}" for name, differences in failed.items())


class Held:
    """An upstream that answers the first request of each connection, and holds every other one until `go_on`."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = pieces
        self.arrived = asyncio.Event()
        self.go_on = asyncio.Event()
        self.closed = asyncio.Event()
        self.connections = 0

    async def __call__(self, peer: Peer) -> None:
        self.connections += 1
        await peer.request()
        await peer.say(reply())
        await peer.request()
        await peer.say(*self.pieces)
        self.arrived.set()
        waiting = asyncio.ensure_future(self.go_on.wait())
        leaving = asyncio.ensure_future(peer.gone())
        await asyncio.wait({waiting, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            await peer.say(reply())
        await leaving
        waiting.cancel()
        self.closed.set()


class Holding:
    """An upstream whose connections belong to one `Held` after the other."""

    async def __call__(self, peer: Peer) -> None:
        await self.held(peer)

    async def begin(self, stage: Stage, *pieces: bytes) -> Held:
        """Open a connection that will send `pieces` for the next request, and forget what was before."""
        stage.gate.health.circuits._circuits.clear()
        self.held = Held(*pieces)
        await stage.gate.pools.get_pool(stage.gate.snapshot.targets.providers["sender"]).close()
        stage.gate.pools._pools.clear()
        stage.gate.plans.clear()
        await stage.warm()
        stage.entries.clear()
        stage.sent = 0
        return self.held


LANES = pytest.mark.parametrize("speaks", ["plain", "other"])
PIECES = {
    "nothing": (),
    "a part of the head": (reply()[:20],),
    "the head": (reply()[: -len(OK)],),
    "a part of the body": (reply()[:-3],),
}


@LANES
def test_the_upstream_is_left_when_the_caller_leaves(tmp_path: Path, speaks: str) -> None:
    holding = Holding()

    async def test(stage: Stage) -> None:
        for name, pieces in PIECES.items():
            for leaves in ("closes", "resets", "ends its half"):
                held = await holding.begin(stage, *pieces)
                client = await stage.running.connect()
                await client.send(make_request())
                await held.arrived.wait()
                if leaves == "closes":
                    await client.close()
                elif leaves == "resets":
                    client.reset()
                else:
                    client.writer.write_eof()
                await asyncio.wait_for(held.closed.wait(), 60)
                [entry] = await stage.wait_for_entries(1)
                assert (entry.status, entry.outcome, entry.error_code) == (499, "aborted", ""), (name, leaves)
                assert (entry.progress.is_sent, entry.progress.attempts) == (True, 1), (name, leaves)
                assert stage.gate.health.circuits.find_circuit(entry.target) is None
                assert (stage.sent, stage.list_rest()) == (1, {}), (name, leaves)
                client.reset()

    play(tmp_path, holding, test, speaks=frozenset({speaks}))


def leave(handler: Any) -> None:
    handler.connection.close_callback()


def interrupt(handler: Any) -> None:
    handler.interrupt(Unavailable("The gateway is shutting down.", code="shutting_down"))


@pytest.mark.parametrize(("end", "status"), [(leave, 499), (interrupt, 503)])
def test_what_hooks_have_opened_is_closed_even_if_the_task_has_not_begun(
    tmp_path: Path, end: Callable[[Any], None], status: int
) -> None:
    """With uvloop a request and the end of its connection may arrive in one iteration of the loop."""

    async def test(stage: Stage) -> None:
        LOG.clear()
        stage.form.before = push
        start = AnswerHandler.start_work

        def start_work(handler: AnswerHandler) -> None:
            start(handler)
            end(handler)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(AnswerHandler, "start_work", start_work)
            client = await stage.running.connect()
            await client.send(make_request())
            [entry] = await stage.wait_for_entries(1)
        assert entry.status == status
        assert LOG == ["closed"]
        await client.close()

    play(tmp_path, Held(), test)


TIMEOUTS: dict[str, tuple[types.Timeouts, tuple[bytes, ...], bool, str]] = {
    "first_event": (
        types.Timeouts(first_event=0.1),
        (),
        False,
        "did not start its response in time (first_event timeout). Request",
    ),
    "first_event of a stream": (
        types.Timeouts(first_event=0.1),
        (),
        True,
        "did not start its response in time (first_event timeout).",
    ),
    "whole": (
        types.Timeouts(whole=0.1),
        (),
        False,
        "did not start its response in time (first_event timeout). Request",
    ),
    "whole, after the head": (
        types.Timeouts(whole=0.1),
        (reply()[: -len(OK)],),
        False,
        "did not start its response in time",
    ),
    "total": (types.Timeouts(total=0.1), (), False, "did not finish its response within 0.1 s (total timeout)."),
    "total of a stream": (
        types.Timeouts(total=0.1),
        (),
        True,
        "did not finish its response within 0.1 s (total timeout).",
    ),
    "total, in the body": (
        types.Timeouts(total=0.1),
        (reply()[:-3],),
        False,
        "did not finish its response within 0.1 s",
    ),
    "gap": (types.Timeouts(gap=0.1), (reply()[:-3],), False, "sent no data for 0.1 s (gap timeout)."),
}


@LANES
def test_each_timeout_ends_a_direct_attempt_with_its_error(tmp_path: Path, speaks: str) -> None:
    holding = Holding()

    async def test(stage: Stage) -> None:
        entry = stage.config.providers["sender"]
        for name, (timeouts, pieces, stream, message) in TIMEOUTS.items():
            stage.reload(providers={"sender": replace(entry, timeouts=timeouts)})
            held = await holding.begin(stage, *pieces)
            [answer] = await stage.running.ask(make_request(stream=stream))
            assert (answer.status, message in answer.body.decode()) == (504, True), (name, answer)
            await asyncio.wait_for(held.closed.wait(), 60)
            [recorded] = await stage.wait_for_entries(1)
            assert recorded.error_code == "upstream_timeout", name
            assert stage.gate.health.circuits.find_circuit(recorded.target) is not None, name
            assert (stage.sent, stage.list_rest()) == (1, {}), name

    play(tmp_path, holding, test, speaks=frozenset({speaks}))


@LANES
def test_a_waiting_request_is_interrupted_when_the_gateway_ends(tmp_path: Path, speaks: str) -> None:
    holding = Holding()

    async def test(stage: Stage) -> None:
        for name, pieces in PIECES.items():
            held = await holding.begin(stage, *pieces)
            client = await stage.running.connect()
            await client.send(make_request())
            await held.arrived.wait()
            for running in list(stage.gate.requests.running):
                interrupt(running)
            answer = await client.answer()
            assert (answer.status, b"shutting_down" in answer.body) == (503, True), name
            await asyncio.wait_for(held.closed.wait(), 60)
            [entry] = await stage.wait_for_entries(1)
            assert entry.error_code == "shutting_down", name
            assert (stage.sent, stage.list_rest()) == (1, {}), name
            await client.close()

    play(tmp_path, holding, test, speaks=frozenset({speaks}))


@LANES
def test_a_request_uses_the_connection_again_after_an_answer_that_came_late(tmp_path: Path, speaks: str) -> None:
    script = Held()

    async def test(stage: Stage) -> None:
        await stage.warm()
        client = await stage.running.connect()
        await client.send(make_request())
        await script.arrived.wait()
        script.go_on.set()
        assert (await client.answer()).status == 200
        await client.send(make_request())
        await client.close()
        assert script.connections == 1

    play(tmp_path, script, test, speaks=frozenset({speaks}))


@LANES
def test_a_request_is_sent_on_a_new_connection_if_the_idle_one_was_closed(tmp_path: Path, speaks: str) -> None:
    """The upstream has closed it, and the loop has not noticed yet."""
    requests: list[int] = []

    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            requests.append(peer.number)
            await peer.say(reply())
            if peer.number == 0:
                peer.hang_up()
                return

    async def test(stage: Stage) -> None:
        await stage.warm()
        answers = await stage.running.ask(make_request(), make_request())
        assert [answer.status for answer in answers] == [200, 200]
        assert requests == [0, 1, 1]
        assert len(stage.sender.calls) == 3

    play(tmp_path, script, test, speaks=frozenset({speaks}))


@LANES
@pytest.mark.parametrize("is_unsent", [True, False])
def test_a_lost_request_is_sent_again_only_if_it_was_not_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, speaks: str, *, is_unsent: bool
) -> None:
    """The connection breaks after the request was written; whether the kernel has all of it decides."""
    requests: list[int] = []

    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            requests.append(peer.number)
            if peer.number == 0 and requests.count(0) == 2:
                peer.reset()
                return
            await peer.say(reply())

    async def test(stage: Stage) -> None:
        await stage.warm()
        original = ClientConnection._make_broken_fault

        def make_fault(connection: ClientConnection, reason: str, response: Any) -> ConnectionBroken:
            fault = original(connection, reason, response)
            fault.unsent = is_unsent
            return fault

        monkeypatch.setattr(ClientConnection, "_make_broken_fault", make_fault)
        [answer] = await stage.running.ask(make_request())
        assert answer.status == (200 if is_unsent else 502)
        assert requests == ([0, 0, 1] if is_unsent else [0, 0])
        assert len(stage.sender.calls) == 2

    play(tmp_path, script, test, speaks=frozenset({speaks}))


@LANES
def test_a_circuit_opens_after_failures_of_direct_attempts_and_closes_again(tmp_path: Path, speaks: str) -> None:
    script = Scripted()

    async def test(stage: Stage) -> None:
        circuits = stage.gate.health.circuits
        await stage.warm()
        script.steps = [reply(b"{}", "500 A")]
        answers = await stage.running.ask(make_request(), make_request(), make_request())
        assert [answer.status for answer in answers] == [502, 502, 502]
        assert stage.sent == 1, "after its first failure the target is chosen for each request"
        [refused] = await stage.running.ask(make_request())
        assert refused.status == 503, "the last resort has failed, too"
        circuit = circuits.find_circuit(stage.entries[-1].target)
        assert circuit is not None
        assert circuit.blocked == "a"
        script.steps = [reply()]
        now = circuits.clock()
        circuits.clock = lambda: now + 60
        [probe] = await stage.running.ask(make_request())
        assert probe.status == 200
        assert circuit.blocked is None

    play(tmp_path, script, test, speaks=frozenset({speaks}), circuits=CircuitsConfig(failures=3))


def test_the_request_id_of_the_caller_is_kept_for_each_request(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        await stage.warm()
        named = make_request("hi", "X-Request-Id: of-the-caller")
        answers = await stage.running.ask(named, named, make_request(), make_request())
        ids = [answer.headers["X-Request-Id"] for answer in answers]
        assert ids[:2] == ["of-the-caller"] * 2
        assert len(set(ids)) == 3
        assert [entry.request_id for entry in stage.entries[1:]] == ids
        assert [call.id for call in stage.sender.calls[1:]] == ids

    play(tmp_path, echo(), test)


def test_the_other_server_serves_the_same_requests(tmp_path: Path) -> None:
    async def check() -> None:
        async with serving(tmp_path, echo(), server="tornado") as stage:
            answers = await stage.running.ask(make_request(), make_request("longer"), make_request(model="?"))
            assert [answer.status for answer in answers] == [200, 200, 404]
            assert stage.direct == 0

    front.run("httptools", check())
