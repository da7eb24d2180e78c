"""Every request to a real gateway is in the ledger once, with what its upstream reported: formats, lanes, and ways to end."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.gateway import Gateway
from tests.support.scripts import chunk
from tests.support.upstream import DONE, EVENT_STREAM, JSON, Close, Hang, Step, Upstream, answer, sse
from tornado_gate.database.opening import open_database
from tornado_gate.ledger.reports import Reports
from tornado_gate.ledger.rows import RequestRow, UsageQuery

KEY = "test-key-of-the-ledger"
CONF = """
plugins: {{local: true, openai: true, anthropic: true, gemini: true}}
database: "{database}"
providers:
  o: {{plugin: openai, base_url: "{url}/o/v1", api_key: key-of-the-upstream}}
  a: {{plugin: anthropic, base_url: "{url}/a", api_key: key-of-the-upstream}}
  g: {{plugin: gemini, base_url: "{url}/g", api_key: key-of-the-upstream}}
  local: {{plugin: local}}
models:
  o-model: {{provider: o, model: gpt-4o}}
  a-model: {{provider: a, model: claude-sonnet-4-5}}
  g-model: {{provider: g, model: gemini-2.5-flash}}
  local-chat: {{provider: local}}
  local-video: {{provider: local}}
prices:
  gpt-4o: {{input: 2.5, cached_input: 1.25, output: 10, audio_input: 40}}
circuits: {{failures: 1000, open_seconds: 0.001}}
ledger: {{bodies: {bodies}}}
keys:
  - {{name: test, key: {key}, team: research, tags: [nightly]}}
"""
FORMATS, ENDS = "oag", ("whole", "stream", "broken", "aborted")

O_USAGE = {
    "prompt_tokens": 30, "completion_tokens": 12, "total_tokens": 42,
    "prompt_tokens_details": {"cached_tokens": 8, "audio_tokens": 2},
    "completion_tokens_details": {"reasoning_tokens": 5},
}  # fmt: skip
A_USAGE = {
    "input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20,
    "cache_creation": {"ephemeral_5m_input_tokens": 5, "ephemeral_1h_input_tokens": 15},
}  # fmt: skip
G_USAGE = {
    "promptTokenCount": 30, "candidatesTokenCount": 4, "thoughtsTokenCount": 6, "totalTokenCount": 40,
    "cachedContentTokenCount": 8,
    "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 27}, {"modality": "AUDIO", "tokenCount": 3}],
}  # fmt: skip
REPORTED: dict[str, dict[str, int | None]] = {
    "o": {
        "input_tokens": 30, "cached_input_tokens": 8, "output_tokens": 12, "reasoning_tokens": 5, "audio_input_tokens": 2
    },
    "a": {
        "input_tokens": 130, "cached_input_tokens": 100, "output_tokens": 5, "cache_write_tokens": 5,
        "cache_write_1h_tokens": 15,
    },
    "g": {
        "input_tokens": 30, "cached_input_tokens": 8, "output_tokens": 10, "reasoning_tokens": 6, "audio_input_tokens": 3
    },
}  # fmt: skip
"""What the ledger says of each upstream's report."""

A_MESSAGE: dict[str, Any] = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [{"type": "text", "text": "blue"}],
    "stop_reason": "end_turn", "stop_sequence": None, "usage": A_USAGE,
}  # fmt: skip
A_STREAM: tuple[dict[str, Any], ...] = (
    {"type": "message_start", "message": {**A_MESSAGE, "content": [], "stop_reason": None}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "blue"}},
    {"type": "content_block_stop", "index": 0},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn", "stop_sequence": None},
        "usage": {"output_tokens": 5},
    },
    {"type": "message_stop"},
)


def render_a(*events: dict[str, Any]) -> str:
    return "".join(f"event: {one['type']}\n{sse(one)}" for one in events)


def generate(finish: str | None, **rest: Any) -> dict[str, Any]:
    candidate = {"content": {"role": "model", "parts": [{"text": "blue"}]}, "index": 0}
    return {"candidates": [{**candidate, **({"finishReason": finish} if finish else {})}], "modelVersion": "m", **rest}


def make_steps(kind: str, end: str) -> list[Step]:
    """What the upstream of a format sends, and how the response ends."""
    if end == "whole":
        message = {"role": "assistant", "content": "blue"}
        chat = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "usage": O_USAGE}
        whole: dict[str, Any] = {
            "o": {**chat, "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]},
            "a": A_MESSAGE,
            "g": generate("STOP", usageMetadata=G_USAGE),
        }
        return [json.dumps(whole[kind])]
    first = {
        "o": sse(chunk(role="assistant", content=""), chunk(content="blue")),
        "a": render_a(*A_STREAM[:3]),
        "g": sse(generate(None)),
    }
    rest = {
        "o": sse(chunk(reason="stop"), {**chunk(), "choices": [], "usage": O_USAGE}, DONE),
        "a": render_a(*A_STREAM[3:]),
        "g": sse(generate("STOP", usageMetadata=G_USAGE)),
    }
    ways: dict[str, Step] = {"stream": rest[kind], "broken": Close(), "aborted": Hang()}
    return [first[kind], ways[end]]


def make_request(kind: str, model: str, *, stream: bool) -> tuple[str, dict[str, Any]]:
    """(path, body) of a caller of a format."""
    messages = [{"role": "user", "content": "What colour is the sky?"}]
    if kind == "o":
        return "/v1/chat/completions", {"model": model, "messages": messages, "stream": stream, "user": "person-1"}
    if kind == "a":
        body = {"model": model, "messages": messages, "stream": stream, "max_tokens": 99}
        return "/v1/messages", {**body, "metadata": {"user_id": "person-1"}}
    method = "streamGenerateContent?alt=sse" if stream else "generateContent"
    return f"/v1beta/models/{model}:{method}", {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}


class Client:
    """Sends requests and records what the ledger must know of them."""

    def __init__(self, gateway: Gateway, upstream: Upstream) -> None:
        self.upstream = upstream
        self.sent: list[str] = []
        self._client = httpx.Client(base_url=gateway.url, trust_env=False, timeout=30)

    def close(self) -> None:
        self._client.close()

    def send(self, name: str, path: str, body: Any, **headers: str) -> int:
        self.sent.append(name)
        return self._client.post(path, json=body, headers=self._head(name, **headers)).status_code

    def leave(self, name: str, path: str, body: Any) -> None:
        """Read the beginning of a stream, then close the connection."""
        self.sent.append(name)
        with self._client.stream("POST", path, json=body, headers=self._head(name)) as response:
            next(response.iter_raw())
        self.upstream.wait_until_closed(len(self.upstream.requests) - 1)

    def _head(self, name: str, **headers: str) -> dict[str, bytes]:
        head = {"authorization": f"Bearer {KEY}", "x-request-id": name, "anthropic-version": "2023-06-01"}
        head |= {name.replace("_", "-"): value for name, value in headers.items()}
        return {name: value.encode() for name, value in head.items()}


@pytest.fixture
def gateway(upstream: Upstream, database_address: str, tmp_path: Path) -> Iterator[Gateway]:
    conf = CONF.format(url=upstream.url, key=KEY, database=database_address, bodies="true")
    started = Gateway.start(conf, tmp_path)
    yield started
    if started.child.process.poll() is None:
        started.stop()


def read_ledger(gateway: Gateway, address: str) -> tuple[dict[str, RequestRow], int]:
    """The rows by the ids of their requests, and the number of requests in the totals."""
    database = open_database(gateway.folder / "var", address)
    try:
        rows = Reports(database).requests(limit=1000)
        totals = Reports(database).usage(UsageQuery(start=0, end=4e9))
    finally:
        database.close()
    found = {row.request_id: row for row in rows}
    assert len(found) == len(rows)
    return found, sum(row.requests for row in totals)


def send_everything(client: Client) -> None:
    for caller, target, end in product(FORMATS, FORMATS, ENDS):
        client.upstream.script(answer(*make_steps(target, end), headers=JSON if end == "whole" else EVENT_STREAM))
        path, body = make_request(caller, f"{target}-model", stream=end != "whole")
        name = f"{caller}-{target}-{end}"
        if end == "aborted":
            client.leave(name, path, body)
        else:
            assert client.send(name, path, body) == 200


def send_failures(client: Client) -> None:
    path, body = make_request("o", "o-model", stream=False)
    assert client.send("unknown-model", path, {**body, "model": "none"}) == 404
    assert client.send("bad-body", path, {**body, "messages": "text"}) == 400
    client.upstream.script(answer('{"error": {"message": "busy"}}', status=503))
    assert client.send("upstream-fails", path, body) == 503
    assert client.send("unknown-key", path, body, authorization="Bearer nobody") == 401
    assert client.send("models", "/v1/conversations", {}) == 200
    path, body = make_request("o", "local-chat", stream=False)
    headers = {"x_gate_tags": "a, größe", "session_id": "s-1", "x_title": "An app"}
    assert client.send("attributed", path, body, **headers) == 200


def test_every_request_is_recorded_once(gateway: Gateway, upstream: Upstream, database_address: str) -> None:
    client = Client(gateway, upstream)
    send_everything(client)
    send_failures(client)
    client.close()
    gateway.stop()
    rows, total = read_ledger(gateway, database_address)
    assert set(rows) == set(client.sent) - {"unknown-key"}
    assert total == len(rows) - 1, "the new conversation made nothing, so it is not counted"
    for caller, target, end in product(FORMATS, FORMATS, ENDS):
        check_chat(rows[f"{caller}-{target}-{end}"], caller, target, end)
    check_failures(rows)
    row = rows["attributed"]
    assert row.tags == ("nightly", "a", "größe")
    assert row.end_user == "person-1"
    assert row.attribution["application"] == "An app"
    assert row.body is not None
    assert json.loads(row.body)["model"] == "local-chat"


def check_chat(row: RequestRow, caller: str, target: str, end: str) -> None:
    name = row.request_id
    assert (row.key, row.key_name, row.team, row.provider) == ("conf:test", "test", "research", target), name
    assert (row.model, row.operation, row.status, row.attempts) == (f"{target}-model", "chat", 200, 1), name
    assert row.format == {"o": "format-openai", "a": "format-anthropic", "g": "format-gemini"}[caller], name
    assert row.end_user == ("" if caller == "g" else "person-1")
    assert row.first_byte_ms is not None
    assert 0 < row.first_byte_ms <= row.total_ms
    if end in ("whole", "stream"):
        assert (row.outcome, row.error_code, row.estimated) == ("complete", "", False), name
        reported = {field: getattr(row, field) for field in REPORTED[target]}
        assert reported == REPORTED[target], name
        if target == "o":  # 20 input, 8 cached, 2 audio, 12 output tokens
            assert row.cost == 20 * 2500 + 8 * 1250 + 2 * 40_000 + 12 * 10_000, name
        return
    assert (row.outcome, row.estimated) == (end, True), name
    assert bool(row.error_code) == (end == "broken"), name
    assert row.input_tokens, name
    assert row.output_tokens, name
    if target == "a":
        assert row.input_tokens == 130, name


def check_failures(rows: dict[str, RequestRow]) -> None:
    failures = {name: (rows[name].status, rows[name].outcome, rows[name].cost) for name in (
        "unknown-model", "bad-body", "upstream-fails",
    )}  # fmt: skip
    assert failures == {
        "unknown-model": (404, "refused", 0), "bad-body": (400, "refused", 0), "upstream-fails": (503, "failed", 0)
    }  # fmt: skip
    assert rows["unknown-model"].error_code == "model_not_found"
    assert rows["unknown-model"].model == "none"


def test_what_was_answered_survives_the_end_of_two_processes(upstream: Upstream, tmp_path: Path) -> None:
    conf = CONF.format(url=upstream.url, key=KEY, database="", bodies="false")
    gateway = Gateway.start(conf, tmp_path, "--processes", "2")
    path, body = make_request("o", "local-chat", stream=False)
    head = {"authorization": f"Bearer {KEY}"}
    for number in range(30):  # a new connection each, so that both processes get some
        sent = httpx.post(
            gateway.url + path, json=body, headers={**head, "x-request-id": f"r{number}"}, trust_env=False
        )
        assert sent.status_code == 200
    gateway.stop()
    rows, total = read_ledger(gateway, "")
    assert set(rows) == {f"r{number}" for number in range(30)}
    assert total == 30
    assert all(row.body is None for row in rows.values())


def test_a_process_that_is_killed_loses_at_most_its_last_interval(upstream: Upstream, tmp_path: Path) -> None:
    conf = CONF.format(url=upstream.url, key=KEY, database="", bodies="false")
    gateway = Gateway.start(conf, tmp_path)
    path, body = make_request("o", "local-chat", stream=False)
    with httpx.Client(base_url=gateway.url, trust_env=False, timeout=30) as client:
        head = {"authorization": f"Bearer {KEY}"}
        for number in range(10):
            client.post(path, json=body, headers={**head, "x-request-id": f"r{number}"})
        while 'tornado_gate_ledger_rows_total{result="written"} 10.0' not in client.get("/metrics").text:
            pass
        client.post(path, json=body, headers={**head, "x-request-id": "last"})
    gateway.child.kill()
    rows, total = read_ledger(gateway, "")
    assert set(rows) - {"last"} == {f"r{number}" for number in range(10)}
    assert total == len(rows)


def test_a_process_that_is_killed_while_the_database_hangs_loses_at_most_the_last_second(
    upstream: Upstream, tmp_path: Path
) -> None:
    conf = CONF.format(url=upstream.url, key=KEY, database="", bodies="false")
    gateway = Gateway.start(conf, tmp_path)
    path, body = make_request("o", "local-chat", stream=False)
    locked = sqlite3.connect(gateway.folder / "var" / "gate.db", isolation_level=None)
    locked.execute("BEGIN IMMEDIATE")
    with httpx.Client(base_url=gateway.url, trust_env=False, timeout=30) as client:
        head = {"authorization": f"Bearer {KEY}"}
        for number in range(10):
            client.post(path, json=body, headers={**head, "x-request-id": f"r{number}"})
        while 'tornado_gate_ledger_rows_total{result="spooled"} 10.0' not in client.get("/metrics").text:
            pass
    gateway.child.kill()
    locked.execute("ROLLBACK")
    locked.close()
    (tmp_path / "again").mkdir()
    again = Gateway.start(conf, tmp_path, "--data-dir", str(gateway.folder / "var"))
    again.stop()
    rows, total = read_ledger(gateway, "")
    assert set(rows) == {f"r{number}" for number in range(10)}
    assert total == 10


def test_a_video_is_recorded_when_it_is_made(upstream: Upstream, tmp_path: Path) -> None:
    conf = CONF.format(url=upstream.url, key=KEY, database="", bodies="false")
    gateway = Gateway.start(conf, tmp_path)
    body = {"model": "local-video", "prompt": "sky", "seconds": "1", "size": "64x64"}
    with httpx.Client(
        base_url=gateway.url, trust_env=False, timeout=60, headers={"authorization": f"Bearer {KEY}"}
    ) as client:
        task = client.post("/v1/videos", json=body).json()
        with client.stream("GET", f"/v1/videos/{task['id']}/events") as events:
            seen = events.read().decode() if events.status_code == 200 else ""
        while not seen and client.get(f"/v1/videos/{task['id']}").json()["status"] != "completed":
            pass
    gateway.stop()
    rows, _ = read_ledger(gateway, "")
    row = rows[task["id"]]
    assert (row.operation, row.seconds, row.outcome, row.key_name, row.team) == (
        "video_tasks", 1.0, "complete", "test", "research",
    )  # fmt: skip
