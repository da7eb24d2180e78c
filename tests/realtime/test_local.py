"""Realtime voice with no upstream: the embedded provider, and a cascade of the gateway's own models, as the contract has it."""

from __future__ import annotations

import array
import asyncio
import base64
import contextlib
import json
import math
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.support.gateway import Gateway

KEY = "test-key-of-local-voices"
CONF = """
plugins: {{local: true, cascade: true}}
providers:
  local: {{plugin: local}}
  talker: {{plugin: cascade, chat: local-chat, speech: local-tts}}
  mute: {{plugin: cascade, chat: local-chat}}
models:
  local-chat: {{provider: local}}
  local-tts: {{provider: local}}
  local-realtime: {{provider: local}}
  local-talker: {{provider: talker}}
  local-writer: {{provider: mute}}
keys:
  - {{name: test, key: {key}, tokens_per_minute: 100000}}
  - {{name: narrow, key: narrow-{key}, models: [local-talker]}}
  - {{name: little, key: little-{key}, tokens_per_minute: 40, concurrent_requests: 1}}
"""
UPDATE = {
    "type": "session.update",
    "session": {"modalities": ["text", "audio"], "voice": "alloy", "input_audio_format": "pcm16", "output_audio_format": "pcm16"},
}  # fmt: skip


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    gateway = Gateway.start(CONF.format(key=KEY), tmp_path_factory.mktemp("voices"))
    yield gateway
    gateway.stop()


def make_message(text: str) -> dict[str, Any]:
    content = [{"type": "input_text", "text": text}]
    return {"type": "conversation.item.create", "item": {"type": "message", "role": "user", "content": content}}


async def turn(client: ClientConnection, *events: dict[str, Any]) -> list[dict[str, Any]]:
    """Everything that is said until the answer is done."""
    for event in events:
        await client.send(json.dumps(event))
    told: list[dict[str, Any]] = []
    while not told or told[-1]["type"] != "response.done":
        told.append(json.loads(await client.recv()))
    return told


def talk(gateway: Gateway, model: str, *events: dict[str, Any], key: str = KEY) -> list[dict[str, Any]]:
    async def main() -> list[dict[str, Any]]:
        url = f"{gateway.url.replace('http', 'ws')}/v1/realtime?model={model}"
        headers = {"Authorization": f"Bearer {key}"}
        async with asyncio.timeout(50), connect(url, additional_headers=headers, proxy=None) as client:
            return await turn(client, *events)

    return asyncio.run(main())


def loudness(told: list[dict[str, Any]]) -> tuple[float, float]:
    """Seconds and root mean square of what was spoken."""
    sound = b"".join(base64.b64decode(event["delta"]) for event in told if event["type"] == "response.audio.delta")
    samples = array.array("h", sound)
    return len(samples) / 24_000, math.sqrt(sum(value * value for value in samples) / max(1, len(samples)))


def tone(seconds: float) -> str:
    samples = array.array("h", (int(8000 * math.sin(n / 10)) for n in range(int(seconds * 24_000))))
    return base64.b64encode(samples.tobytes()).decode()


@pytest.mark.parametrize("model", ["local-realtime", "local-talker"])
def test_a_spoken_turn_as_the_contract_has_it(gateway: Gateway, model: str) -> None:
    told = talk(gateway, model, UPDATE, make_message("Say hello"), {"type": "response.create"})
    kinds = [event["type"] for event in told]
    assert kinds[0] == "session.created"
    assert "session.updated" in kinds
    assert "error" not in kinds
    assert kinds.index("response.created") < kinds.index("response.audio.delta") < kinds.index("response.done")
    seconds, level = loudness(told)
    assert seconds > 0.2
    assert level > 100
    assert told[-1]["response"]["status"] == "completed"
    assert told[-1]["response"]["usage"]["total_tokens"] > 0
    ids = [event["event_id"] for event in told]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("model", ["local-realtime", "local-talker", "local-writer"])
def test_a_written_turn_as_the_contract_has_it(gateway: Gateway, model: str) -> None:
    create = {"type": "response.create", "response": {"modalities": ["text"]}}
    told = talk(gateway, model, make_message("Say hello"), create)
    text = "".join(event["delta"] for event in told if event["type"] == "response.text.delta")
    assert text
    assert not any("audio" in event["type"] for event in told)


def test_a_sound_that_is_committed_is_answered(gateway: Gateway) -> None:
    append = {"type": "input_audio_buffer.append", "audio": tone(1.5)}
    off = {"type": "session.update", "session": {"turn_detection": None, "modalities": ["text"]}}
    told = talk(
        gateway, "local-realtime", off, append, {"type": "input_audio_buffer.commit"}, {"type": "response.create"}
    )
    kinds = [event["type"] for event in told]
    assert "input_audio_buffer.committed" in kinds
    text = "".join(event["delta"] for event in told if event["type"] == "response.text.delta")
    assert "1.5" in text


BAD = [
    ({"type": "nonsense", "event_id": "e1"}, "type"),
    ({"type": "input_audio_buffer.append", "audio": "!!", "event_id": "e1"}, "audio"),
    ({"type": "input_audio_buffer.append", "audio": "AAAA", "event_id": "e1"}, "audio"),
    ({"type": "input_audio_buffer.commit", "event_id": "e1"}, ""),
    ({"type": "conversation.item.delete", "item_id": "none", "event_id": "e1"}, "item_id"),
    ({"type": "session.update", "session": {"voice": 5}, "event_id": "e1"}, "session.voice"),
]


@pytest.mark.parametrize(("bad", "param"), BAD, ids=range(len(BAD)))
def test_a_bad_event_is_told_and_the_session_goes_on(gateway: Gateway, bad: dict[str, Any], param: str) -> None:
    create = {"type": "response.create", "response": {"modalities": ["text"]}}
    told = talk(gateway, "local-realtime", bad, make_message("Say hello"), create)
    error = next(event for event in told if event["type"] == "error")["error"]
    assert error["event_id"] == "e1"
    assert error["code"]
    assert error["message"]
    if param:
        assert error["param"] == param
    assert told[-1]["response"]["status"] == "completed"


def test_a_cascade_uses_only_models_that_the_key_may_use(gateway: Gateway) -> None:
    told = talk(gateway, "local-talker", make_message("Say hello"), {"type": "response.create"}, key=f"narrow-{KEY}")
    assert told[-1]["response"]["status"] == "failed"


def test_what_a_cascade_takes_is_counted_once(gateway: Gateway) -> None:
    def left() -> int:
        headers = {"authorization": f"Bearer {KEY}"}
        body = {"model": "local-chat", "messages": [{"role": "user", "content": "Hi"}]}
        address = f"{gateway.url}/v1/_explain?route=/v1/chat/completions"
        told = httpx.post(address, json=body, headers=headers, trust_env=False).json()
        return int(told["limits"]["tokens"]["remaining"])

    before = left()
    told = talk(gateway, "local-writer", make_message("Say hello"), {"type": "response.create"})
    spent = told[-1]["response"]["usage"]["total_tokens"]
    ends = time.monotonic() + 60
    while before - left() != spent and time.monotonic() < ends:  # the session ends a moment after its client
        time.sleep(0.02)
    assert before - left() == spent


def test_a_session_is_counted_as_its_usage_arrives_and_ended_when_its_bound_is_exhausted(gateway: Gateway) -> None:
    async def main() -> tuple[int, list[dict[str, Any]], int | None]:
        url = f"{gateway.url.replace('http', 'ws')}/v1/realtime?model=local-realtime"
        headers = {"Authorization": f"Bearer little-{KEY}"}
        turns, told = 0, []
        async with asyncio.timeout(50), connect(url, additional_headers=headers, proxy=None) as client:
            with pytest.raises(InvalidStatus) as second:
                async with connect(url, additional_headers=headers, proxy=None):
                    pass
            assert second.value.response.status_code == 429
            with contextlib.suppress(ConnectionClosed):
                while turns < 20:
                    told = await turn(client, make_message("Say hello to all of us"), {"type": "response.create"})
                    turns += 1
            return turns, told, client.close_code

    turns, _, code = asyncio.run(main())
    assert 0 < turns < 20
    assert code == 1008
    body = {"model": "local-chat", "messages": [{"role": "user", "content": "Hi"}]}
    headers = {"authorization": f"Bearer little-{KEY}"}
    after = httpx.post(f"{gateway.url}/v1/chat/completions", json=body, headers=headers, trust_env=False)
    assert (after.status_code, after.json()["error"]["code"]) == (429, "rate_limited")
