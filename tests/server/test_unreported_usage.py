"""What upstreams do not report is charged too: answers without usage, that nobody waits for, or that a guard refuses.

The row in the ledger, the limits and the budgets say the same of each request.
"""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx
import pytest

from tests.support.distributions import install_module
from tests.support.gateway import Gateway
from tests.support.upstream import DONE, JSON, Close, Hang, Step, Upstream, answer, sse
from tornado_gate.database.opening import open_database
from tornado_gate.ledger.reports import Reports
from tornado_gate.ledger.rows import RequestRow

PROMPT = "word " * 800  # 1,000 tokens of 4 characters
TEXT = "blue sky " * 400  # 900 tokens
CHAT = {"messages": [{"role": "user", "content": PROMPT}], "max_tokens": 2000}
ZERO = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}


class Case(NamedTuple):
    """A request, what its upstream does, and what it costs at least: tokens of prompt and answer, images, characters.

    `end`: "read" or "leave", which closes the connection when the upstream has the request.
    """

    name: str
    path: str
    body: dict[str, Any]
    steps: list[Step]
    end: str
    prompt: int = 0
    produced: int = 0
    images: int = 0
    characters: int = 0


def chat(text: str, **rest: Any) -> str:
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return json.dumps({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], **rest})


def claude(text: str, **rest: Any) -> str:
    content = [{"type": "text", "text": text}]
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": content, **rest}
    return json.dumps({**message, "stop_reason": "end_turn", "stop_sequence": None})


def gemini(text: str) -> str:
    candidate = {"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP", "index": 0}
    return json.dumps({"candidates": [candidate], "modelVersion": "m"})


def response(**rest: Any) -> str:
    body = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "status": "completed", "error": None}
    body |= {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "instructions": PROMPT}
    part = {"type": "output_text", "text": TEXT, "annotations": []}
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}
    return json.dumps({**body, "output": [item], **rest})


def chunk(**delta: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


FINISH = {**chunk(), "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
CONTENTS = {"contents": [{"role": "user", "parts": [{"text": PROMPT}]}]}
PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
EMBEDDINGS = json.dumps(
    {"object": "list", "model": "m", "data": [{"object": "embedding", "index": 0, "embedding": [0.5]}]}
)
IMAGES = json.dumps({"created": 1, "data": [{"b64_json": PICTURE}]})
FORBIDDEN = sse(chunk(content="forbidden " + TEXT), FINISH, DONE)
WORDS, ZERO_CHUNK = (chunk(content=TEXT), FINISH), {**chunk(), "choices": [], "usage": ZERO}
Charged = tuple[dict[str, RequestRow], dict[str, dict[str, float]]]
GUARDED = {**CHAT, "model": "guarded"}
GUARD = """
from tornado_gate import guard_impl, types

class Guard:
    @guard_impl
    def review_response(self, texts):
        if any("forbidden" in text.text for text in texts):
            return types.Block(message="Not here.", status=403)
"""
WHOLE, STREAM = {**CHAT, "model": "o"}, {**CHAT, "model": "o", "stream": True}
CASES = [
    Case("left", "/v1/chat/completions", WHOLE, [Hang()], "leave", 1000),
    Case("left-n", "/v1/chat/completions", {**WHOLE, "n": 3}, [Hang()], "leave", 1000),
    Case("left-other", "/v1/chat/completions", {**CHAT, "model": "a"}, [Hang()], "leave", 1000),
    Case("left-claude", "/v1/messages", {**CHAT, "model": "a"}, [Hang()], "leave", 1000),
    Case("left-gemini", "/v1beta/models/g:generateContent", CONTENTS, [Hang()], "leave", 1000),
    Case("left-responses", "/v1/responses", {"model": "o", "input": PROMPT}, [Hang()], "leave", 1000),
    Case("left-completions", "/v1/completions", {"model": "o", "prompt": PROMPT}, [Hang()], "leave", 1000),
    Case("left-stream", "/v1/chat/completions", STREAM, [Hang()], "leave", 1000),
    Case("left-embeddings", "/v1/embeddings", {"model": "o", "input": PROMPT}, [Hang()], "leave", 1000),
    Case("left-images", "/v1/images/generations", {"model": "o", "prompt": PROMPT, "n": 2}, [Hang()], "leave", 1000, 0, 2),
    Case("left-speech", "/v1/audio/speech", {"model": "o", "input": TEXT, "voice": "ash"}, [Hang()], "leave", 900, 0, 0, 3600),
    Case("whole", "/v1/chat/completions", WHOLE, [chat(TEXT)], "read", 1000, 900),
    Case("whole-other", "/v1/chat/completions", {**CHAT, "model": "a"}, [claude(TEXT)], "read", 1000, 900),
    Case("whole-claude", "/v1/messages", {**CHAT, "model": "a"}, [claude(TEXT)], "read", 1000, 900),
    Case("whole-gemini", "/v1beta/models/g:generateContent", CONTENTS, [gemini(TEXT)], "read", 1000, 900),
    Case("whole-responses", "/v1/responses", {"model": "o", "input": PROMPT}, [response()], "read", 1000, 900),
    Case("zero", "/v1/chat/completions", WHOLE, [chat(TEXT, usage=ZERO)], "read", 1000, 900),
    Case("zero-stream", "/v1/chat/completions", STREAM, [sse(*WORDS, ZERO_CHUNK, DONE)], "read", 1000, 900),
    Case("stream", "/v1/chat/completions", STREAM, [sse(chunk(content=TEXT), FINISH, DONE)], "read", 1000, 900),
    Case("broken", "/v1/chat/completions", STREAM, [sse(chunk(content=TEXT)), Close()], "read", 1000, 900),
    Case("guarded", "/v1/chat/completions", GUARDED, [chat(TEXT + "forbidden")], "read", 1000, 900),
    Case("guarded-stream", "/v1/chat/completions", {**GUARDED, "stream": True}, [FORBIDDEN], "read", 1000, 900),
    Case("embeddings", "/v1/embeddings", {"model": "o", "input": PROMPT}, [EMBEDDINGS], "read", 1000),
    Case("images", "/v1/images/generations", {"model": "o", "prompt": PROMPT}, [IMAGES], "read", 1000, 0, 1),
]  # fmt: skip
KEYS = "\n".join(
    f"  - {{name: {case.name}, key: key-of-{case.name}-0123456789, concurrent_requests: 9, "
    "budget: {tokens_per_day: 100000, usd_per_day: 1000}}"
    for case in CASES
)
CONF = """
plugins: {{openai: true, anthropic: true, gemini: true, guard: {{on: true, models: [guarded]}}}}
providers:
  o: {{plugin: openai, base_url: "{url}/o/v1", responses: true, api_key: key-of-the-upstream}}
  a: {{plugin: anthropic, base_url: "{url}/a", api_key: key-of-the-upstream}}
  g: {{plugin: gemini, base_url: "{url}/g", api_key: key-of-the-upstream}}
models:
  guarded: {{provider: o, model: o}}
  o: {{provider: o, model: o-1}}
  a: {{provider: a}}
  g: {{provider: g}}
default_prices: false
prices:
  "o*": {{input: 1000, output: 1000, per_image: 1, per_million_characters: 1000}}
  a: {{input: 1000, output: 1000}}
  g: {{input: 1000, output: 1000}}
keys:
{keys}
"""


@pytest.fixture(scope="module")
def upstream_of_file() -> Iterator[Upstream]:
    started = Upstream.start()
    yield started
    started.stop()


def send(gateway: Gateway, upstream: Upstream, case: Case) -> None:
    """Send a request, and read its answer or leave when the upstream has it."""
    headers = {"authorization": f"Bearer key-of-{case.name}-0123456789", "anthropic-version": "2023-06-01"}
    headers["x-request-id"] = case.name
    upstream.script(answer(*case.steps, headers=None if case.body.get("stream") else JSON))
    sent = len(upstream.requests)
    if case.end == "read":
        httpx.post(gateway.url + case.path, json=case.body, headers=headers, trust_env=False, timeout=30)
        return
    body = json.dumps(case.body).encode()
    headers |= {"content-type": "application/json", "content-length": str(len(body)), "host": "gateway.test"}
    head = f"POST {case.path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    host, port = gateway.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(head.encode() + b"\r\n" + body)
        upstream.wait_for_requests(sent + 1)
    upstream.wait_until_closed(sent)


def read_used(gateway: Gateway, case: Case) -> dict[str, float]:
    """What is used of the bounds of the case's key, once its request has ended."""
    headers = {"authorization": f"Bearer key-of-{case.name}-0123456789"}
    deadline = time.monotonic() + 60
    while True:
        url = f"{gateway.url}/v1/_explain?route=/v1/chat/completions"
        told = httpx.post(url, json=WHOLE, headers=headers, trust_env=False).json()["limits"]["bounds"]
        used = {bound["bound"]: float(re.sub("[^0-9.]", "", bound["used"])) for bound in told}
        if not used["concurrent_requests"]:
            return used
        assert time.monotonic() < deadline, f"{case.name} has not ended"


def run_in_background(gateway: Gateway, upstream: Upstream) -> None:
    """Create a response in the background, and read it when it is complete."""
    headers = {"authorization": "Bearer key-of-left-0123456789"}
    usage = {"input_tokens": 1500, "output_tokens": 900, "total_tokens": 2400}
    done, begun = response(usage=usage, background=True), response(status="queued", background=True, output=[])
    upstream.script(answer(begun), answer(done), answer(done))
    with httpx.Client(base_url=gateway.url, headers=headers, trust_env=False) as client:
        body = {"model": "o", "input": PROMPT, "background": True}
        made = client.post("/v1/responses", json=body, headers={"x-request-id": "begun"})
        path = f"/v1/responses/{made.json()['id']}"
        told = client.get(path, headers={"x-request-id": "done"})
        assert told.json()["usage"]["input_tokens"] == 1500
        client.get(path, headers={"x-request-id": "again"})


@pytest.fixture(scope="module")
def charged(upstream_of_file: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Charged:
    """The rows of the ledger, and what was used of the bounds, by the name of the case."""
    folder = tmp_path_factory.mktemp("unreported")
    environment = install_module(folder / "installed", "guard", GUARD)
    conf = CONF.format(url=upstream_of_file.url, keys=KEYS)
    gateway = Gateway.start(conf, folder, environment=environment)
    used = {}
    for case in CASES:
        send(gateway, upstream_of_file, case)
        used[case.name] = read_used(gateway, case)
    run_in_background(gateway, upstream_of_file)
    gateway.stop()
    database = open_database(folder / "var")
    try:
        rows = {row.request_id: row for row in Reports(database).requests(limit=1000)}
    finally:
        database.close()
    return rows, used


def test_what_an_upstream_does_not_report_is_estimated(charged: Charged) -> None:
    wrong = []
    for case in CASES:
        row = charged[0][case.name]
        tokens = (row.input_tokens or 0, row.output_tokens or 0)
        fits = case.prompt <= tokens[0] <= case.prompt + 100 and case.produced * 0.9 <= tokens[1] <= case.produced * 1.1
        if not fits or row.images != case.images or row.characters != case.characters or not row.estimated:
            wrong.append((case.name, row.outcome, row.status, tokens, row.images, row.characters, row.estimated))
    assert not wrong


def test_the_ledger_the_limits_and_the_budgets_agree(charged: Charged) -> None:
    wrong = []
    for case in CASES:
        row, used = charged[0][case.name], charged[1][case.name]
        tokens = (row.input_tokens or 0) + (row.output_tokens or 0)
        cost = 10**6 * tokens + 10**9 * row.images + 10**6 * row.characters
        if (used["tokens_per_day"], used["usd_per_day"], row.cost) != (tokens, cost / 1e9, cost):
            wrong.append((case.name, used, tokens, row.cost))
    assert not wrong


def test_a_response_in_the_background_is_charged_its_prompt_at_once_and_the_rest_when_it_is_read(
    charged: Charged,
) -> None:
    begun, done, again = (charged[0][name] for name in ("begun", "done", "again"))
    assert begun.estimated
    assert begun.input_tokens is not None
    assert 1000 <= begun.input_tokens <= 1100
    assert (done.input_tokens, done.output_tokens, done.estimated) == (1500 - begun.input_tokens, 900, False)
    assert (again.input_tokens, again.output_tokens) == (None, None)
