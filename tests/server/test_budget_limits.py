"""Budgets over HTTP: keys of conf, their team, and keys in the database; every kind of route; and over a restart."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from tests.support.gateway import Gateway

CONF = """
plugins: {local: true}
providers: {local: {plugin: local}}
models:
  local-chat: {provider: local}
  local-embed: {provider: local}
  local-image-1: {provider: local}
  local-tts: {provider: local}
  local-video: {provider: local}
  local-realtime: {provider: local}
prices:
  local-chat: {input: 1000, output: 1000}
  local-image-1: {per_image: 2}
  local-tts: {per_million_characters: 1000000}
  local-video: {per_second: 1}
  local-embed: {per_request: 2}
  local-realtime: {per_request: 2}
teams: {poor: {budget: {usd_per_month: 0.5}}}
keys:
  - {name: free, key: free-key-of-budgets}
  - {name: day, key: day-key-of-budgets, budget: {usd_per_day: 1}}
  - {name: spent, key: spent-key-of-budgets, budget: {tokens_per_month: 60}}
  - {name: team, key: team-key-of-budgets, team: poor}
"""
CHAT = {"model": "local-chat", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 5}
DEAR: list[tuple[str, Any]] = [
    ("/v1/chat/completions", {**CHAT, "max_tokens": 1000}),
    ("/v1/chat/completions", {**CHAT, "max_tokens": 1000, "stream": True}),
    ("/v1/messages", {**CHAT, "max_tokens": 1000}),
    ("/v1/responses", {"model": "local-chat", "input": "Hi", "max_output_tokens": 1000}),
    (
        "/v1beta/models/local-chat:generateContent",
        {"contents": [{"parts": [{"text": "Hi"}]}], "generationConfig": {"maxOutputTokens": 1000}},
    ),
    ("/v1/embeddings", {"model": "local-embed", "input": "Hi"}),
    ("/v1/images/generations", {"model": "local-image-1", "prompt": "a cat"}),
    ("/v1/audio/speech", {"model": "local-tts", "input": "Hello", "voice": "alloy"}),
    ("/v1/videos", {"model": "local-video", "prompt": "a cat", "seconds": "4"}),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("budgets")


@pytest.fixture(scope="module")
def gateway(folder: Path) -> Iterator[Gateway]:
    started = Gateway.start(CONF, folder)
    yield started
    started.stop()


def send_request(gateway: Gateway, path: str, body: Any, key: str = "day-key-of-budgets") -> httpx.Response:
    headers = {"authorization": f"Bearer {key}", "anthropic-version": "2023-06-01"}
    return httpx.post(gateway.url + path, json=body, headers=headers, trust_env=False, timeout=60)


def assert_refused(response: httpx.Response, bound: str) -> None:
    assert response.status_code == 429, response.text
    assert "budget_exceeded" in response.text or "RESOURCE_EXHAUSTED" in response.text
    assert f"{bound} is " in response.text
    assert 0 < int(response.headers["retry-after"]) <= 31 * 86_400


@pytest.mark.parametrize(("path", "body"), DEAR, ids=[f"{path} {list(body)[-1]}" for path, body in DEAR])
def test_every_route_refuses_what_may_exceed_the_budget(gateway: Gateway, path: str, body: Any) -> None:
    assert_refused(send_request(gateway, path, body), "usd_per_day")


def test_a_realtime_session_is_refused_before_the_upgrade(gateway: Gateway) -> None:
    async def open_session() -> None:
        address = gateway.url.replace("http", "ws") + "/v1/realtime?model=local-realtime"
        async with connect(address, additional_headers={"Authorization": "Bearer day-key-of-budgets"}, proxy=None):
            pass

    with pytest.raises(InvalidStatus) as refused:
        asyncio.run(open_session())
    answer = refused.value.response
    assert answer.status_code == 429
    assert json.loads(answer.body or b"{}")["error"]["code"] == "budget_exceeded"


def test_a_budget_that_is_used_up_stays_so_after_a_restart(folder: Path) -> None:
    home = folder / "restarted"
    home.mkdir()
    key = "spent-key-of-budgets"
    first = Gateway.start(CONF, home)
    try:
        answered = 0
        while (response := send_request(first, "/v1/chat/completions", CHAT, key)).status_code == 200:
            answered += 1
        assert_refused(response, "tokens_per_month")
        assert answered
    finally:
        first.stop()
    again = Gateway.start(CONF, home)
    try:
        used = {**CHAT, "max_tokens": 60}
        assert_refused(send_request(again, "/v1/chat/completions", used, key), "tokens_per_month")
    finally:
        again.stop()


def test_other_keys_and_requests_within_the_budget_are_answered(gateway: Gateway) -> None:
    for key in ("free-key-of-budgets", "day-key-of-budgets"):
        response = send_request(gateway, "/v1/chat/completions", CHAT, key)
        assert response.status_code == 200
        usage = response.json()["usage"]
        cost = (usage["prompt_tokens"] + usage["completion_tokens"]) / 1000
        assert float(response.headers["x-gate-cost"]) == pytest.approx(cost)
    assert send_request(gateway, "/v1/images/generations", DEAR[6][1], "free-key-of-budgets").status_code == 200


def test_the_budget_of_a_team_of_conf_is_that_of_its_keys(gateway: Gateway) -> None:
    assert_refused(send_request(gateway, "/v1/images/generations", DEAR[6][1], "team-key-of-budgets"), "usd_per_month")
