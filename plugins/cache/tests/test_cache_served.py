"""A gateway with the cache between callers of every wire format and scripted upstreams of every vendor."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.support.gateway import Gateway
from tests.support.scripts import chunk, completion, usage_chunk
from tests.support.upstream import DONE, Close, Reset, Upstream, Wait, answer, sse
from tests.support.vendor_answers import TEXT
from tests.support.vendor_chats import VENDORS, ask_chat

Send = Callable[..., httpx.Response]
_questions = itertools.count()


@pytest.fixture
def send(gateway: Gateway) -> Send:
    def post(path: str, body: Any, key: str = "ann", **headers: str) -> httpx.Response:
        headers = {"authorization": f"Bearer key-of-{key}-0123456789", "anthropic-version": "2023-06-01"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        return httpx.post(gateway.url + path, json=body, headers=headers, timeout=30, trust_env=False)

    return post


def question(**fields: Any) -> dict[str, Any]:
    """Return a chat that no other test has sent."""
    return {"model": "of-chat", "messages": [{"role": "user", "content": f"question {next(_questions)}"}], **fields}


def ask(send: Send, body: Any, key: str = "ann", **headers: str) -> tuple[str, httpx.Response]:
    """Return the cache's header of the response to a chat, and the response."""
    response = send("/v1/chat/completions", body, key, **headers)
    return response.headers.get("x-gate-cache", ""), response


def test_each_format_at_each_upstream_is_answered_again_without_the_upstream(upstream: Upstream, send: Send) -> None:
    faults = []
    for caller, vendor, streamed in itertools.product(VENDORS, VENDORS, (False, True)):
        upstream.reset()
        upstream.script(VENDORS[vendor](streamed=streamed, calls=False))
        exchange = ask_chat(caller, f"of-{vendor}", streamed=streamed)
        body = {**(exchange.body or {}), **({"store": False} if caller == "responses" else {})}
        # Other formats may have sent the same request to this upstream.
        first, second = send(exchange.path, body, x_gate_cache="no-cache"), send(exchange.path, body)
        results = [(response.status_code, response.headers.get("x-gate-cache")) for response in (first, second)]
        same = first.headers["content-type"] == second.headers["content-type"]
        if results != [(200, "miss"), (200, "hit")] or not same or not (TEXT in first.text and TEXT in second.text):
            faults.append(f"{exchange.name}: {results}, {second.text[:300]}")
        elif caller == vendor and first.content != second.content:
            faults.append(f"{exchange.name}: the forwarded bytes differ")
        elif "age" not in second.headers or "age" in first.headers:
            faults.append(f"{exchange.name}: Age")
    assert not faults, "\n".join(faults)


def test_answers_are_shared_by_the_keys_of_an_account_and_by_nobody_else(upstream: Upstream, send: Send) -> None:
    upstream.script(answer(completion("for a")), answer(completion("for b")))
    body = question()
    assert ask(send, body)[0] == "miss"
    assert ask(send, body, "amy")[0] == "hit"
    result, response = ask(send, body, "bob")
    assert (result, "for b" in response.text) == ("miss", True)


def test_what_keeps_state_or_is_wished_away_is_not_cached(upstream: Upstream, send: Send) -> None:
    upstream.script(answer(completion("again"), repeat=True))
    faults = []
    for fields in (
        {"store": True},
        {"tools": [{"type": "web_search_preview"}], "model": "of-chat"},
        {"web_search_options": {}, "store": True},
    ):
        body = question(**fields)
        results = [ask(send, body)[0] for _ in range(2)]
        if results not in (["bypass", "bypass"], ["", ""]):  # "": refused before the upstream
            faults.append(f"{fields}: {results}")
    assert not faults
    body = question()
    assert [ask(send, body, x_gate_cache="no-store")[0] for _ in range(2)] == ["bypass", "bypass"]
    assert [ask(send, body, x_gate_cache="no-cache")[0] for _ in range(2)] == ["miss", "miss"]
    assert ask(send, body)[0] == "hit", "no-cache stores"
    refused = ask(send, body, x_gate_cache="maybe")[1]
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "x-gate-cache")
    assert ask(send, {**question(), "model": "uncovered"})[0] == ""


def test_stored_responses_go_to_the_upstream(upstream: Upstream, send: Send) -> None:
    exchange = ask_chat("responses", "of-responses", streamed=False)
    for _ in range(2):
        upstream.script(VENDORS["responses"](streamed=False, calls=False))
        response = send(exchange.path, {**(exchange.body or {}), "instructions": "stored"})
        assert (response.status_code, response.headers["x-gate-cache"]) == (200, "bypass")


STREAM_BEGIN = sse(chunk(role="assistant", content="Hel"))
STREAM_END = sse(chunk(content="lo"), chunk(reason="stop"), usage_chunk(), DONE)


def test_failures_and_parts_of_answers_are_not_stored(upstream: Upstream, send: Send) -> None:
    cases = {
        "an error": answer('{"error": {"message": "busy"}}', status=503),
        "no answer": answer(Reset()),
        "a cut stream": answer(STREAM_BEGIN, Close(), headers={"content-type": "text/event-stream"}),
        "an error in a stream": answer(STREAM_BEGIN, sse({"error": {"message": "overloaded", "type": "server_error"}})),
        "no JSON": answer("<html>"),
        "too large": answer(completion("x" * 100_001)),
    }
    faults = []
    for name, failure in cases.items():
        upstream.reset()
        body = question(stream="stream" in name)
        upstream.script(failure)
        ask(send, body)
        upstream.script(answer(STREAM_BEGIN, STREAM_END) if body["stream"] else answer(completion("good")))
        result, response = ask(send, body)
        if result != "miss" or response.status_code != 200:
            faults.append(f"{name}: {result} {response.text[:200]}")
    assert not faults


def test_a_caller_who_leaves_a_stream_leaves_nothing_in_the_cache(
    upstream: Upstream, gateway: Gateway, send: Send
) -> None:
    upstream.script(answer(STREAM_BEGIN, Wait("never"), STREAM_END), answer(STREAM_BEGIN, STREAM_END))
    body = question(stream=True)
    headers = {"authorization": "Bearer key-of-ann-0123456789"}
    with httpx.stream(
        "POST", gateway.url + "/v1/chat/completions", json=body, headers=headers, trust_env=False
    ) as response:
        assert next(response.iter_text())
    upstream.wait_until_closed()
    assert ask(send, body)[0] == "miss"
    result, response = ask(send, body)
    assert (result, "lo" in response.text) == ("hit", True)


def test_a_hit_costs_nothing_and_its_row_says_so(upstream: Upstream, gateway: Gateway, send: Send) -> None:
    upstream.script(answer(completion("paid once")))
    body = question()
    paid, free = ask(send, body)[1], ask(send, body)[1]
    assert paid.json()["usage"] == free.json()["usage"]
    assert (paid.headers["x-gate-cost"], free.headers["x-gate-cost"]) == ("0.0000625", "0")
    left = [int(response.headers["x-ratelimit-remaining-tokens"]) for response in (paid, free, ask(send, body)[1])]
    assert left[2] == left[1], "the second hit finds as many tokens as the first one has found"
    rows: list[dict[str, Any]] = []
    while len(rows) < 2:  # the ledger writes a moment later
        headers = {"authorization": "Bearer key-of-ann-0123456789"}
        listed = httpx.get(
            gateway.url + "/admin/v1/requests?model=of-chat", headers=headers, trust_env=False
        ).raise_for_status()
        ids = [response.headers["x-request-id"] for response in (paid, free)]
        rows = [row for row in listed.json()["data"] if row["request_id"] in ids]
    by_id = {row["request_id"]: (row["cached"], row["input_tokens"], row["cost_usd"]) for row in rows}
    assert by_id[paid.headers["x-request-id"]] == (False, 9, 0.0000625)
    assert by_id[free.headers["x-request-id"]] == (True, None, 0)


def read_series(gateway: Gateway) -> dict[str, float]:
    text = httpx.get(gateway.url + "/metrics", trust_env=False).text
    return {
        name: float(value) for name, _, value in (line.rpartition(" ") for line in text.splitlines()) if name[0] != "#"
    }


def test_the_metrics_count_hits_and_no_tokens_for_them(upstream: Upstream, gateway: Gateway, send: Send) -> None:
    upstream.script(answer(completion("once")))
    tokens = 'tornado_gate_tokens_total{direction="input",model="of-chat",provider="chat"}'
    hits = 'tornado_gate_cache_requests_total{result="hit"}'
    body = question()
    ask(send, body)
    before = read_series(gateway)
    assert ask(send, body)[0] == "hit"
    after = read_series(gateway)
    assert (after[tokens], after[hits]) == (before[tokens], before.get(hits, 0) + 1)
    assert after["tornado_gate_cache_bytes"] > 0
    assert after["tornado_gate_cache_entries"] >= 1


def test_parallel_requests_get_their_own_answers(upstream: Upstream, send: Send) -> None:
    bodies = [question() for _ in range(8)]
    for body in bodies:  # one after the other, so that each question has the response of its number
        upstream.script(answer(completion(f"answer to {body['messages'][0]['content']}.")))
        assert ask(send, body)[0] == "miss"
    with ThreadPoolExecutor(8) as pool:
        responses = list(pool.map(lambda body: (body, ask(send, body)), bodies * 3))
    for body, (result, response) in responses:
        assert result == "hit"
        assert response.json()["choices"][0]["message"]["content"] == f"answer to {body['messages'][0]['content']}."


def test_embeddings_are_cached_and_an_uncovered_model_is_not_touched(upstream: Upstream, send: Send) -> None:
    vectors = {"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": [0.5, 1.0]}]}
    upstream.script(answer(json.dumps({**vectors, "model": "e", "usage": {"prompt_tokens": 2, "total_tokens": 2}})))
    responses = [send("/v1/embeddings", {"model": "embed", "input": "words"}) for _ in range(2)]
    assert [response.headers["x-gate-cache"] for response in responses] == ["miss", "hit"]
    assert responses[0].json() == responses[1].json()
