"""A gateway whose upstream keeps responses, two accounts, and responses as the upstream sends them.

A module that wants the fixtures says ``gateway = stored_responses.gateway`` and ``owner = stored_responses.owner``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import openai
import pytest

from tests.support.gateway import Gateway
from tests.support.upstream import Answer, Upstream, answer

FIRST = "/first/v1"
"""The path of the provider entry `first`."""
KEYS = {"a": "test-key-of-account-a", "b": "test-key-of-account-b"}
UPSTREAM_KEY = "upstream-key-0123456789"
CONF = """
plugins: {{openai: true}}
providers:
  first: {{plugin: openai, base_url: "{url}/first", api_key: "{key}", responses: true, shared_objects: []}}
  second: {{plugin: openai, base_url: "{url}/second", api_key: "{key}", responses: true, shared_objects: []}}
  shared: {{plugin: openai, base_url: "{url}/shared", api_key: "{key}", responses: true, shared_objects: [all]}}
models:
  one: {{provider: first}}
  two: {{provider: second}}
  both: {{targets: [{{provider: first, weight: 1}}, {{provider: second, weight: 1000000}}]}}
  shared: {{provider: shared}}
keys:
  - {{name: a, key: "{a}"}}
  - {{name: b, key: "{b}"}}
"""


def render_conf(url: str, more: str = "") -> str:
    return CONF.format(url=url, key=UPSTREAM_KEY, **KEYS) + more


@pytest.fixture(scope="module")
def gateway(upstream_process: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    started = Gateway.start(render_conf(upstream_process.url), tmp_path_factory.mktemp("stored"))
    yield started
    started.stop()


def client_of(gateway: Gateway, account: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=KEYS[account], max_retries=0, timeout=20)


@pytest.fixture
def owner(gateway: Gateway) -> Iterator[openai.OpenAI]:
    with client_of(gateway, "a") as client:
        yield client


def message(item_id: str, text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"id": item_id, "type": "message", "role": "assistant", "status": "completed", "content": content}


def response(name: str, *items: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A response of the upstream with the id ``resp_NAME``."""
    output = items or (message(f"msg_{name}", f"text of {name}"),)
    return {
        "id": f"resp_{name}",
        "object": "response",
        "created_at": 1700000000,
        "status": "completed",
        "model": "up",
        "output": list(output),
        "usage": {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        **fields,
    }


def events_of(body: dict[str, Any]) -> tuple[str, str]:
    """The frames of a streamed response: the first, and the last."""
    begun = {**body, "status": "in_progress", "output": [], "usage": None}
    created = {"type": "response.created", "sequence_number": 0, "response": begun}
    completed = {"type": "response.completed", "sequence_number": 1, "response": body}
    first, last = (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in (created, completed))
    return first, last


def answer_stream(*frames: Any) -> Answer:
    return answer(*frames, headers={"content-type": "text/event-stream"})


def create(client: openai.OpenAI, upstream: Upstream, name: str, model: str = "one", **fields: Any) -> Any:
    """Create the response ``resp_NAME`` at the upstream."""
    upstream.script(answer(json.dumps(response(name))))
    return client.responses.create(model=model, input="Hi", **fields)


def create_streamed(client: openai.OpenAI, upstream: Upstream, name: str, model: str = "one") -> Any:
    upstream.script(answer_stream(*events_of(response(name))))
    *_, last = client.responses.create(model=model, input="Hi", stream=True)
    assert last.type == "response.completed"
    return last.response


def refer(**fields: Any) -> dict[str, Any]:
    return {"model": "one", "input": "Hi", **fields}


def send(gateway: Gateway, account: str, method: str, path: str, body: Any = None) -> httpx2.Response:
    headers = {"authorization": f"Bearer {KEYS[account]}", "x-request-id": "same"}
    return httpx2.request(method, f"{gateway.url}/v1{path}", headers=headers, json=body, timeout=20)
