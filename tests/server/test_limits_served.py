"""Bounds over HTTP with real gateways: four processes, two nodes with one Valkey, a killed process, restarts, every subject."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.support.gateway import Gateway
from tests.support.postgres import PostgresServer
from tests.support.upstream import Hang, Upstream, Wait, answer
from tests.support.valkey import Valkey

PATIENCE_SECONDS = 60.0
BODY: dict[str, Any] = {"model": "local-chat", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 5}
CONF = """
plugins: {{local: true, openai: true}}
providers:
  local: {{plugin: local}}
  narrow: {{plugin: local, limits: {{requests_per_minute: 2}}}}
  slow: {{plugin: openai, base_url: "{upstream}/v1", api_key: upstream-key-of-limits}}
models:
  local-chat: {{provider: local}}
  slow: {{provider: slow, model: gpt-4o}}
  twice: {{targets: [{{provider: narrow, model: local-chat}}], fallback: [local-chat]}}
  alone: {{provider: narrow, model: local-chat}}
  rare: {{provider: local, model: local-chat, limits: {{requests_per_minute: 3}}}}
  local-video: {{provider: local}}
  fresh: {{provider: local, model: local-chat}}
  image: {{provider: slow, model: gpt-image-1}}
prices:
  local-video: {{per_second: 1}}
  gpt-4o: {{input: 10, output: 1000}}
  gpt-image-1: {{per_image: {{1024x1024: 0.5, high 1024x1024: 4}}}}
users: {{ann: {{limits: {{requests_per_minute: 4}}}}}}
teams: {{crew: {{limits: {{requests_per_minute: 5}}, budget: {{tokens_per_day: 100000}}}}}}
keys:
  - {{name: free, key: free-key-of-limits}}
  - {{name: ten, key: ten-key-of-limits, requests_per_minute: 40}}
  - {{name: tokens, key: tokens-key-of-limits, tokens_per_minute: 1000}}
  - {{name: two, key: two-key-of-limits, concurrent_requests: 2}}
  - {{name: ann1, key: ann1-key-of-limits, user: ann}}
  - {{name: ann2, key: ann2-key-of-limits, user: ann}}
  - {{name: crew, key: crew-key-of-limits, team: crew}}
  - {{name: day, key: day-key-of-limits, budget: {{usd_per_day: 10}}}}
  - {{name: streams, key: streams-key-of-limits, budget: {{tokens_per_day: 300}}}}
  - {{name: wide, key: wide-key-of-limits, requests_per_minute: 1000, budget: {{usd_per_day: 1000}}}}
  - {{name: guess, key: guess-key-of-limits, tokens_per_minute: 1000, budget: {{usd_per_day: 1}}}}
  - {{name: choices, key: choices-key-of-limits, budget: {{usd_per_day: 10}}}}
  - {{name: images, key: images-key-of-limits, budget: {{usd_per_day: 10}}}}
  - {{name: videos, key: videos-key-of-limits, budget: {{usd_per_day: 14}}}}
  - {{name: huge, key: huge-key-of-limits, budget: {{usd_per_day: 10, tokens_per_day: 100000}}, tokens_per_minute: 100000}}
  - {{name: root, key: root-key-of-limits, role: administrator}}
limits: {{{limits}}}
"""


@pytest.fixture(scope="module")
def upstream() -> Iterator[Upstream]:
    started = Upstream.start()
    yield started
    started.stop()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("limits")


@pytest.fixture(scope="module")
def gateway(folder: Path, upstream: Upstream) -> Iterator[Gateway]:
    started = Gateway.start(CONF.format(upstream=upstream.url, limits=""), folder, "--processes", "4")
    yield started
    started.stop()


def send_request(gateway: Gateway, key: str, path: str = "/v1/chat/completions", **changes: Any) -> httpx.Response:
    headers = {"authorization": f"Bearer {key}-key-of-limits", "anthropic-version": "2023-06-01"}
    with httpx.Client(
        trust_env=False, timeout=60, verify=False
    ) as client:  # a connection of its own: any process may get it
        return client.post(gateway.url + path, json={**BODY, **changes}, headers=headers)


def ask_at_once(number: int, *gateways: Gateway, key: str, **changes: Any) -> Counter[int]:
    with ThreadPoolExecutor(16) as threads:
        jobs = [threads.submit(send_request, gateways[turn % len(gateways)], key, **changes) for turn in range(number)]
        return Counter(job.result().status_code for job in jobs)


def wait_until(is_true: Callable[[], bool]) -> None:
    ends = time.monotonic() + PATIENCE_SECONDS
    while not is_true():
        assert time.monotonic() < ends
        time.sleep(0.02)


def refused(response: httpx.Response, *words: str) -> dict[str, str]:
    assert response.status_code == 429, response.text
    error: dict[str, str] = response.json()["error"]
    for word in words:
        assert word in error["message"], error
    return error


def test_four_processes_together_admit_exactly_the_limit(gateway: Gateway) -> None:
    assert ask_at_once(100, gateway, key="ten") == {200: 40, 429: 60}
    again = send_request(gateway, "ten")
    error = refused(again, "The API key 'ten' may use 40 requests per minute; 40 are used", "Retry after ")
    assert error["code"] == "rate_limited"
    assert 0 < int(again.headers["retry-after"]) <= 60
    assert again.headers["x-ratelimit-limit-requests"] == "40"
    assert again.headers["x-ratelimit-remaining-requests"] == "0"
    assert again.headers["x-ratelimit-reset-requests"].endswith("s")


def test_requests_that_make_nothing_and_refused_ones_do_not_count(gateway: Gateway) -> None:
    for _ in range(3):
        assert send_request(gateway, "ann1", messages="no list").status_code == 400
        assert send_request(gateway, "ann1", model="unknown").status_code == 404
    headers = {"authorization": "Bearer ann1-key-of-limits"}
    for _ in range(3):
        assert httpx.get(f"{gateway.url}/v1/models", headers=headers, trust_env=False).status_code == 200
    found = [send_request(gateway, f"ann{turn % 2 + 1}").status_code for turn in range(5)]
    assert found == [200, 200, 200, 200, 429]
    refused(send_request(gateway, "ann1"), "The user 'ann' of this API key may use 4 requests per minute")


def test_models_teams_and_accounts_have_bounds_and_the_next_account_is_tried(gateway: Gateway) -> None:
    assert [send_request(gateway, "crew").status_code for _ in range(6)] == [200] * 5 + [429]
    refused(send_request(gateway, "crew"), "The team 'crew' of this API key may use 5 requests per minute")
    assert [send_request(gateway, "free", model="rare").status_code for _ in range(4)] == [200] * 3 + [429]
    refused(send_request(gateway, "free", model="rare"), "The model 'rare' may use 3 requests per minute")
    served = [send_request(gateway, "free", model="twice").headers["x-gate-provider"] for _ in range(4)]
    assert served == ["narrow", "narrow", "local", "local"]
    refused(send_request(gateway, "free", model="alone"), "The provider account 'narrow' may use 2 requests per minute")


def test_each_format_tells_what_is_left_in_its_own_way(gateway: Gateway) -> None:
    message = send_request(gateway, "tokens", "/v1/messages")
    assert message.status_code == 200
    limit, left = (int(message.headers[f"anthropic-ratelimit-tokens-{name}"]) for name in ("limit", "remaining"))
    assert limit == 1000 > left > 900
    assert message.headers["anthropic-ratelimit-tokens-reset"].endswith("Z")
    assert message.headers["x-ratelimit-remaining-tokens"] == str(left)
    too_long = refused(
        send_request(gateway, "tokens", max_tokens=5000), "may use 1000 tokens per minute", "Send a smaller request"
    )
    assert too_long["code"] == "rate_limited"
    body = {"contents": [{"parts": [{"text": "Hi"}]}], "generationConfig": {"maxOutputTokens": 5000}}
    headers = {"x-goog-api-key": "tokens-key-of-limits"}
    address = f"{gateway.url}/v1beta/models/local-chat:generateContent"
    google = httpx.post(address, json=body, headers=headers, trust_env=False)
    failure, retry = google.json()["error"]["details"]
    assert failure["violations"][0]["quotaId"] == "tokens_per_minute_per_key"
    assert retry["retryDelay"] == f"{google.headers['retry-after']}s"


def test_the_places_of_a_killed_process_become_free(gateway: Gateway, upstream: Upstream) -> None:
    upstream.script(answer(Hang()), answer(Hang()))
    before = len(upstream.requests)
    with ThreadPoolExecutor(2) as threads:
        jobs = [threads.submit(send_request, gateway, "two", model="slow") for _ in range(2)]
        upstream.wait_for_requests(before + 2)
        error = refused(send_request(gateway, "two"), "may have 2 concurrent requests; 2 are open")
        assert error["code"] == "too_many_concurrent"
        for worker in psutil.Process(gateway.child.process.pid).children():
            os.kill(worker.pid, signal.SIGKILL)
        for job in jobs:
            assert isinstance(job.exception(), httpx.TransportError)
    wait_until(lambda: is_answered(gateway, "two"))
    assert send_request(gateway, "two").status_code == 200


def is_answered(gateway: Gateway, key: str) -> bool:
    try:
        return send_request(gateway, key).status_code == 200
    except httpx.TransportError:
        return False


def test_a_video_is_one_request_and_its_price_is_kept_until_its_end(gateway: Gateway) -> None:
    made = send_request(gateway, "day", "/v1/videos", model="local-video", prompt="a cat", seconds="6")
    assert made.status_code == 200, made.text
    refused(
        send_request(gateway, "day", "/v1/videos", model="local-video", prompt="a cat", seconds="6"),
        "usd_per_day is $10",
    )
    headers = {"authorization": "Bearer day-key-of-limits"}
    address = f"{gateway.url}/v1/videos/{made.json()['id']}"
    assert httpx.delete(address, headers=headers, trust_env=False).status_code == 200
    wait_until(lambda: is_made(gateway))


def is_made(gateway: Gateway) -> bool:
    body = {"model": "local-video", "prompt": "a cat", "seconds": "3"}
    return send_request(gateway, "day", "/v1/videos", **body).status_code == 200


def test_concurrent_streams_together_stay_within_a_budget_and_settle_to_what_they_used(gateway: Gateway) -> None:
    found = ask_at_once(30, gateway, key="streams", stream=True, max_tokens=40)
    assert found[200] + found[429] == 30
    assert 0 < found[200] < 30
    left = refused(send_request(gateway, "streams", max_tokens=300), "tokens_per_day is 300 tokens")
    used = int(left["message"].partition("tokens, ")[2].split()[0])
    assert 0 < used <= 300
    assert send_request(gateway, "streams", max_tokens=1).status_code == (200 if used < 285 else 429)


def test_a_guess_refuses_no_request_for_which_there_is_room(gateway: Gateway) -> None:
    """A process that has not seen an answer of the model guesses 1000 tokens."""

    def is_settled() -> bool:
        told = send_request(gateway, "guess", "/v1/_explain?route=/v1/chat/completions").json()["limits"]
        return bool(told["tokens"]["remaining"] > 500)

    for _ in range(12):
        found = send_request(gateway, "guess", model="fresh", max_tokens=None)
        assert found.status_code == 200, found.text
        wait_until(is_settled)
    error = refused(send_request(gateway, "guess", model="fresh", max_tokens=1000), "1000 tokens per minute")
    assert error["code"] == "rate_limited"


def test_each_of_several_choices_counts_before_it_is_made(gateway: Gateway, upstream: Upstream) -> None:
    upstream.script(answer(Wait("choices"), "{}"))
    before = len(upstream.requests)
    with ThreadPoolExecutor(1) as threads:
        job = threads.submit(send_request, gateway, "choices", model="slow", max_tokens=1000, n=8)
        upstream.wait_for_requests(before + 1)
        refused(send_request(gateway, "choices", model="slow", max_tokens=1000, n=8), "and the request may use $8.0")
        upstream.tell("choices")
        job.result()


def test_an_image_reserves_the_price_of_its_size(gateway: Gateway, upstream: Upstream) -> None:
    upstream.script(answer(Wait("images"), "{}"), answer(Wait("images"), "{}"))
    before, path = len(upstream.requests), "/v1/images/generations"
    wanted = {"model": "image", "prompt": "a cat", "size": "1024x1024", "quality": "high"}
    with ThreadPoolExecutor(2) as threads:
        jobs = [threads.submit(send_request, gateway, "images", path, **wanted) for _ in range(2)]
        upstream.wait_for_requests(before + 2)
        refused(send_request(gateway, "images", path, **wanted), "$8 are used or in use, and the request may use $4.")
        upstream.tell("images")
        for job in jobs:
            job.result()


def test_a_video_without_a_length_reserves_a_usual_one(gateway: Gateway) -> None:
    wanted = {"model": "local-video", "prompt": "a cat"}
    found = [send_request(gateway, "videos", "/v1/videos", **wanted) for _ in range(8)]
    assert [response.status_code for response in found[:2]] == [200, 200]
    refused(found[-1], "usd_per_day is $14")


def test_absurd_usage_of_an_upstream_stops_no_counter_and_loses_no_usage(gateway: Gateway, upstream: Upstream) -> None:
    """A sum that exceeds 64 bits failed with the lock of all processes held, and with the rows of other requests."""
    most = 10**15
    usage = {"prompt_tokens": most, "completion_tokens": most, "total_tokens": 2 * most}
    message = {"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}
    upstream.script(answer(json.dumps({"id": "a", "object": "chat.completion", "choices": [message], "usage": usage})))
    assert send_request(gateway, "huge", model="slow").status_code == 200
    assert ask_at_once(20, gateway, key="wide") == {200: 20}
    refused(send_request(gateway, "huge"), "usd_per_day is $10, $1000000 are used")
    assert "request failed" not in gateway.logs

    def is_recorded() -> bool:
        rows = admin(gateway, "GET", "/requests?limit=100").json()["data"]
        return sum(row["key"] == "conf:wide" for row in rows) == 20 and any(row["key"] == "conf:huge" for row in rows)

    wait_until(is_recorded)
    assert "while writing the usage ledger" not in gateway.logs


@pytest.mark.qa
def test_a_minute_a_day_and_the_bound_of_the_gateway_go_on_after_a_restart(tmp_path: Path, upstream: Upstream) -> None:
    conf = CONF.format(upstream=upstream.url, limits="gateway: {requests_per_minute: 6, tokens_per_month: 100000}")
    first = Gateway.start(conf, tmp_path)
    assert [send_request(first, "free").status_code for _ in range(4)] == [200] * 4
    first.stop()
    again = Gateway.start(conf, tmp_path)
    try:
        assert [send_request(again, key).status_code for key in ("free", "ten", "free")] == [200, 200, 429]
        refused(send_request(again, "ten"), "This gateway may use 6 requests per minute; 6 are used")
        told = send_request(again, "root", "/v1/_explain?route=/v1/chat/completions").json()["limits"]
        assert told["requests"] == {"limit": 6, "remaining": 0}
        assert any(each["bound"] == "tokens_per_month" and int(each["used"].split()[0]) > 0 for each in told["bounds"])
    finally:
        again.stop()


@pytest.mark.qa
def test_two_nodes_share_one_valkey_and_count_alone_while_it_is_away(tmp_path: Path, upstream: Upstream) -> None:
    valkey = Valkey()
    conf = CONF.format(upstream=upstream.url, limits=f"store: '{valkey.url}'")
    nodes = []
    try:
        for name in ("one", "other"):
            (tmp_path / name).mkdir()
            nodes.append(Gateway.start(conf, tmp_path / name))
        assert ask_at_once(80, *nodes, key="ten") == {200: 40, 429: 40}
        valkey.kill()
        assert [ask_at_once(45, node, key="ten") for node in nodes] == [{200: 40, 429: 5}] * 2
        for node in nodes:
            node.child.wait_for_line("the store of limits is away")
            assert "tornado_gate_limit_store_away 1.0" in httpx.get(f"{node.url}/metrics", trust_env=False).text
        valkey.start()
        for node in nodes:
            node.child.wait_for_line("the store of limits can be used again")
        assert ask_at_once(60, *nodes, key="ten") == {200: 40, 429: 20}
        valkey.hang()
        began = time.monotonic()
        for _ in range(6):
            assert send_request(nodes[0], "free", model="rare").status_code in (200, 429)
        assert time.monotonic() - began < 20, "it waits once, not for each request"
    finally:
        valkey.go_on()
        for node in nodes:
            node.stop()
        valkey.kill()


def admin(gateway: Gateway, method: str, path: str, body: Any = None) -> httpx.Response:
    headers = {"authorization": "Bearer root-key-of-limits"}
    return httpx.request(method, f"{gateway.url}/admin/v1{path}", json=body, headers=headers, trust_env=False)


@pytest.mark.qa
def test_an_administrator_changes_a_limit_for_a_time_in_all_processes(gateway: Gateway) -> None:
    wanted = {"kind": "model", "subject": "local-video", "bound": "requests_per_minute", "value": 1, "until": "1h"}
    made = admin(gateway, "POST", "/limits/overrides", wanted)
    assert made.status_code == 200, made.text
    body = {"model": "local-video", "prompt": "a cat", "seconds": "1"}
    wait_until(lambda: ask_at_once(12, gateway, key="free", path="/v1/videos", **body) == {429: 12})
    (listed,) = admin(gateway, "GET", "/limits/overrides").json()["data"]
    assert (listed["id"], listed["value"], listed["created_by"]) == (made.json()["id"], 1, "conf:root")
    assert admin(gateway, "DELETE", f"/limits/overrides/{listed['id']}").status_code == 200
    assert admin(gateway, "GET", "/limits/overrides").json()["data"] == []
    wait_until(lambda: send_request(gateway, "free", "/v1/videos", **body).status_code == 200)
    actions = [event["action"] for event in admin(gateway, "GET", "/audit").json()["data"]]
    assert {"limit.override", "limit.end_override"} <= set(actions)


@pytest.mark.qa
def test_a_temporary_limit_of_one_node_is_in_force_in_the_other(
    tmp_path: Path, upstream: Upstream, postgres: PostgresServer
) -> None:
    valkey, address = Valkey(), postgres.create("nodes")
    conf = f'database: "{address}"\n' + CONF.format(upstream=upstream.url, limits=f"store: '{valkey.url}'")
    nodes = []
    try:
        for name in ("one", "other"):
            (tmp_path / name).mkdir()
            nodes.append(Gateway.start(conf, tmp_path / name))
        one, other = nodes
        wanted = {"kind": "model", "subject": "rare", "bound": "requests_per_minute", "value": 5, "until": "1h"}
        made = admin(one, "POST", "/limits/overrides", wanted)
        assert made.status_code == 200, made.text
        wait_until(lambda: admin(other, "GET", "/limits/overrides").json()["data"] != [])
        wait_until(lambda: send_request(other, "free", model="rare").headers["x-ratelimit-limit-requests"] == "5")
        used = 5 - int(send_request(other, "free", model="rare").headers["x-ratelimit-remaining-requests"])
        assert ask_at_once(12, one, other, key="free", model="rare") == Counter({200: 5 - used, 429: 7 + used})
        assert admin(other, "DELETE", f"/limits/overrides/{made.json()['id']}").status_code == 200
        wait_until(lambda: send_request(one, "free", model="rare").headers["x-ratelimit-limit-requests"] == "3")
    finally:
        for node in nodes:
            node.stop()
        valkey.kill()
        postgres.drop("nodes")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"kind": "planet"}, "kind"),
        ({"bound": "requests_per_year"}, "bound"),
        ({"factor": 2}, "factor"),
        ({"until": "yesterday"}, "until"),
        ({"subject": "x", "kind": "gateway"}, "subject"),
        ({"subject": "x"}, "subject"),
        ({"subject": "x", "kind": "user"}, "subject"),
        ({"subject": "x", "kind": "team"}, "subject"),
        ({"value": -1}, "value"),
    ],
)
def test_a_wrong_temporary_limit_is_refused_with_its_field(
    gateway: Gateway, change: dict[str, Any], field: str
) -> None:
    wanted = {"kind": "key", "subject": "conf:free", "bound": "tokens_per_minute", "value": 5, "until": "1h"}
    refusal = admin(gateway, "POST", "/limits/overrides", wanted | change)
    assert refusal.status_code == 400
    assert field in refusal.json()["error"]["param"]
