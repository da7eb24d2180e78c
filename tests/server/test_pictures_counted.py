"""A picture counts as one picture on every route that makes one: in the metrics, and in what it costs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import httpx
import pytest

from tests.support.gateway import Gateway
from tests.support.imitation_server import Answer, ImitationServer, Request, answer_events, answer_json

KEY: Final = "pictures-key-0123456789"
CONF: Final = """
plugins: {{local: true, openai: true, gemini: true}}
providers:
  local: {{plugin: local}}
  o: {{plugin: openai, base_url: "{url}/v1", api_key: k, responses: true}}
  g: {{plugin: gemini, base_url: "{url}", api_key: k}}
models:
  painter: {{provider: local, model: local-image-1}}
  o-painter: {{provider: o}}
  g-painter: {{provider: g, model: gemini-2.5-flash-image}}
prices:
  "*": {{per_image: 0.5, input: 0, output: 0}}
keys:
  - {{name: test, key: {key}}}
"""
PICTURE: Final = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
URL: Final = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURE}"}}
INLINE: Final = {"inlineData": {"mimeType": "image/png", "data": PICTURE}}
CANDIDATE: Final = {
    "content": {"role": "model", "parts": [{"text": "Here:"}, INLINE]},
    "finishReason": "STOP",
    "index": 0,
}
GENERATED: Final = {
    "candidates": [CANDIDATE],
    "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
}
CHAT: Final = {"messages": [{"role": "user", "content": "A cat"}], "modalities": ["image", "text"]}
CONTENTS: Final = {"contents": [{"role": "user", "parts": [{"text": "A cat"}]}]}
INPUT: Final = {"input": "A cat", "tools": [{"type": "image_generation"}], "store": False}


def frame(value: Any) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def make_chat(stream: bool) -> Answer:
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    common = {"id": "c", "created": 1, "model": "o-painter"}
    if not stream:
        message = {"role": "assistant", "content": "Here:", "images": [URL]}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return answer_json({**common, "object": "chat.completion", "choices": [choice], "usage": usage})
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": "Here:"}, {"images": [URL]}]
    choices = [[{"index": 0, "delta": delta, "finish_reason": None}] for delta in deltas]
    choices.append([{"index": 0, "delta": {}, "finish_reason": "stop"}])
    chunks = [{**common, "object": "chat.completion.chunk", "choices": one} for one in choices]
    chunks.append({**common, "object": "chat.completion.chunk", "choices": [], "usage": usage})
    return answer_events([*map(frame, chunks), b"data: [DONE]\n\n"])


def make_response(stream: bool) -> Answer:
    call = {
        "id": "ig_1",
        "type": "image_generation_call",
        "status": "completed",
        "result": PICTURE,
        "output_format": "png",
    }
    body = {
        "id": "resp_1", "object": "response", "created_at": 1, "model": "o-painter", "status": "completed", "output": [call],
        "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2},
    }  # fmt: skip
    if not stream:
        return answer_json(body)
    events = (
        {"type": "response.created", "response": {**body, "status": "in_progress", "output": []}},
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {**call, "result": None, "status": "in_progress"},
        },
        {"type": "response.output_item.done", "output_index": 0, "item": call},
        {"type": "response.completed", "response": body},
    )
    return answer_events([frame({**event, "sequence_number": number}) for number, event in enumerate(events)])


def paint(request: Request) -> Answer:
    """The upstream of both formats: each answer has one picture."""
    if ":generateContent" in request.path:
        return answer_json(GENERATED)
    if "streamGenerateContent" in request.path:
        return answer_events([frame(GENERATED)])
    stream = bool(request.json.get("stream"))
    return make_response(stream) if request.path.endswith("/responses") else make_chat(stream)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    upstream = ImitationServer(paint)
    served = Gateway.start(CONF.format(url=upstream.url, key=KEY), tmp_path_factory.mktemp("pictures"))
    yield served
    served.stop()
    upstream.stop()


def read_metrics(gateway: Gateway) -> dict[str, float]:
    lines = httpx.get(f"{gateway.url}/metrics", trust_env=False).text.splitlines()
    return {
        name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if not line.startswith("#"))
    }


def count(gateway: Gateway, model: str) -> float:
    found = (
        value
        for name, value in read_metrics(gateway).items()
        if re.match(rf'tornado_gate_images_total.*"{model}"', name)
    )
    return sum(found)


@pytest.mark.parametrize(
    ("model", "path", "body"),
    [
        ("painter", "/v1/images/generations", {"prompt": "A cat"}),
        ("painter", "/v1beta/models/painter:generateContent", CONTENTS),
        ("painter", "/v1beta/models/painter:streamGenerateContent?alt=sse", CONTENTS),
        ("g-painter", "/v1beta/models/g-painter:generateContent", CONTENTS),
        ("g-painter", "/v1beta/models/g-painter:streamGenerateContent?alt=sse", CONTENTS),
        ("g-painter", "/v1/images/generations", {"prompt": "A cat"}),
        ("g-painter", "/v1/chat/completions", CHAT),
        ("g-painter", "/v1/chat/completions", {**CHAT, "stream": True}),
        ("g-painter", "/v1/responses", {"input": "A cat", "store": False}),
        ("o-painter", "/v1/chat/completions", CHAT),
        ("o-painter", "/v1/chat/completions", {**CHAT, "stream": True}),
        ("o-painter", "/v1/responses", INPUT),
        ("o-painter", "/v1/responses", {**INPUT, "stream": True}),
    ],
)
def test_each_picture_is_counted_and_paid_once(gateway: Gateway, model: str, path: str, body: dict[str, Any]) -> None:
    before = count(gateway, model)
    headers = {"authorization": f"Bearer {KEY}"}
    sent = body if "contents" in body else {"model": model, **body}
    answer = httpx.post(gateway.url + path, json=sent, headers=headers, timeout=30, trust_env=False)
    assert answer.status_code == 200, answer.text
    assert count(gateway, model) - before == 1
    assert answer.headers.get("x-gate-cost", "0.5") == "0.5"  # absent where the head is sent before the usage is known


def test_the_metric_of_requests_names_the_operation_that_made_the_picture(gateway: Gateway) -> None:
    headers = {"authorization": f"Bearer {KEY}"}
    name = 'tornado_gate_requests_total{format="format-gemini",model="painter",operation="images",provider="local",status="200"}'
    before = read_metrics(gateway).get(name, 0)
    path = "/v1beta/models/painter:generateContent"
    httpx.post(gateway.url + path, json=CONTENTS, headers=headers, timeout=30, trust_env=False).raise_for_status()
    assert read_metrics(gateway)[name] - before == 1
