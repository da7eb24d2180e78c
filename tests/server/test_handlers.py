"""HTTP on a real port: keys, bodies, errors, streams, callers who leave."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from tornado.httpclient import AsyncHTTPClient
from tornado.httpserver import HTTPServer
from tornado.iostream import IOStream
from tornado.tcpclient import TCPClient

from tests.support.gates import KEY, START, WORDS, FakeProvider
from tests.support.served import BODY_LIMIT, CHAT, LIMITED, NARROW, Ask, error_of
from tornado_gate import errors, types
from tornado_gate.pipeline.gate import Gate
from tornado_gate.server.app import PUBLIC_HANDLERS
from tornado_gate.server.handlers import common
from tornado_gate.telemetry.entries import Entry
from tornado_gate.types import replace


@pytest.mark.gen_test
async def test_an_answer_has_the_headers_that_say_who_answered(ask: Ask, fake: FakeProvider) -> None:
    fake.loses = ("top_k", "seed")
    response = await ask("/plain", CHAT)
    assert (response.code, response.body) == (200, b'{"answer":"hello"}')
    assert response.headers["Content-Length"] == str(len(response.body))
    assert response.headers["x-gate-provider"] == "fake"
    assert response.headers["x-gate-model"] == "m"
    assert response.headers["x-gate-loss"] == "top_k,seed"
    assert response.headers["Cache-Control"] == "private, no-store"
    assert "x-gate-attempts" not in response.headers
    assert "Server" not in response.headers


@pytest.mark.gen_test(timeout=60)
@pytest.mark.parametrize("path", ["/console/signup", "/docs"])
async def test_the_access_log_has_the_bytes_of_pages(ask: Ask, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    entries: asyncio.Queue[Entry] = asyncio.Queue()
    monkeypatch.setattr(common, "log_access", entries.put_nowait)
    response = await ask(path)
    assert (await entries.get()).bytes_out == len(response.body) > 0


@pytest.mark.gen_test
@pytest.mark.parametrize(
    ("value", "status", "param"),
    [
        *((value, 400, "top_k") for value in ("1", "true", "True")),
        *((value, 200, "") for value in ("0", "false")),
        *((value, 400, "x-gate-strict") for value in ("yes", "2", "1,1", "")),
    ],
)
async def test_strictness_makes_a_loss_a_400(ask: Ask, fake: FakeProvider, value: str, status: int, param: str) -> None:
    fake.loses = ("top_k",)
    for _ in range(2):  # the second request may repeat the head of the first
        response = await ask("/plain", CHAT, headers={"x-gate-strict": value, "Connection": "keep-alive"})
        assert response.code == status
        if status == 400:
            assert error_of(response)["param"] == param


@pytest.mark.gen_test
async def test_a_sane_request_id_is_kept_and_any_other_replaced(ask: Ask) -> None:
    kept = await ask("/plain", CHAT, headers={"x-request-id": "my.id-1"})
    assert kept.headers["x-request-id"] == "my.id-1"
    for given in ("a b", "x" * 200, "<script>", ""):
        replaced = await ask("/plain", CHAT, headers={"x-request-id": given})
        assert replaced.headers["x-request-id"].startswith("req_")


@pytest.mark.gen_test
@pytest.mark.parametrize("path", ["/plain", "/plain/", "/plain/models", "/nowhere", "/plain?key=wrong"])
async def test_every_answer_has_a_request_id(ask: Ask, path: str) -> None:
    assert (await ask(path, CHAT)).headers["x-request-id"]


# Keys


@pytest.mark.gen_test
@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/plain", {"Authorization": f"Bearer {KEY}"}),
        ("/plain", {"x-api-key": KEY}),
        ("/plain", {"x-goog-api-key": KEY}),
        (f"/plain?key={KEY}", {}),
    ],
)
async def test_a_key_is_taken_in_every_form_and_goes_no_further(
    ask: Ask, fake: FakeProvider, path: str, headers: dict[str, str]
) -> None:
    response = await ask(path, CHAT, headers={"Authorization": None, **headers})
    assert response.code == 200
    assert KEY not in repr((fake.asked, fake.requests))


@pytest.mark.gen_test
@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/plain", {"Authorization": None}),
        ("/plain", {"Authorization": "Bearer wrong-key"}),
        ("/plain", {"Authorization": "Bearer ' OR '1'='1"}),
        ("/plain", {"x-api-key": "another"}),
        ("/plain?key=another", {}),
    ],
)
async def test_no_key_a_wrong_key_and_two_keys_are_401(ask: Ask, path: str, headers: dict[str, str]) -> None:
    response = await ask(path, {"model": "no-such-model"}, headers=headers)
    assert (response.code, response.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert "another" not in error_of(response)["message"]


@pytest.mark.gen_test
async def test_a_refusal_before_the_body_was_read_ends_the_connection_and_says_so(ask: Ask) -> None:
    kept, wrong = {"Connection": "keep-alive"}, {"Connection": "keep-alive", "Authorization": "Bearer wrong"}
    refused = await ask("/plain", CHAT, headers=wrong)
    assert (refused.code, refused.headers["Connection"]) == (401, "close")
    without_body = await ask("/plain/models", headers=wrong)
    assert (without_body.code, without_body.headers.get("Connection")) == (401, None)
    read = await ask("/plain", {**CHAT, "ask": 5}, headers=kept)
    assert (read.code, read.headers.get("Connection")) == (400, None)


@pytest.mark.gen_test
async def test_a_key_narrowed_to_other_operations_is_403(ask: Ask) -> None:
    response = await ask("/plain", CHAT, headers={"Authorization": f"Bearer {NARROW.key!s}"})
    assert response.code == 403
    assert "embeddings" in error_of(response)["message"]


@pytest.mark.gen_test
async def test_no_route_of_a_format_answers_without_a_key(ask: Ask, gate: Gate) -> None:
    for served in gate.snapshot.routes:
        path = served.route.path.replace("{model}", "m")
        body = None if served.route.method == "GET" else CHAT
        response = await ask(path, body, headers={"Authorization": None}, method=served.route.method)
        assert response.code == 401, path


@pytest.mark.gen_test
async def test_public_paths_are_those_that_are_named(ask: Ask) -> None:
    assert set(PUBLIC_HANDLERS) == {"/", "/healthz", "/readyz", "/metrics"}
    for path in PUBLIC_HANDLERS:
        assert (await ask(path, headers={"Authorization": None})).code == 200
        slashed = await ask(path + "/", headers={"Authorization": None})
        assert slashed.code == (200 if path != "/" else 404)


@pytest.mark.gen_test
async def test_the_base_url_can_be_probed_and_tells_only_that_it_serves(ask: Ask) -> None:
    head = await ask("/", headers={"Authorization": None}, method="HEAD")
    assert (head.code, head.body) == (200, b"")
    assert orjson.loads((await ask("/", headers={"Authorization": None})).body) == {
        "name": "tornado_gate",
        "status": "ok",
    }
    posted = await ask("/", CHAT, headers={"Authorization": None})
    assert (posted.code, posted.headers["Allow"]) == (405, "GET, HEAD")


# Bodies


@pytest.mark.gen_test
@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b'{"model": "m", "model": "m"}', b'{"model": NaN}', b"\xff\xfe", b"[" * 5000, b'{"a":1e999}'],
)
async def test_a_body_that_is_no_json_object_is_400(ask: Ask, body: bytes) -> None:
    response = await ask("/plain", body, method="POST")
    assert response.code == 400
    assert error_of(response)["message"]


@pytest.mark.gen_test
async def test_the_model_is_looked_up_before_the_body_is_checked(ask: Ask) -> None:
    response = await ask("/plain", {"model": "no-such", "ask": 5})
    assert response.code == 404
    assert error_of(response)["code"] == "model_not_found"
    assert error_of(response)["param"] == "model"


@pytest.mark.gen_test
@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin1"]
)
async def test_another_content_type_is_415(ask: Ask, kind: str) -> None:
    assert (await ask("/plain", CHAT, headers={"Content-Type": kind})).code == 415


@pytest.mark.gen_test
@pytest.mark.parametrize("kind", ["application/json; charset=UTF-8", "application/vnd.api+json", "APPLICATION/JSON"])
async def test_json_in_other_words_is_json(ask: Ask, kind: str) -> None:
    assert (await ask("/plain", CHAT, headers={"Content-Type": kind})).code == 200


@pytest.mark.gen_test
async def test_a_compressed_body_is_415(ask: Ask) -> None:
    assert (await ask("/plain", CHAT, headers={"Content-Encoding": "gzip"})).code == 415


@pytest.mark.gen_test
async def test_a_body_at_the_limit_passes_and_one_byte_more_is_413(ask: Ask) -> None:
    padding = BODY_LIMIT - len(orjson.dumps({**CHAT, "pad": ""}))
    assert (await ask("/plain", {**CHAT, "pad": "x" * padding})).code == 200
    response = await ask("/plain", {**CHAT, "pad": "x" * (padding + 1)})
    assert response.code == 413
    assert str(BODY_LIMIT) in error_of(response)["message"]


@pytest.mark.gen_test
async def test_a_chunked_body_over_the_limit_is_413_too(ask: Ask) -> None:
    async def produce(write: Any) -> None:
        for _ in range(20):
            await write(b"x" * 1000)

    response = await ask("/plain", None, method="POST", body_producer=produce)
    assert response.code == 413


# Routes


@pytest.mark.gen_test
async def test_an_unknown_route_is_404_with_the_error_body(ask: Ask) -> None:
    for path in ("//", "/v1/nothing", "//plain", "/plain/../plain", "/%70lain"):
        response = await ask(path, CHAT)
        assert (response.code, error_of(response)["code"]) == (404, "unknown_route"), path


@pytest.mark.gen_test
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"])
async def test_a_wrong_method_is_405_with_allow(ask: Ask, method: str) -> None:
    for path in ("/plain", "/v1/_explain"):
        response = await ask(path, None if method == "GET" else b"{}", method=method)
        assert (response.code, response.headers["Allow"]) == (405, "POST")
        assert error_of(response)["code"] == "method_not_allowed"


@pytest.mark.gen_test
async def test_models_are_listed_for_the_key(ask: Ask) -> None:
    assert (await ask("/plain/models")).body == b'["m"]'
    assert (await ask("/plain/models/m/")).body == b'["m"]'
    assert (await ask("/plain/models/none")).code == 404


# Failures


@pytest.mark.gen_test
async def test_a_failing_plugin_is_503_in_the_envelope_of_the_format(ask: Ask, fake: FakeProvider) -> None:
    fake.raises = RuntimeError("secret")
    response = await ask("/plain", CHAT)
    assert (response.code, error_of(response)["code"]) == (503, "plugin_failed")
    assert b"secret" not in response.body
    assert orjson.loads(response.body)["plain"] is True


@pytest.mark.gen_test
async def test_headers_of_an_error_come_through(ask: Ask, fake: FakeProvider) -> None:
    fake.raises = errors.UpstreamRateLimited("slow down", headers={"Retry-After": "7"})
    response = await ask("/plain", CHAT)
    assert (response.code, response.headers["Retry-After"]) == (429, "7")


@pytest.mark.gen_test
async def test_an_upstream_failure_before_the_first_word_keeps_its_status_in_a_stream(
    ask: Ask, fake: FakeProvider
) -> None:
    fake.raises = errors.UpstreamTimeout("late")
    response = await ask("/plain", {**CHAT, "stream": True})
    assert (response.code, response.headers["Content-Type"]) == (504, "application/json")


@pytest.mark.gen_test
async def test_a_fault_of_the_gateway_itself_shows_nothing(
    ask: Ask, gate: Gate, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: Any) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr("tornado_gate.pipeline.pipeline.RequestCache", fails)
    response = await ask("/plain", CHAT, headers={"x-request-id": "look-me-up"})
    assert (response.code, error_of(response)["code"]) == (500, "internal_error")
    assert b"secret" not in response.body
    assert "look-me-up" in str([record.__dict__.get("fields") for record in caplog.records])


@pytest.mark.gen_test
async def test_while_draining_new_requests_are_answered_but_the_process_is_not_ready(ask: Ask, gate: Gate) -> None:
    gate.readiness.is_draining = True
    assert (await ask("/plain", CHAT)).code == 200
    assert (await ask("/readyz")).code == 503
    assert (await ask("/healthz")).code == 200


# Streams


@pytest.mark.gen_test
async def test_each_event_is_written_when_it_comes(
    http_client: AsyncHTTPClient, base_url: str, http_server: HTTPServer, fake: FakeProvider
) -> None:
    go_on, seen = asyncio.Event(), asyncio.Event()
    chunks: list[bytes] = []

    async def waits(_provider: FakeProvider, _call: types.Call) -> AsyncIterator[types.StreamEvent]:
        for event in (START, *WORDS[:2]):
            yield event
        await go_on.wait()
        for event in (WORDS[2], types.Finish(reason="stop")):
            yield event

    def take(chunk: bytes) -> None:
        chunks.append(chunk)
        seen.set()

    fake.script = waits
    fetching = http_client.fetch(
        base_url + "/plain", method="POST", body=orjson.dumps({**CHAT, "stream": True}),
        headers={"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}, streaming_callback=take,
    )  # fmt: skip
    await seen.wait()
    assert chunks[0] == b'data: {"word":"hello"}\n\n'
    while b": ping\n\n" not in chunks:  # the upstream is silent: the format's keep-alive is written
        seen.clear()
        await seen.wait()
    go_on.set()
    await fetching
    assert chunks[-1] == b'data: {"why":"stop"}\n\n'


async def raw_request(base_url: str, body: dict[str, Any]) -> IOStream:
    """A connection of our own, to leave when we like."""
    stream = await TCPClient().connect("127.0.0.1", int(base_url.rsplit(":", 1)[1]))
    content = orjson.dumps(body)
    head = f"POST /plain HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\nContent-Length: {len(content)}\r\n\r\n"
    await stream.write(head.encode() + content)
    return stream


@pytest.mark.gen_test
@pytest.mark.parametrize("streaming", [True, False])
async def test_a_caller_who_leaves_closes_the_upstream_at_once(
    base_url: str, http_server: HTTPServer, fake: FakeProvider, gate: Gate, streaming: bool
) -> None:
    asked = asyncio.Event()

    async def waits(_provider: FakeProvider, _call: types.Call) -> AsyncIterator[types.StreamEvent]:
        for event in (START, *WORDS[:2]):
            yield event
        asked.set()
        await asyncio.Event().wait()

    fake.script = waits
    stream = await raw_request(base_url, {**CHAT, "stream": streaming})
    await asked.wait()
    assert gate.requests.count == 1
    stream.close()
    await fake.left.wait()
    await gate.requests.wait_until_idle()
    assert len(fake.closed) == 1


@pytest.mark.gen_test
async def test_a_slow_reader_pauses_the_upstream(base_url: str, http_server: HTTPServer, fake: FakeProvider) -> None:
    produced = 0
    piece = "x" * 100_000

    async def floods(_provider: FakeProvider, _call: types.Call) -> AsyncIterator[types.StreamEvent]:
        nonlocal produced
        for event in (START, WORDS[0]):
            yield event
        for _ in range(10_000):
            produced += len(piece)
            yield types.PartDelta(index=0, data=piece)
            await asyncio.sleep(0)

    fake.script = floods
    stream = await raw_request(base_url, {**CHAT, "stream": True})
    await stream.read_until(b"\r\n\r\n")
    before = -1
    while produced != before:  # until it no longer moves, though we do not read
        before = produced
        for _ in range(200):
            await asyncio.sleep(0)
    assert produced < 50_000_000  # what socket buffers hold, not the gigabyte that there is
    stream.close()
    await fake.left.wait()


# What is logged


@pytest.mark.gen_test
async def test_the_access_log_has_no_key_and_no_word_of_the_talk(ask: Ask, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    body = {"model": "m", "ask": "a very private question"}
    await ask(f"/plain?key={KEY}&other=1", body, headers={"Authorization": None, "x-request-id": "seen"})
    said = " ".join(f"{record.getMessage()} {record.__dict__.get('fields')}" for record in caplog.records)
    assert "seen" in said
    assert KEY not in said
    assert "private" not in said
    assert "other=1" not in said


@pytest.mark.gen_test
async def test_metrics_count_requests_by_names_of_conf_only(ask: Ask) -> None:
    await ask("/plain", CHAT)
    await ask("/plain", {"model": "no-such-model"})
    text = (await ask("/metrics")).body.decode()
    assert 'model="m"' in text
    assert "no-such-model" not in text
    assert 'direction="output"' in text


@pytest.mark.gen_test
async def test_a_key_over_its_limit_is_429_with_retry_after(ask: Ask) -> None:
    first = await ask("/plain", CHAT, headers={"Authorization": f"Bearer {LIMITED.key!s}"})
    assert (first.code, first.headers["x-ratelimit-remaining-requests"]) == (200, "0")
    second = await ask("/plain", CHAT, headers={"Authorization": f"Bearer {LIMITED.key!s}"})
    assert (second.code, error_of(second)["code"]) == (429, "rate_limited")
    assert int(second.headers["Retry-After"]) > 0


@pytest.mark.gen_test
async def test_a_refused_request_is_logged_and_one_for_health_is_not(
    ask: Ask, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await ask("/nowhere", headers={"x-request-id": "lost"})
    await ask("/healthz", headers={"x-request-id": "alive"})
    said = str([record.__dict__.get("fields") for record in caplog.records])
    assert "lost" in said
    assert "alive" not in said


@pytest.mark.gen_test
async def test_names_that_no_header_may_hold_do_not_break_the_answer(ask: Ask, fake: FakeProvider) -> None:
    fake.loses = ("a\r\nSet-Cookie: x=1", "ümlaut", *(f"field{n}" for n in range(2000)), "the last")
    response = await ask("/plain", CHAT)
    assert response.code == 200
    assert response.headers["x-gate-loss"].startswith("a??Set-Cookie: x=1,?mlaut,field0")
    assert "Set-Cookie" not in response.headers
    assert response.headers["x-gate-loss"].endswith(",...")
    fake.loses = tuple("x" * 100 + str(n) for n in range(100))
    long = (await ask("/plain", CHAT)).headers["x-gate-loss"]
    assert len(long) <= 4100
    assert long.endswith(",...")


def with_headers(gate: Gate, monkeypatch: pytest.MonkeyPatch, headers: dict[str, str]) -> None:
    """The format adds these to each reply."""
    hooks = gate.snapshot.formats["plain"].hooks
    made = hooks["translate_response"]
    monkeypatch.setitem(hooks, "translate_response", lambda **given: replace(made(**given), headers=headers))


@pytest.mark.gen_test
async def test_a_header_of_a_format_stands_in_the_place_of_ours_however_it_is_spelled(
    ask: Ask, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_headers(gate, monkeypatch, {"content-length": "18", "CACHE-CONTROL": "no-cache", "x-own": "1"})
    response = await ask("/plain", CHAT)
    assert response.body == b'{"answer":"hello"}'
    assert response.headers.get_list("Content-Length") == ["18"]
    assert response.headers.get_list("Cache-Control") == ["no-cache"]
    assert response.headers["X-Own"] == "1"


@pytest.mark.gen_test
@pytest.mark.parametrize(
    ("value", "sent"),
    [("1\r\nX-Smuggled: 2", "1??X-Smuggled: 2"), ("a\0b", "a?b"), ("模型", "??"), ("\ud800", "?"), ("ü", "ü")],
)
async def test_a_value_that_no_header_can_hold_is_cleaned_and_is_never_a_500(
    ask: Ask, gate: Gate, monkeypatch: pytest.MonkeyPatch, value: str, sent: str
) -> None:
    with_headers(gate, monkeypatch, {"x-own": value})
    response = await ask("/plain", CHAT)
    assert response.code == 200
    assert "X-Smuggled" not in response.headers
    assert response.headers["X-Own"] == sent


@pytest.mark.gen_test
@pytest.mark.parametrize("at", ["find_cached", "authenticate_digest"])
async def test_what_nobody_foresaw_before_the_body_is_a_500_in_the_envelope(
    ask: Ask, gate: Gate, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, at: str
) -> None:
    def broken(_: bytes) -> None:
        raise OSError("a disk is gone")

    monkeypatch.setattr(gate.callers, "find_cached", lambda _: None)
    monkeypatch.setattr(gate.callers, at, broken)
    response = await ask("/plain", CHAT)
    assert response.code == 500
    assert error_of(response)["type"] == "server_error"
    assert "a disk is gone" not in str(response.body)
    assert "request failed: OSError" in caplog.text
