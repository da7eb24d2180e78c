"""A gateway with models of every kind of upstream, two accounts, and an upstream that answers in each vendor's wire format.

The models: ``vendor`` (OpenAI's whole API), ``other`` (the same, at another provider entry), ``bare`` (``/responses`` only),
``chats`` (OpenAI chat), ``claude``, ``gemini``, ``local`` (the embedded provider) and ``fallback`` (``vendor``, then ``claude``).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import openai

from tests.support.gateway import Gateway
from tests.support.lanes import generated, message
from tests.support.scripts import completion
from tests.support.upstream import Answer, Upstream, answer

KEYS = {"a": "test-key-of-account-a", "b": "test-key-of-account-b"}
UPSTREAM_KEY = "upstream-key-0123456789"
TRANSLATED = ("chats", "claude", "gemini")
CONF = """
plugins: {{openai: true, anthropic: true, gemini: true, local: true}}
providers:
  vendor:
    plugin: openai
    base_url: "{url}/vendor"
    api_key: "{key}"
    responses: true
    compact: true
    input_tokens: true
    shared_objects: []
  other: {{plugin: openai, base_url: "{url}/other", api_key: "{key}", responses: true, compact: true, input_tokens: true}}
  bare: {{plugin: openai, base_url: "{url}/bare", api_key: "{key}", responses: true}}
  chats: {{plugin: openai, base_url: "{url}/chats", api_key: "{key}"}}
  claude: {{plugin: anthropic, base_url: "{url}/claude", api_key: "{key}"}}
  gemini: {{plugin: gemini, base_url: "{url}/gemini", api_key: "{key}"}}
  local: {{plugin: local}}
models:
  vendor: {{provider: vendor, model: up-vendor}}
  other: {{provider: other}}
  bare: {{provider: bare}}
  chats: {{provider: chats}}
  claude: {{provider: claude}}
  gemini: {{provider: gemini}}
  local: {{provider: local, model: local-chat}}
  fallback: {{provider: vendor, model: up-vendor, fallback: [claude]}}
keys:
  - {{name: a, key: "{a}"}}
  - {{name: b, key: "{b}"}}
"""

COMPACTED: dict[str, Any] = {
    "id": "resp_compacted",
    "object": "response.compaction",
    "created_at": 1700000000,
    "output": [
        {
            "id": "msg_kept",
            "type": "message",
            "role": "user",
            "status": "completed",
            "content": [{"type": "input_text", "text": "I am Bob."}],
        },
        {"id": "cmp_vendor", "type": "compaction", "encrypted_content": "gAAAAA-of-the-vendor"},
    ],
    "usage": {"input_tokens": 40, "output_tokens": 5, "total_tokens": 45},
}
"""A compaction as OpenAI returns it (openai-python, types/responses/compacted_response.py)."""


def render_conf(url: str, more: str = "") -> str:
    return CONF.format(url=url, key=UPSTREAM_KEY, **KEYS) + more


@contextmanager
def serve(upstream: Upstream, folder: Path, more: str = "") -> Iterator[Gateway]:
    """A gateway, until the end of the block; `more` is added to its conf."""
    started = Gateway.start(render_conf(upstream.url, more), folder)
    try:
        yield started
    finally:
        started.stop()


def client_of(gateway: Gateway, account: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=KEYS[account], max_retries=0, timeout=20)


def send(gateway: Gateway, account: str, method: str, path: str, body: Any = None) -> httpx2.Response:
    headers = {"authorization": f"Bearer {KEYS[account]}", "x-request-id": "same"}
    return httpx2.request(method, f"{gateway.url}/v1{path}", headers=headers, json=body, timeout=20)


def make_answer(model: str, text: str) -> Answer:
    """The whole answer of a translated model, in the wire format of its upstream."""
    match model:
        case "chats":
            return answer(completion(text))
        case "claude":
            return answer(message(text))
    return answer(json.dumps(generated(text)))


def asked(model: str, body: Any) -> str:
    """Everything that a translated model was asked, as one JSON text."""
    names = {"chats": ("messages",), "claude": ("system", "messages"), "gemini": ("systemInstruction", "contents")}
    return json.dumps([body.get(name) for name in names[model]])
