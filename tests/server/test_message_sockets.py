"""Connections whose messages are requests: handshake, lanes, limits, and their ends. By a client that sends exact messages."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import urllib.request
from typing import Any

import httpx2
import pytest
from websockets.exceptions import InvalidStatus

from tests.server import message_sockets
from tests.server.message_sockets import (
    KEY,
    PATIENCE_SECONDS,
    Start,
    create,
    keys,
    plain,
    receive,
    session,
    wait_for_end,
    wait_until_asked,
    waiting,
)
from tests.support.gateway import Gateway
from tests.support.stored_responses import answer_stream, events_of, response
from tests.support.upstream import Hang, Upstream

http = message_sockets.http
start = message_sockets.start

# The handshake


async def catch_refusal(gateway: Gateway, **rest: Any) -> tuple[int, str]:
    with pytest.raises(InvalidStatus) as caught:
        async with session(gateway, **rest):
            pass
    return caught.value.response.status_code, json.loads(caught.value.response.body)["error"]["code"]


def test_a_handshake_is_refused_with_a_status(start: Start, http: str) -> None:
    gateway = start(http=http)

    async def play() -> None:
        assert await catch_refusal(gateway, key="no-such-key-0123456") == (401, "invalid_api_key")
        assert await catch_refusal(gateway, key=f"narrow-{KEY}") == (403, "not_allowed")
        assert await catch_refusal(gateway, origin="https://evil.example") == (403, "origin_not_allowed")
        assert await catch_refusal(gateway, headers={"x-gate-strict": "yes"}) == (400, "invalid_value")
        for origin in ("https://app.example", gateway.url):  # that of conf, and that of the gateway's own pages
            async with session(gateway, origin=origin) as client:
                await create(client, model="local-chat")
                await receive(client, "response.completed")

    asyncio.run(play())
    plain_get = httpx2.get(f"{gateway.url}/v1/responses", headers={"authorization": f"Bearer {KEY}"})
    assert (plain_get.status_code, plain_get.headers["allow"]) == (405, "POST")
    upgrade = {"upgrade": "websocket", "connection": "upgrade", "authorization": f"Bearer {KEY}"}
    assert httpx2.get(f"{gateway.url}/v1/responses", headers=upgrade).status_code == 426


def test_the_sessions_of_an_account_are_limited(start: Start) -> None:
    gateway = start()

    async def play() -> None:
        async with session(gateway), session(gateway), session(gateway, path="/v1/responses/"):
            with pytest.raises(InvalidStatus) as caught:
                async with session(gateway):
                    pass
        assert caught.value.response.status_code == 429
        error = json.loads(caught.value.response.body)["error"]
        assert error["code"] == "too_many_sessions"
        assert re.match(
            r"The (account of the )?API key 'test' has reached its limit of 3 open sessions", error["message"]
        ), error
        async with session(gateway) as client:
            await create(client, model="local-chat")
            await receive(client, "response.completed")

    asyncio.run(play())


def test_each_request_has_a_line_in_the_access_log_and_counts_in_the_metrics(start: Start, http: str) -> None:
    gateway = start(http=http)

    async def play() -> None:
        async with session(gateway, headers={"x-request-id": "mine"}) as client:
            for _ in range(2):
                await create(client, model="local-chat")
                await receive(client, "response.completed")

    asyncio.run(play())
    with urllib.request.urlopen(f"{gateway.url}/metrics") as page:
        metrics = page.read().decode()
    assert 'operation="chat",provider="local",status="200"' in metrics
    lines = [json.loads(line) for line in gateway.stop().splitlines() if '"tornado_gate.access"' in line]
    seen = [
        (line["request_id"], line["method"], line["path"], line["status"])
        for line in lines
        if "mine" in line["request_id"]
    ]
    assert seen == [
        ("mine.1", "POST", "/v1/responses", 200),
        ("mine.2", "POST", "/v1/responses", 200),
        ("mine", "GET", "/v1/responses", 101),
    ]
    assert [line["output_tokens"] > 0 for line in lines if line["request_id"] == "mine.1"] == [True]
    assert {line["caller"] for line in lines if "mine" in line["request_id"]} == {"conf:test"}


# Lanes


def test_a_lane_is_in_order_and_lanes_run_at_the_same_time(start: Start, upstream: Upstream, http: str) -> None:
    gateway = start(http=http)
    upstream.script(waiting("a", "go a"))

    async def play() -> None:
        async with session(gateway) as client:
            await create(client, stream_id="a")
            await wait_until_asked(upstream, 1)
            upstream.script(plain("b"))
            await create(client, stream_id="a", input="the second of a")
            await create(client, stream_id="b")
            # b ends while a runs, and a's second request has not been sent
            done = await receive(client, "response.completed")
            assert (done["stream_id"], done["response"]["id"]) == ("b", "resp_b")
            assert len(upstream.requests) == 2
            upstream.script(plain("a2"))
            upstream.tell("go a")
            ends = [await receive(client, "response.completed") for _ in range(2)]
            assert [(end["stream_id"], end["response"]["id"]) for end in ends] == [("a", "resp_a"), ("a", "resp_a2")]

    asyncio.run(play())


def test_two_messages_at_once_without_a_lane_are_answered_in_order(start: Start, upstream: Upstream) -> None:
    gateway = start()
    upstream.script(waiting("one", "go"))

    async def play() -> None:
        async with session(gateway) as client:
            await create(client)
            await create(client, model="no-such-model")
            await client.send("not JSON")
            await wait_until_asked(upstream, 1)
            assert (await receive(client, "response.created"))["response"]["id"] == "resp_one"
            upstream.tell("go")
            kinds = [json.loads(await client.recv()) for _ in range(3)]
            assert [event["type"] for event in kinds] == ["response.completed", "error", "error"]
            assert [event["error"]["code"] for event in kinds[1:]] == ["model_not_found", "invalid_json"]
            assert all("stream_id" not in event for event in kinds)

    asyncio.run(play())


def test_a_response_is_forked_onto_another_lane_and_a_failed_continuation_forgets_it(
    start: Start, upstream: Upstream
) -> None:
    gateway = start()
    upstream.script(plain("root"), plain("fork"), plain("next"))

    async def play() -> None:
        async with session(gateway) as client:
            await create(client, stream_id="main")
            await receive(client, "response.completed")
            await create(client, stream_id="critic", model="no-such-model", previous_response_id="resp_root")
            await receive(client, "error")  # on another lane: the response is kept
            await create(client, stream_id="critic", previous_response_id="resp_root")
            await receive(client, "response.completed")
            await create(client, stream_id="main", previous_response_id="resp_root")
            await receive(client, "response.completed")
            # Only the last response of a lane is kept
            await create(client, stream_id="main", previous_response_id="resp_root")
            assert (await receive(client, "error"))["error"]["code"] == "previous_response_not_found"
            await create(client, stream_id="main", previous_response_id="resp_next", temperature="warm")
            await receive(client, "error")
            await create(client, stream_id="main", previous_response_id="resp_next")
            assert (await receive(client, "error"))["error"]["code"] == "previous_response_not_found"
            await create(client, stream_id="critic", model="local-chat", previous_response_id="resp_fork")
            await receive(client, "response.completed")

    asyncio.run(play())
    assert [len(request.json["input"]) for request in upstream.requests[1:]] == [3, 3]


def test_a_connection_has_32_lanes(start: Start) -> None:
    gateway = start()

    async def play() -> None:
        async with session(gateway) as client:
            for number in range(33):
                await create(client, model="local-chat", generate=False, stream_id=f"lane-{number}")
            error = await receive(client, "error")
            assert (error["status"], error["stream_id"]) == (400, "lane-32")
            assert error["error"]["code"] == "websocket_stream_limit_reached"
            await create(client, model="local-chat", stream_id="lane-0")
            await receive(client, "response.output_text.delta")

    asyncio.run(play())


def test_many_requests_that_wait_are_all_answered(start: Start) -> None:
    """More than a connection queues: the rest is read when there is room."""
    gateway = start()

    async def play() -> None:
        async with session(gateway) as client:
            for _ in range(150):
                await create(client, model="local-chat", generate=False)
            for _ in range(150):
                await receive(client, "response.completed")

    asyncio.run(play())


def test_a_turn_for_which_there_is_no_memory_is_not_kept(start: Start, upstream: Upstream) -> None:
    gateway = start(turns=4000)
    upstream.script(plain("big"), plain("small"), plain("next"))

    async def play() -> None:
        async with session(gateway) as client:
            await create(client, input="x" * 2000)
            await receive(client, "response.completed")
            await create(client, previous_response_id="resp_big")
            assert (await receive(client, "error"))["error"]["code"] == "previous_response_not_found"
            await create(client)
            await receive(client, "response.completed")
            await create(client, previous_response_id="resp_small")
            await receive(client, "response.completed")

    asyncio.run(play())


# Messages


def test_large_messages_are_read_and_continued(start: Start, upstream: Upstream, http: str) -> None:
    gateway = start(http=http)
    upstream.script(plain("one"), plain("two"))
    text = "word " * 20_000

    async def play() -> None:
        async with session(gateway) as client:
            await create(client, input=text)
            await receive(client, "response.completed")
            await create(client, input=text, previous_response_id="resp_one")
            await receive(client, "response.completed")
            await create(client, input=text, previous_response_id="resp_two")
            error = await receive(client, "error")  # the conversation is longer than a body may be
            assert (error["status"], error["error"]["code"]) == (413, "request_too_large")

    asyncio.run(play())
    texts = [item["content"][0]["text"] for item in upstream.requests[1].json["input"]]
    assert texts == [text, "text of one", text]


def test_invalid_messages_get_errors_and_the_connection_stays(start: Start, http: str) -> None:
    gateway = start(http=http)
    messages: list[tuple[str | bytes, int, str]] = [
        (b"\x00binary", 400, "invalid_message"),
        ("[]", 400, "invalid_json"),
        ("{", 400, "invalid_json"),
        ('{"type": "response.create", "type": "x"}', 400, "duplicate_name"),
        ('{"model": "local-chat"}', 400, "invalid_value"),
        ('{"type": "session.update"}', 400, "invalid_value"),
        ('{"type": 5}', 400, "invalid_value"),
        ("x" * 300_001, 413, "request_too_large"),
        ('{"x": [' + "1," * 140_000 + "1]}", 400, "invalid_value"),
        ('{"x":' + "[" * 200 + "]" * 200 + "}", 400, "invalid_json"),
    ]

    async def play() -> None:
        async with session(gateway) as client:
            for message, status, code in messages:
                await client.send(message)
                error = json.loads(await client.recv())
                assert (error["type"], error["status"], error["error"]["code"]) == ("error", status, code), message[:40]
            await client.send('{"type": "response.processed", "response_id": "resp_1"}')  # Codex; it has no answer
            await create(client, model="local-chat")
            assert json.loads(await client.recv())["type"] == "response.created"

    asyncio.run(play())


def test_a_message_of_twice_the_limit_closes_the_connection(start: Start) -> None:
    gateway = start()

    async def play() -> None:
        async with session(gateway) as client:
            await client.send("x" * 700_000)
            _, code, _ = await wait_for_end(client)
            assert code == 1009

    asyncio.run(play())


# The end


def test_a_caller_who_leaves_cancels_the_requests_at_the_upstream(start: Start, upstream: Upstream, http: str) -> None:
    gateway = start(http=http)
    first, _ = events_of(response("left"))
    upstream.script(answer_stream(first, Hang()), answer_stream(Hang()))

    async def play() -> None:
        async with session(gateway) as client:
            await create(client)
            await receive(client, "response.created")
            await create(client, stream_id="other")
            await create(client)  # waits in its lane
            await wait_until_asked(upstream, 2)

    asyncio.run(play())
    upstream.wait_until_closed(0)
    upstream.wait_until_closed(1)
    assert len(upstream.requests) == 2
    lines = [json.loads(line) for line in gateway.stop().splitlines() if '"POST /v1/responses' in line]
    assert sorted(line["status"] for line in lines) == [200, 499]


def test_a_caller_who_vanishes_cancels_the_requests_too(start: Start, upstream: Upstream) -> None:
    gateway = start()
    upstream.script(answer_stream(Hang()))

    async def play() -> None:
        async with session(gateway) as client:
            await create(client)
            await wait_until_asked(upstream, 1)
            client.transport.abort()

    asyncio.run(play())
    upstream.wait_until_closed(0)


def test_revoking_the_key_ends_the_connection_in_every_process(start: Start, upstream: Upstream) -> None:
    gateway = start("--processes", "2")
    key = keys(gateway, "create", "--name", "ann").split()[-1]
    upstream.script(answer_stream(Hang()))

    async def play() -> None:
        async with session(gateway, key) as client, session(gateway, key) as busy, session(gateway) as other:
            await create(busy)
            await wait_until_asked(upstream, 1)
            listed = await asyncio.to_thread(keys, gateway, "list")
            (line,) = [line for line in listed.splitlines() if "ann" in line]
            await asyncio.to_thread(keys, gateway, "revoke", line.split()[0])
            for ended in (client, busy):
                events, code, reason = await wait_for_end(ended)
                assert (events[-1]["status"], events[-1]["error"]["code"]) == (401, "invalid_api_key")
                assert (code, "revoked" in reason) == (1008, True)
            await create(other, model="local-chat")
            await receive(other, "response.completed")

    asyncio.run(play())
    upstream.wait_until_closed(0)


def test_a_shutdown_finishes_what_runs_and_refuses_what_waits(start: Start, upstream: Upstream, http: str) -> None:
    gateway = start(http=http)
    upstream.script(waiting("last", "go"))

    async def play() -> None:
        async with session(gateway) as idle, session(gateway) as client:
            await create(client)
            await create(client, model="local-chat")
            await receive(client, "response.created")
            gateway.child.process.send_signal(signal.SIGTERM)
            assert (await wait_for_end(idle))[1] == 1001
            upstream.tell("go")
            events, code, _ = await wait_for_end(client)
            assert [event["type"] for event in events] == ["response.completed", "error"]
            assert (events[1]["status"], events[1]["error"]["code"], code) == (503, "shutting_down", 1001)

    asyncio.run(play())
    gateway.child.process.wait(PATIENCE_SECONDS)
