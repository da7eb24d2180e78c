"""Alerts of a running gateway: what happens at it arrives at a receiver in another process, once, and so does its end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests.support.gateway import Gateway, run_command
from tests.support.postgres import PostgresServer
from tests.support.upstream import RecordedRequest, Upstream, answer

SECRET = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
KEY = "test-key-of-alerts"
REFUSED = json.dumps({"error": {"message": "Incorrect API key provided", "type": "x", "code": "invalid_api_key"}})
REPLY = json.dumps(
    {
        "id": "c", "object": "chat.completion", "created": 1, "model": "gpt-4o",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 90, "completion_tokens": 1, "total_tokens": 91},
    }
)  # fmt: skip
CHAT = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 5}


def make_conf(upstream: Upstream, more: str = "") -> str:
    return f"""
plugins: {{openai: true}}
providers:
  openai: {{plugin: openai, base_url: "{upstream.url}/v1", api_key: sk-of-the-vendor}}
models:
  gpt-4o: {{provider: openai}}
keys:
  - {{name: test, key: {KEY}, budget: {{tokens_per_day: 100}}}}
alerts:
  interval_seconds: 0.2
  sinks:
    hook: {{type: webhook, url: "{upstream.url}/hook", secret: {SECRET}, per_minute: 100}}
    chat: {{type: slack, url: "{upstream.url}/slack?token=a-secret-token", events: [provider_key]}}
    lost: {{type: webhook, url: "{upstream.url}/lost", events: [configuration]}}
{more}"""


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    started = Upstream.start()
    yield started
    started.stop()


def send_chat(url: str) -> int:
    headers = {"authorization": f"Bearer {KEY}"}
    return httpx.post(f"{url}/v1/chat/completions", json=CHAT, headers=headers, trust_env=False, timeout=60).status_code


def reload_with(gateway: Gateway, conf: str) -> None:
    """Write the file and ask for a reload, so that the test need not wait for the watch."""
    (gateway.folder / "gate.yaml").write_text(conf, encoding="utf-8")
    gateway.child.process.send_signal(signal.SIGHUP)


def select(requests: list[RecordedRequest], path: str) -> list[RecordedRequest]:
    return [request for request in requests if request.path.startswith(path)]


class Receiver:
    """The requests that have arrived, read path by path: sinks get their messages at the same time, in no certain order."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._read: Counter[str] = Counter()

    def wait_for(self, path: str) -> RecordedRequest:
        """Return the next request to this path."""
        requests = self._upstream.requests
        while len(found := select(requests, path)) <= self._read[path]:
            requests = self._upstream.wait_for_requests(len(requests) + 1, 20)
        self._read[path] += 1
        return found[self._read[path] - 1]

    def wait_for_event(self) -> dict[str, Any]:
        event: dict[str, Any] = self.wait_for("/hook").json
        return {"type": event["type"], **event["data"]}


def accept_hooks(upstream: Upstream, *others: Any) -> None:
    upstream.script(
        *others,
        answer("ok", path="/hook", repeat=True),
        answer("ok", path="/slack", repeat=True),
        answer("no", path="/lost", status=500, repeat=True),
    )


def test_alerts_arrive_once_and_are_resolved(upstream: Upstream, tmp_path: Path) -> None:
    accept_hooks(upstream, answer(REFUSED, status=401, path="/v1"), answer(REPLY, path="/v1", repeat=True))
    receiver = Receiver(upstream)
    gateway = Gateway.start(make_conf(upstream), tmp_path)
    try:
        assert send_chat(gateway.url) == 502
        event = receiver.wait_for_event()
        assert (event["type"], event["kind"]) == ("alert.raised", "provider_key")
        assert event["title"] == "The key of the provider 'openai' is refused"
        assert send_chat(gateway.url) == 200
        events = [receiver.wait_for_event() for _ in range(2)]
        assert {(event["type"], event["kind"]) for event in events} == {
            ("alert.raised", "budget"), ("alert.resolved", "provider_key"),
        }  # fmt: skip
        (budget,) = [event["title"] for event in events if event["kind"] == "budget"]
        assert budget == "The budget of the key 'test' is used to 91 %"
        metrics = wait_for_metric(gateway, 'tornado_gate_alert_messages_total{result="sent",sink="hook"} 3.0')
    finally:
        output = gateway.stop()
    check_requests(upstream.requests)
    assert 'tornado_gate_alerts_total{kind="budget"} 1.0' in metrics
    assert "a-secret-token" not in output
    assert "sk-of-the-vendor" not in output


def wait_for_metric(gateway: Gateway, line: str) -> str:
    """Return /metrics when it has a line: a message is counted after its receiver has answered."""
    deadline = time.monotonic() + 60
    while line not in (metrics := httpx.get(f"{gateway.url}/metrics", trust_env=False).text):
        assert time.monotonic() < deadline, metrics
        time.sleep(0.05)
    return metrics


def check_requests(requests: list[RecordedRequest]) -> None:
    """Check the signatures, and that each message was sent once, but for those that were not accepted."""
    hooks = select(requests, "/hook")
    identities = [request.headers["webhook-id"] for request in hooks]
    assert len(identities) == len(set(identities))
    with openai.OpenAI(api_key="none", base_url="http://127.0.0.1:9", webhook_secret=SECRET) as client:
        for request in hooks:
            client.webhooks.verify_signature(request.body.decode(), dict(request.headers))
    texts = [request.json["text"] for request in select(requests, "/slack")]
    assert [text.splitlines()[0] for text in texts] == [
        "*[Critical] The key of the provider 'openai' is refused*",
        "*[Resolved] The key of the provider 'openai' is refused*",
    ]


@pytest.mark.qa
def test_the_command_sends_a_test_to_every_sink_and_names_those_that_fail(upstream: Upstream, tmp_path: Path) -> None:
    accept_hooks(upstream)
    file = tmp_path / "gate.yaml"
    file.write_text(make_conf(upstream), encoding="utf-8")
    result = run_command("alerts", "test", "--conf", str(file))
    assert result.returncode == 1
    assert result.stdout.splitlines() == [
        "hook (webhook): sent", "chat (slack): sent", "lost (webhook): The receiver answered 500.",
    ]  # fmt: skip
    assert run_command("alerts", "test", "--sink", "hook", "--conf", str(file)).returncode == 0
    unknown = run_command("alerts", "test", "--sink", "hok", "--conf", str(file))
    assert (unknown.returncode, unknown.stderr) == (1, "tornado-gate: the configuration has no sink 'hok'.\n")
    assert {request.path.partition("?")[0] for request in upstream.requests} == {"/hook", "/slack", "/lost"}


def test_without_sinks_nothing_of_alerts_is_imported(tmp_path: Path) -> None:
    program = (
        "import sys\nfrom tornado_gate.server import app, services\nfrom tornado_gate.server.console import routes\n"
        "sys.exit(any(name.startswith('tornado_gate.alerts') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False, cwd=tmp_path).returncode == 0


@pytest.mark.qa
def test_a_rejected_configuration_is_reported_until_it_is_repaired(upstream: Upstream, tmp_path: Path) -> None:
    accept_hooks(upstream)
    receiver = Receiver(upstream)
    gateway = Gateway.start(make_conf(upstream), tmp_path)
    try:
        conf = make_conf(upstream)
        reload_with(gateway, conf + "nonsense: {}\n")
        event = receiver.wait_for_event()
        assert (event["type"], event["kind"]) == ("alert.raised", "configuration")
        assert "nonsense: unknown key" in event["message"]
        reload_with(gateway, conf)
        assert receiver.wait_for_event()["type"] == "alert.resolved"
        wait_for_metric(gateway, 'tornado_gate_alert_messages_total{result="retried",sink="lost"}')
    finally:
        gateway.stop()


@pytest.mark.qa
def test_two_nodes_of_two_processes_send_each_message_once(
    upstream: Upstream, postgres: PostgresServer, tmp_path: Path
) -> None:
    accept_hooks(upstream, answer(REFUSED, status=401, path="/v1", repeat=True))
    conf = make_conf(upstream, f'database: "{postgres.create("alerts")}"\n')
    nodes = []
    for name in ("a", "b"):
        folder = tmp_path / name
        folder.mkdir()
        nodes.append(Gateway.start(conf, folder, "--processes", "2"))
    receiver = Receiver(upstream)
    try:
        for _ in range(8):
            for node in nodes:
                assert send_chat(node.url) in (502, 503)
        assert receiver.wait_for_event()["kind"] == "provider_key"
        assert receiver.wait_for("/slack").json["text"].startswith("*[Critical] The key of")
        nodes.pop().stop()  # the other node still sees the cause
        reload_with(nodes[0], conf + "nonsense: {}\n")
        assert receiver.wait_for_event()["kind"] == "configuration"
    finally:
        for node in nodes:
            node.stop()
    assert len(select(upstream.requests, "/slack")) == 1
    assert len(select(upstream.requests, "/hook")) == 2


@pytest.mark.qa
def test_a_full_spool_is_reported_while_the_database_is_away(
    upstream: Upstream, postgres: PostgresServer, tmp_path: Path
) -> None:
    accept_hooks(upstream, answer(REPLY, path="/v1", repeat=True))
    address = postgres.create("spool_alerts")
    conf = make_conf(upstream, f'database: "{address}"\nledger: {{spool_bytes: 1048576}}\n')
    gateway = Gateway.start(conf, tmp_path)
    receiver = Receiver(upstream)
    try:
        postgres.drop("spool_alerts")
        folder = tmp_path / "var" / "ledger-spool"
        folder.mkdir(mode=0o700, exist_ok=True)
        (folder / "other-00000001.rows").write_bytes(b"[]\n" * 300_000)
        (folder / "other.lock").touch(mode=0o600)
        event = receiver.wait_for_event()
        assert (event["kind"], event["type"]) == ("spool", "alert.raised")
        assert "of 1048576 bytes" in event["message"]
    finally:
        gateway.stop()
    assert len(select(upstream.requests, "/hook")) == 1
