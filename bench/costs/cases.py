"""The requests whose cost is fixed, and the configurations of the gateway that serve them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from bench.cases import QUESTION_AT_ONCE, dump_json, make_chat_body
from bench.peers.ours import CONF, KEY

NEAR_KEY = "bench-key-of-a-caller-nearby"
LIMITED_KEY = "bench-key-of-a-limited-caller"
PLAIN = (
    CONF.replace("openai: true", "openai: true, cache: {models: [unused]}")  # a wrapper of another model costs nothing
    .replace(
        "models:\n",
        """models:
  unused: {provider: mock, model: mocked}
  pair: {targets: [{provider: mock, model: mocked}, {provider: other, model: mocked}]}
""",
    )
    .replace(
        "models:\n",
        """  other: {plugin: openai, base_url: "http://127.0.0.1:$upstream/v1", api_key: bench-key}
models:
""",
        1,
    )
    .replace(
        "keys: [",
        f"keys: [{{name: limited, key: {LIMITED_KEY}, requests_per_minute: 1000000, tokens_per_minute: 1000000000}}, ",
    )
)
ROUTED = (
    CONF.replace(
        "models:\n",
        """  other: {plugin: openai, base_url: "http://127.0.0.1:$upstream/v1", api_key: bench-key}
  narrow: {plugin: openai, base_url: "http://127.0.0.1:$upstream/v1", api_key: bench-key, concurrency: {most: 10}}
  google: {plugin: gemini, base_url: "http://127.0.0.1:$upstream", api_key: bench-key}
models:
  repeated: {provider: mock, model: mocked, retries: {same_target: 2}}
  busy: {strategy: least_busy, targets: [{provider: mock, model: mocked}, {provider: other, model: mocked}]}
  talk: {affinity: true, targets: [{provider: mock, model: mocked}, {provider: other, model: mocked}]}
  slots: {provider: narrow, model: mocked}
  gemini: {provider: google, model: mocked}
""",
    )
    .replace("openai: true", "openai: true, gemini: true")
    .replace("keys: [", f"keys: [{{name: near, key: {NEAR_KEY}, addresses: [127.0.0.0/8]}}, ")
    + "cors: {origins: [https://page.example]}\n"
)
GUARDED = CONF.replace("openai: true", "openai: true, redact: {required: true}")
OPENAI = "/v1/chat/completions"
ANTHROPIC = "/v1/messages"
GEMINI = "/v1beta/models/{}:generateContent"
GEMINI_BODY = dump_json({"contents": [{"role": "user", "parts": [{"text": "Say hello to everybody who is here."}]}]})


@dataclass(frozen=True, slots=True, kw_only=True)
class CostCase:
    """A request whose cost is counted."""

    name: str
    title: str
    body: bytes
    path: str = OPENAI
    headers: Mapping[str, str] = field(default_factory=lambda: {"Authorization": f"Bearer {KEY}"})
    conf: str = PLAIN
    status: int = 200
    ends: bytes = b"}"  # of the response's body
    requests: int = 15
    tolerance: float = 0.0  # the part by which counts may be higher, because a thread's timing decides some steps

    def make_request(self) -> bytes:
        """Return the bytes of the request."""
        lines = [f"POST {self.path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json"]
        if self.path == ANTHROPIC:
            lines.append("anthropic-version: 2023-06-01")
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        lines.append(f"Content-Length: {len(self.body)}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode() + self.body


def rename_model(body: bytes, model: str) -> bytes:
    return dump_json({**json.loads(body), "model": model})


CHAT = make_chat_body(1)
STREAM = make_chat_body(1, stream=True, text=QUESTION_AT_ONCE)
CASES = (
    CostCase(name="chat", title="chat of 200 B", body=CHAT),
    CostCase(name="a2o", title="A in, O out", path=ANTHROPIC, body=make_chat_body(1, anthropic=True)),
    CostCase(name="stream", title="stream of 50 events in one write", body=STREAM, ends=b"data: [DONE]"),
    CostCase(
        name="a2o-stream",
        title="A in, O out, stream of 50 events",
        path=ANTHROPIC,
        body=make_chat_body(1, stream=True, text=QUESTION_AT_ONCE, anthropic=True),
    ),
    CostCase(name="40kb", title="100 messages, 40 KB", body=make_chat_body(101)),
    CostCase(name="1001", title="1,001 messages, 400 KB", body=make_chat_body(1001), requests=11, tolerance=0.01),
    CostCase(
        name="1mb",
        title="1 MB of text in one message",
        body=make_chat_body(1, text="word " * 200_000),
        requests=11,
        tolerance=0.01,
    ),
    CostCase(name="401", title="unknown key", body=CHAT, headers={"Authorization": "Bearer nobody"}, status=401),
    CostCase(
        name="limits",
        title="limits of requests and tokens",
        body=CHAT,
        headers={"Authorization": f"Bearer {LIMITED_KEY}"},
    ),
    CostCase(name="targets", title="two targets", body=rename_model(CHAT, "pair")),
    CostCase(
        name="g2o",
        title="G in, O out",
        path=GEMINI.format("mocked"),
        body=GEMINI_BODY,
        headers={"x-goog-api-key": KEY},
    ),
    CostCase(
        name="embedding",
        title="embedding of one text",
        path="/v1/embeddings",
        body=dump_json({"model": "mocked", "input": ["a text of some words"]}),
    ),
    CostCase(name="guard", title="one guard (redact)", body=CHAT, conf=GUARDED),
    CostCase(
        name="g2g",
        title="G in, G out",
        path=GEMINI.format("gemini"),
        body=GEMINI_BODY,
        headers={"x-goog-api-key": KEY},
        conf=ROUTED,
    ),
    CostCase(name="retries", title="retries, none needed", body=rename_model(CHAT, "repeated"), conf=ROUTED),
    CostCase(name="busy", title="two targets, least busy", body=rename_model(CHAT, "busy"), conf=ROUTED),
    CostCase(name="affinity", title="two targets, by conversation", body=rename_model(CHAT, "talk"), conf=ROUTED),
    CostCase(name="slots", title="a limit of running requests", body=rename_model(CHAT, "slots"), conf=ROUTED),
    CostCase(
        name="cors",
        title="a page of another origin",
        body=CHAT,
        headers={"Authorization": f"Bearer {KEY}", "Origin": "https://page.example"},
        conf=ROUTED,
    ),
    CostCase(
        name="near",
        title="a key limited to addresses",
        body=CHAT,
        headers={"Authorization": f"Bearer {NEAR_KEY}"},
        conf=ROUTED,
    ),
)
CASES_BY_NAME = {case.name: case for case in CASES}
