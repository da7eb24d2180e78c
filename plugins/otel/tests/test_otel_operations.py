"""Traces of requests other than chats over HTTP: large bodies, parts of embeddings, videos, and realtime sessions with
inner models.
"""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect

from tests.support.gateway import Gateway
from tests.support.scripts import completion
from tests.support.upstream import Upstream, answer

HEADERS = {"authorization": "Bearer key-of-ann-0123456789"}
CONF = """
plugins:
  local: true
  cascade: true
  openai: true
  cache: {{caches: {{chat: all}}, models: [of-chat]}}
  otel: {{endpoint: "{collector}/v1/traces", interval_seconds: 0.05}}
providers:
  local: {{plugin: local}}
  talker: {{plugin: cascade, chat: local-chat}}
  chat: {{plugin: openai, base_url: "{url}/v1", api_key: scripted-key-of-chat}}
models:
  local-chat: {{provider: local}}
  local-video: {{provider: local}}
  local-writer: {{provider: talker}}
  of-chat: {{provider: chat, model: gpt-4o}}
keys: [{{name: ann, key: key-of-ann-0123456789, account: a}}]
"""


@pytest.fixture(scope="module")
def serving(
    upstream_process: Upstream, collector_process: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    conf = CONF.format(url=upstream_process.url, collector=collector_process.url)
    started = Gateway.start(conf, tmp_path_factory.mktemp("operations"))
    yield started
    started.stop()


def post(gateway: Gateway, path: str, body: Any) -> httpx.Response:
    return httpx.post(gateway.url + path, json=body, headers=HEADERS, timeout=60, trust_env=False)


def test_a_large_body_and_its_cached_answer(serving: Gateway, upstream: Upstream, collector: Any) -> None:
    upstream.script(answer(completion("Hi")))
    body = {"model": "of-chat", "messages": [{"role": "user", "content": "long " * 40_000}]}
    first, second = (post(serving, "/v1/chat/completions", body) for _ in range(2))
    assert (first.headers["x-gate-cache"], second.headers["x-gate-cache"]) == ("miss", "hit")
    spans = collector.wait_for(4)
    assert [span["kind"] for span in spans] == ["server", "client", "server", "client"]
    assert [span["attributes"].get("tornado_gate.cached") for span in spans] == [False, None, True, True]
    (sent,) = upstream.requests
    assert sent.headers["traceparent"][3:52] == f"{spans[1]['trace']}-{spans[1]['id']}"


def test_a_video_has_a_span_for_its_request_and_traces_for_its_task(serving: Gateway, collector: Any) -> None:
    body = {"model": "local-video", "prompt": "A pier", "seconds": "1"}
    video = post(serving, "/v1/videos", body).raise_for_status().json()
    while video["status"] not in ("completed", "failed"):
        video = httpx.get(f"{serving.url}/v1/videos/{video['id']}", headers=HEADERS, trust_env=False).json()
    assert video["status"] == "completed", video
    names = [span["name"] for span in collector.wait_for_names("POST /v1/videos", "videos local-video")]
    assert names.count("POST /v1/videos") == 1
    assert "GET /v1/videos/{task_id}" in names


def test_a_realtime_session_is_a_span_with_those_of_its_models(serving: Gateway, collector: Any) -> None:
    async def talk() -> None:
        url = serving.url.replace("http", "ws") + "/v1/realtime?model=local-writer"
        async with connect(url, additional_headers=HEADERS, proxy=None) as client:
            content = [{"type": "input_text", "text": "Hello"}]
            item = {"type": "message", "role": "user", "content": content}
            await client.send(json.dumps({"type": "conversation.item.create", "item": item}))
            await client.send(json.dumps({"type": "response.create", "response": {"modalities": ["text"]}}))
            async for message in client:
                if json.loads(message)["type"] == "response.done":
                    break

    asyncio.run(talk())
    spans = collector.wait_for_names("GET /v1/realtime", "chat local-chat")
    (session,) = [span for span in spans if span["name"] == "GET /v1/realtime"]
    (chat,) = [span for span in spans if span["name"] == "chat local-chat"]
    assert (chat["trace"], chat["parent"]) == (session["trace"], session["id"])
    assert chat["failed"] is False
    assert "server.address" not in chat["attributes"], "the model runs in the gateway"


def test_a_reload_with_other_settings_loses_no_span(upstream: Upstream, collector: Any, tmp_path: Path) -> None:
    conf = CONF.format(url=upstream.url, collector=collector.url).replace(
        "interval_seconds: 0.05", "interval_seconds: 1"
    )
    gateway = Gateway.start(conf, tmp_path)
    upstream.script(answer(completion("Hi"), repeat=True))
    body = {"model": "of-chat", "messages": [{"role": "user", "content": "Hi"}]}
    assert post(gateway, "/v1/chat/completions", body).status_code == 200
    (tmp_path / "gate.yaml").write_text(
        conf.replace("seconds: 1}", "seconds: 0.05, service_name: second}"), encoding="utf-8"
    )
    gateway.child.process.send_signal(signal.SIGHUP)
    gateway.child.wait_for_line(r"configuration \d+ is in force")
    assert post(gateway, "/v1/chat/completions", body).headers["x-gate-cache"] == "hit", "the reload kept the answers"
    services = [span["service"]["service.name"] for span in collector.wait_for(4)]
    assert services == ["tornado-gate", "tornado-gate", "second", "second"]
    gateway.stop()
