"""Realtime sessions on tapes: the messages of both sides in their order, and a replay."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import websocket_connect

from tests.support.gateway import Gateway, run_command
from tests.tapes.conftest import ANN, ROOT, UPSTREAM_KEY, Site, read_lines
from tornado_gate.tapes.tape import read_tape
from tornado_gate.testing.tape_replay import replay_tape

UPSTREAM_CONF = f"""
plugins: {{local: true}}
providers: {{local: {{plugin: local}}}}
models: {{local-realtime: {{provider: local}}}}
keys: [{{name: test, key: {UPSTREAM_KEY}}}]
"""
RECORDED = "a request was recorded"
EVENTS = [
    {"type": "session.update", "session": {"type": "realtime", "output_modalities": ["text"]}},
    {
        "type": "conversation.item.create",
        "item": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Say Oslo"}]},
    },
    {"type": "response.create"},
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    upstream = Gateway.start(UPSTREAM_CONF, tmp_path_factory.mktemp("upstream"))
    gateway = Gateway.start(write_conf(upstream), tmp_path_factory.mktemp("gateway"))
    yield Site(gateway)
    gateway.stop()
    upstream.stop()


def write_conf(upstream: Gateway, plugins: str = "openai: true") -> str:
    return f"""
plugins: {{{plugins}}}
providers: {{through: {{plugin: openai, base_url: "{upstream.url}/v1", api_key: {UPSTREAM_KEY}, serves: [realtime]}}}}
models: {{voice: {{provider: through, model: local-realtime}}, none: {{provider: through, model: no-such-model}}}}
tapes: {{}}
keys: [{{name: root, key: {ROOT}, role: administrator}}, {{name: ann, key: {ANN}}}]
"""


async def talk(site: Site, model: str = "voice", key: str = ROOT) -> tuple[str, list[str]]:
    """Hold a session with one response. Return the ID of its tape and the types of the events."""
    url = f"{site.gateway.url.replace('http', 'ws', 1)}/v1/realtime?model={model}"
    headers = {"Authorization": f"Bearer {key}", "x-gate-tape": "1"}
    socket = await websocket_connect(HTTPRequest(url, headers=headers))
    types = [json.loads(str(await socket.read_message()))["type"]]
    for event in EVENTS:
        await socket.write_message(json.dumps(event))
    while types[-1] != "response.done":
        types.append(json.loads(str(await socket.read_message()))["type"])
    socket.close()
    return str(socket.headers["X-Gate-Tape"]), types


@pytest.mark.qa
def test_a_session_is_recorded_and_its_replay_is_equal(site: Site, tmp_path: Path) -> None:
    identity, types = asyncio.run(talk(site))
    path = site.wait_for_tape(identity)
    text = path.read_text(encoding="utf-8")
    assert ROOT not in text
    assert UPSTREAM_KEY not in text
    tape = read_tape(path)
    assert [json.loads(text)["type"] for kind, text in tape.messages if kind == "answer_message"] == types
    assert [json.loads(text) for kind, text in tape.messages if kind == "caller_message"] == EVENTS
    assert tape.exchanges[1].status == 101
    assert read_lines(path)[-1]["outcome"] == "complete"
    replay = replay_tape(path)
    assert replay.differences == ()
    assert len(replay.received) == 1

    changed = tmp_path / "changed.jsonl"
    sent = next(line for line in text.splitlines() if '"upstream_sent"' in line and "Oslo" in line)
    changed.write_text(text.replace(sent, sent.replace("Oslo", "Rome")), encoding="utf-8")
    done = run_command("replay", str(changed))
    assert done.returncode == 1
    assert "The messages to the upstream:" in done.stdout
    assert "Rome" in done.stdout


def test_a_session_that_the_upstream_refuses_has_a_tape(site: Site) -> None:
    before = site.gateway.logs.count(RECORDED)
    with pytest.raises(HTTPClientError) as caught:
        asyncio.run(talk(site, "none"))
    site.gateway.wait_for_log(RECORDED, before + 1)
    path = site.wait_for_tape(str(site.ask("/admin/v1/tapes").json()["data"][0]["id"]))
    assert read_tape(path).exchanges[1].status == 404
    assert read_lines(path)[-1]["status"] == caught.value.code


def test_only_administrators_record_sessions(site: Site) -> None:
    with pytest.raises(HTTPClientError, match="403"):
        asyncio.run(talk(site, key=ANN))


@pytest.mark.qa
def test_a_session_that_guards_review_is_not_recorded(site: Site, tmp_path: Path) -> None:
    upstream = Gateway.start(UPSTREAM_CONF, tmp_path)
    (tmp_path / "own").mkdir()
    guarded = Site(Gateway.start(write_conf(upstream, "openai: true, redact: {required: true}"), tmp_path / "own"))
    identity, _ = asyncio.run(talk(guarded))
    assert identity == "skipped"
    assert not guarded.folder.exists() or not list(guarded.folder.iterdir())
    guarded.gateway.stop()
    upstream.stop()
