"""A translated stream whose request needs no task gives the caller, the log and the ledger what one with a task gives.

A request whose URL has a query is read by a task (`handlers/known_heads.py`), so each case is sent with and without one. Both
drive the same steps.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from tests.support.gateway import Gateway
from tests.support.upstream import EVENT_STREAM, Answer, Close, Hang, Reset, Step, Upstream, answer
from tests.support.vendor_answers import TEXT
from tests.support.vendor_chats import VENDORS, ask_chat
from tornado_gate.database.opening import open_database
from tornado_gate.ledger.reports import Reports

KEY = "test-key-of-translated-streams"
UPSTREAM_KEY = "key-of-the-upstream-0123456789"
LIMITS = "{gap: 0.3, first_event: 0.5}"
CONF = """
plugins: {{openai: true, anthropic: true, gemini: true}}
server: {{access_log: true, drain_seconds: 0, drain_delay: 0}}
providers:
  chat: {{plugin: openai, base_url: "{url}/chat/v1", api_key: {secret}, timeouts: {limits}}}
  responses: {{plugin: openai, base_url: "{url}/responses/v1", responses: true, api_key: {secret}, timeouts: {limits}}}
  messages: {{plugin: anthropic, base_url: "{url}/messages", api_key: {secret}, timeouts: {limits}}}
  generate: {{plugin: gemini, base_url: "{url}/generate", api_key: {secret}, timeouts: {limits}}}
models:
  chat: {{provider: chat, model: gpt-4o}}
  responses: {{provider: responses, model: gpt-5.2}}
  messages: {{provider: messages, model: claude-sonnet-4-5}}
  generate: {{provider: generate, model: gemini-3-pro-preview}}
circuits: {{failures: 100000, window: 1000, failure_share: 1}}
keys: [{{name: a, key: {key}}}]
"""
ERRORS = {
    "chat": 'data: {"error": {"message": "busy", "type": "server_error"}}\n\n',
    "responses": 'event: error\ndata: {"type": "error", "code": "server_error", "message": "busy", "sequence_number": 9}\n\n',
    "messages": 'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}\n\n',
    "generate": 'data: {"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}}\n\n',
}
"""An error event of each upstream."""
FAULTS = (
    *("none", "no end", "broken", "reset", "silent", "silent before the first event", "open after its end", "empty"),
    *("an error first", "an error later", "no JSON first", "no JSON later", "no object", "comments only"),
    *("an event twice", "a large event", "the upstream's key", "a refusal", "tool calls"),
)
VARYING = re.compile(r"((?:chatcmpl|cmpl|msg|resp|rs|fc|toolu|call|item)[-_])[0-9A-Za-z-]{16,}")
TIMES = re.compile(r'("(?:created|created_at|completed_at)":)[0-9.]+')


class StreamCase(NamedTuple):
    """A request of a caller's format to an upstream, and what is wrong with its response."""

    caller: str
    upstream: str
    fault: str

    def make_answer(self) -> Answer:
        """Return the upstream's response."""
        if self.fault == "a refusal":
            return answer('{"error": {"message": "no", "type": "server_error"}}', status=500)
        whole = VENDORS[self.upstream](streamed=True, calls=self.fault == "tool calls").steps[0]
        assert isinstance(whole, str)
        if self.fault == "the upstream's key":
            whole = whole.replace(TEXT, f"It is {UPSTREAM_KEY}")
        elif self.fault == "a large event":
            whole = whole.replace(TEXT, "blue " * 160_000)
        frames, last = self._break([frame + "\n\n" for frame in whole.split("\n\n") if frame])
        return answer(*frames, *last, headers=EVENT_STREAM)

    def _break(self, frames: list[str]) -> tuple[list[str], list[Step]]:
        """Return the frames with the fault, and the steps after them."""
        middle = len(frames) // 2
        begun, error = frames[:middle], ERRORS[self.upstream]
        broken: dict[str, tuple[list[str], list[Step]]] = {
            "no end": (begun, []),
            "broken": (begun, [Close()]),
            "reset": (begun, [Reset()]),
            "silent": (begun, [Hang()]),
            "silent before the first event": ([": ping\n\n"], [Close()]),
            "open after its end": (frames, [Hang()]),
            "empty": ([], []),
            "an error first": ([error], []),
            "an error later": ([*begun, error], [Hang()]),
            "no JSON first": (["data: {nothing\n\n", *frames], []),
            "no JSON later": ([*begun, "data: {nothing\n\n", *frames[middle:]], []),
            "no object": ([*begun, "data: 5\n\n", *frames[middle:]], []),
            "comments only": ([": ping\n\n"] * 3, []),
            "an event twice": ([*begun, *frames[middle - 1 :]], []),
        }
        return broken.get(self.fault, (frames, []))


REPRESENTATIVE_FAULTS = ("none", "broken", "an error first", "no JSON later", "tool calls")
CASES = [
    StreamCase(caller, upstream, fault)
    for caller, upstream in (("messages", "chat"), ("chat", "messages"))
    for fault in FAULTS
]


class Result(NamedTuple):
    """What a caller gets, and what the gateway logs and writes to the ledger."""

    answer: tuple[Any, ...]
    logged: list[dict[str, Any]]
    row: Any


@pytest.fixture
def gateway(upstream: Upstream, start_gateway: Any) -> Gateway:
    gateway: Gateway = start_gateway(CONF.format(url=upstream.url, key=KEY, secret=UPSTREAM_KEY, limits=LIMITS))
    return gateway


def play(gateway: Gateway, upstream: Upstream, client: httpx.Client, case: StreamCase, suffix: str) -> tuple[Any, ...]:
    """Send a request, whose connection to the upstream is open. Return the caller's response."""
    for script in (VENDORS[case.upstream](streamed=False, calls=False), case.make_answer()):
        upstream.script(script)
    ask(client, case, is_streamed=False, name="warm")
    response = ask(client, case, is_streamed=True, name=make_name(case, suffix), query="?task=1" if suffix else "")
    headers = {name: value for name, value in response.headers.items() if name.startswith(("content-type", "x-gate"))}
    text = response.text.replace(make_name(case, suffix), make_name(case, ""))
    return response.status_code, headers, TIMES.sub(r"\1", VARYING.sub(r"\1", text))


def make_name(case: StreamCase, suffix: str) -> str:
    return re.sub("[^a-zA-Z0-9]", "-", "_".join(case)) + suffix


def ask(client: httpx.Client, case: StreamCase, *, is_streamed: bool, name: str, query: str = "") -> httpx.Response:
    sent = ask_chat(case.caller, case.upstream, streamed=is_streamed, calls=case.fault == "tool calls")
    headers = {**sent.headers, "authorization": f"Bearer {KEY}", "x-request-id": name}
    return client.post(sent.path + query, json=sent.body, headers=headers)


def read_logs(output: str, names: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """Return the lines of the log by request, without what differs between two requests."""
    logs: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for line in output.splitlines():
        record = json.loads(line) if line.startswith("{") else {}
        name = record.get("request_id")
        if name in logs:
            left = ("time", "milliseconds", "request_id", "first_event_ms", "queue_ms", "bytes_out", "path")
            logs[name].append(
                {key: value for key, value in record.items() if key not in left and not key.endswith("_ms")}
            )
    return logs


def read_rows(folder: Path) -> dict[str, Any]:
    database = open_database(folder / "var")
    try:
        rows = Reports(database).requests(limit=100_000)
    finally:
        database.close()
    return {row.request_id: describe_row(row) for row in rows}


def describe_row(row: Any) -> dict[str, Any]:
    values = {name: getattr(row, name) for name in row.__struct_fields__}
    return {
        name: repr(value)
        for name, value in values.items()
        if name not in ("id", "request_id", "moment", "ended", "tags") and "seconds" not in name and "_ms" not in name
    }


def run_cases(gateway: Gateway, upstream: Upstream, cases: Sequence[StreamCase]) -> dict[str, Result]:
    """Play the cases, each with and without a task. Return the results by name."""
    answers = {}
    limits = httpx.Limits(max_connections=1)
    with httpx.Client(base_url=gateway.url, trust_env=False, timeout=30, limits=limits) as client:
        for case in cases:
            for suffix in ("", "-task"):
                answers[make_name(case, suffix)] = play(gateway, upstream, client, case, suffix)
    logs, rows = read_logs(gateway.stop(), list(answers)), read_rows(gateway.folder)
    return {name: Result(response, logs[name], rows.get(name)) for name, response in answers.items()}


def check_cases(gateway: Gateway, upstream: Upstream, cases: Sequence[StreamCase]) -> None:
    results = run_cases(gateway, upstream, cases)
    assert not [case for case in cases if results[make_name(case, "")] != results[make_name(case, "-task")]]


def test_a_stream_without_a_task_gives_what_one_with_a_task_gives(gateway: Gateway, upstream: Upstream) -> None:
    check_cases(gateway, upstream, [case for case in CASES if case.fault in REPRESENTATIVE_FAULTS])


@pytest.mark.qa
def test_a_faulty_stream_without_a_task_gives_what_one_with_a_task_gives(gateway: Gateway, upstream: Upstream) -> None:
    check_cases(gateway, upstream, CASES)
