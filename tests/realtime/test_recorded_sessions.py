"""What the ledger has of realtime sessions: a row for each at its end, and one for each model that an answer was made with."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.support.gateway import Gateway
from tests.support.ws_upstream import WsUpstream
from tornado_gate.database.opening import open_database
from tornado_gate.ledger.reports import Reports
from tornado_gate.ledger.rows import RequestRow, UsageQuery

KEY = "test-key-of-recorded-sessions"
CONF = """
plugins: {{local: true, openai: true, cascade: true}}
providers:
  up: {{plugin: openai, base_url: "http://127.0.0.1:{port}/v1", api_key: key-of-the-upstream}}
  local: {{plugin: local}}
  talker: {{plugin: cascade, chat: local-chat, speech: local-tts}}
models:
  voice: {{provider: up, model: gpt-realtime}}
  talking: {{provider: talker}}
  local-chat: {{provider: local}}
  local-tts: {{provider: local}}
prices:
  gpt-realtime: {{input: 4, output: 16, audio_input: 32, audio_output: 64}}
  local-tts: {{per_million_characters: 15}}
keys:
  - {{name: test, key: {key}, team: research, tags: [nightly]}}
"""
SDK = "OpenAI/Python 3.52.0"
CREATED = {"type": "session.created", "event_id": "event_1", "session": {"id": "sess_1", "type": "realtime"}}
USAGE = {
    "total_tokens": 30, "input_tokens": 10, "output_tokens": 20,
    "input_token_details": {"text_tokens": 4, "audio_tokens": 6, "cached_tokens": 0},
    "output_token_details": {"text_tokens": 5, "audio_tokens": 15},
}  # fmt: skip
DONE = {
    "type": "response.done", "event_id": "e3", "response": {"id": "r", "status": "completed", "output": [], "usage": USAGE}
}  # fmt: skip
COST = 4 * 4000 + 6 * 32_000 + 5 * 16_000 + 15 * 64_000
"""Of one answer, in nano-dollars."""


def open_session(gateway: Gateway, model: str, name: str) -> connect:
    url = f"{gateway.url.replace('http', 'ws')}/v1/realtime?model={model}"
    headers = {"Authorization": f"Bearer {KEY}", "X-Request-Id": name, "X-Gate-Tags": name}
    return connect(url, additional_headers=headers, user_agent_header=SDK, proxy=None)


async def read_until(client: ClientConnection, kind: str) -> None:
    while json.loads(await client.recv())["type"] != kind:
        pass


async def hold_sessions(upstream: WsUpstream, gateway: Gateway) -> None:
    """Two answers of an upstream; an upstream that goes away; a model that is not there; an answer of two inner models."""
    async with open_session(gateway, "voice", "two-answers") as client:
        for _ in range(2):
            await upstream.connections[-1].write_message(json.dumps(DONE))
            await read_until(client, "response.done")
    async with open_session(gateway, "voice", "broken") as client:
        await read_until(client, "session.created")
        connection = upstream.connections[-1].ws_connection
        assert connection is not None
        connection.stream.close()
        with suppress(ConnectionClosed):
            while True:
                await client.recv()
    async with open_session(gateway, "voice", "left") as client:
        connection = upstream.connections[-1]
        await connection.write_message(json.dumps(DONE))
        await client.send(json.dumps({"type": "input_audio_buffer.append", "audio": "A" * 64_000}))
        await client.send(json.dumps({"type": "response.create"}))
        for kind in ("response.output_audio.delta", "response.output_audio_transcript.delta"):
            event = {
                "type": kind,
                "event_id": "e",
                "response_id": "r",
                "item_id": "i",
                "output_index": 0,
                "content_index": 0,
            }
            await connection.write_message(json.dumps(event | {"delta": "A" * 64_000}))
            await read_until(client, kind)
    with pytest.raises(InvalidStatus):
        async with open_session(gateway, "none", "refused"):
            pass
    async with open_session(gateway, "talking", "inner") as client:
        content = [{"type": "input_text", "text": "Say hello"}]
        item = {"type": "message", "role": "user", "content": content}
        await client.send(json.dumps({"type": "conversation.item.create", "item": item}))
        await client.send(json.dumps({"type": "response.create"}))
        await read_until(client, "response.done")


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[RequestRow]]:
    """The rows by the ids of their requests, oldest first."""
    folder: Path = tmp_path_factory.mktemp("recorded")

    async def main() -> Gateway:
        upstream = WsUpstream(greeting=[CREATED])
        upstream.start()
        gateway = await asyncio.to_thread(Gateway.start, CONF.format(port=upstream.port, key=KEY), folder)
        async with asyncio.timeout(60):
            await hold_sessions(upstream, gateway)
        await asyncio.to_thread(gateway.stop)
        await upstream.stop()
        return gateway

    asyncio.run(main())
    database = open_database(folder / "var")
    found: dict[str, list[RequestRow]] = {}
    for row in reversed(Reports(database).requests(limit=100)):
        found.setdefault(row.request_id, []).append(row)
    [total] = Reports(database).usage(UsageQuery(start=0, end=4e9))
    database.close()
    assert total.requests == sum(map(len, found.values()))
    return found


def test_every_row_is_that_of_its_caller(rows: dict[str, list[RequestRow]]) -> None:
    assert set(rows) == {"two-answers", "broken", "left", "refused", "inner"}
    for name, of in rows.items():
        for row in of:
            assert (row.key, row.key_name, row.account, row.team) == ("conf:test", "test", "test", "research"), name
            assert row.tags == ("nightly", name)
            assert row.attribution == {"agent": SDK}
            assert row.format == "format-openai"


def test_a_session_has_one_row_with_the_tokens_and_the_cost_of_all_its_answers(
    rows: dict[str, list[RequestRow]],
) -> None:
    [row] = rows["two-answers"]
    assert (row.operation, row.model, row.upstream_model, row.provider) == ("realtime", "voice", "gpt-realtime", "up")
    assert (row.status, row.outcome, row.error_code, row.estimated, row.attempts) == (101, "complete", "", False, 1)
    assert (row.input_tokens, row.audio_input_tokens, row.cached_input_tokens) == (20, 12, 0)
    assert (row.output_tokens, row.audio_output_tokens) == (40, 30)
    assert row.cost == 2 * COST
    assert row.total_ms > 0


def test_a_session_whose_upstream_goes_away_is_broken(rows: dict[str, list[RequestRow]]) -> None:
    [row] = rows["broken"]
    assert (row.status, row.outcome, row.error_code) == (101, "broken", "upstream_lost")
    assert (row.input_tokens, row.output_tokens, row.cost) == (None, None, 0)


def test_a_handshake_that_is_refused_has_a_row(rows: dict[str, list[RequestRow]]) -> None:
    [row] = rows["refused"]
    assert (row.operation, row.model, row.provider) == ("realtime", "none", "")
    assert (row.status, row.outcome, row.error_code, row.cost) == (404, "refused", "model_not_found", 0)


def test_models_that_make_an_answer_have_rows_of_their_own_and_the_session_counts_nothing_twice(
    rows: dict[str, list[RequestRow]],
) -> None:
    chat, speech, session = rows["inner"]
    assert [(row.operation, row.model, row.provider, row.plugin, row.status) for row in rows["inner"]] == [
        ("chat", "local-chat", "local", "local", 200),
        ("speech", "local-tts", "local", "local", 200),
        ("realtime", "talking", "talker", "cascade", 101),
    ]
    assert {row.outcome for row in rows["inner"]} == {"complete"}
    assert (chat.input_tokens or 0) > 0
    assert (chat.output_tokens or 0) > 0
    assert chat.cost == 0  # the embedded models cost nothing unless conf has a price
    assert speech.characters > 0
    assert speech.cost == speech.characters * 15_000
    assert (session.input_tokens, session.output_tokens, session.cost) == (None, None, 0)


def test_an_answer_that_its_caller_leaves_is_estimated(rows: dict[str, list[RequestRow]]) -> None:
    [row] = rows["left"]
    assert row.estimated
    assert row.input_tokens is not None
    assert 10 + 30 + 10 <= row.input_tokens <= 10 + 30 + 30, (
        "the reported prompt, then the conversation and a second of sound"
    )
    assert row.output_tokens == 20 + 20 + 1
    assert (row.audio_input_tokens, row.audio_output_tokens) == (6 + 10, 15 + 20)
