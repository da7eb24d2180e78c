"""openai for Node in conversations by voice: its clients over `ws` and over the WebSocket of the platform, of both dialects."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from qa.sdk import realtime_gateway
from qa.sdk.realtime_gateway import KEY, UPSTREAM_KEY, Stage, joined
from qa.sdk.realtime_script import SOUND, Event, check_shapes
from tests.support.node import run_script
from tests.support.ws_upstream import WsUpstream

stage = realtime_gateway.stage
upstream = realtime_gateway.upstream

CLIENTS = ["ws", "websocket", "beta-ws", "beta-websocket"]
UPDATED = {
    "current": {"type": "realtime", "output_modalities": ["text"]},
    "beta": {"modalities": ["text"], "turn_detection": None},
}
ANSWER: dict[str, Event] = {"current": {"output_modalities": ["text"]}, "beta": {"modalities": ["text"]}}
SPOKEN: dict[str, Event] = {"current": {"output_modalities": ["audio"]}, "beta": {"modalities": ["text", "audio"]}}
NAMES = {
    "current": ("response.output_text.delta", "response.output_audio.delta", "response.output_audio_transcript.delta"),
    "beta": ("response.text.delta", "response.audio.delta", "response.audio_transcript.delta"),
}


def dialect_of(client: str) -> str:
    return "beta" if client.startswith("beta") else "current"


def run(stage: Stage, client: str, model: str, steps: list[Any], key: str = KEY, **options: Any) -> Any:
    environment = {"NODE_EXTRA_CA_CERTS": str(stage.certificate), "NO_PROXY": "site.test", "no_proxy": "site.test"}
    given = json.dumps({"steps": steps, **options})
    return run_script("realtime.mjs", stage.secure_url, key, model, client, given, environment=environment)


def turn(dialect: str, text: str, response: Event) -> list[Any]:
    """The steps of one turn, from the session's beginning."""
    content = [{"type": "input_text", "text": text}]
    return [
        "session.created",
        {"type": "session.update", "session": UPDATED[dialect]},
        "session.updated",
        {"type": "conversation.item.create", "item": {"type": "message", "role": "user", "content": content}},
        "conversation.item.done" if dialect == "current" else "conversation.item.created",
        {"type": "response.create", "response": response},
        "response.done",
    ]


def after_update(events: list[Event]) -> list[Event]:
    """The events once the caller has said which dialect it speaks."""
    return events[[event["type"] for event in events].index("session.updated") :]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_turn_in_writing_with_an_upstream(stage: Stage, upstream: WsUpstream, client: str) -> None:
    dialect = dialect_of(client)
    result = run(stage, client, "voice", turn(dialect, "good morning", ANSWER[dialect]))
    assert result["errors"] == []
    assert result["events"][0]["type"] == "session.created"
    events = after_update(result["events"])
    check_shapes(events, dialect)
    assert joined(events, NAMES[dialect][0]) == "You said: good morning"
    assert events[-1]["response"]["usage"]["total_tokens"] == 30
    assert upstream.headers[0]["authorization"] == f"Bearer {UPSTREAM_KEY}"
    assert KEY not in json.dumps(upstream.headers) + json.dumps(upstream.uris)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_turn_by_voice_with_an_upstream(stage: Stage, upstream: WsUpstream, client: str) -> None:
    dialect = dialect_of(client)
    result = run(stage, client, "voice", turn(dialect, "good morning", SPOKEN[dialect]))
    events = after_update(result["events"])
    check_shapes(events, dialect)
    _, sound, transcript = NAMES[dialect]
    pieces = [base64.b64decode(event["delta"]) for event in events if event["type"] == sound]
    assert b"".join(pieces) == SOUND
    assert joined(events, transcript) == "You said: good morning"


@pytest.mark.parametrize("client", CLIENTS)
def test_a_turn_with_the_embedded_model(stage: Stage, client: str) -> None:
    dialect = dialect_of(client)
    result = run(stage, client, "local-realtime", turn(dialect, "good morning", ANSWER[dialect]))
    assert result["errors"] == []
    events = after_update(result["events"])
    check_shapes(events, dialect)
    said = joined(events, NAMES[dialect][0])
    assert said
    done = events[-1]["response"]
    assert (done["status"], done["output"][0]["content"][0]["text"]) == ("completed", said)


@pytest.mark.parametrize("client", ["ws", "beta-ws", "beta-websocket"])
def test_the_first_event_is_of_the_dialect_that_the_client_names(
    stage: Stage, upstream: WsUpstream, client: str
) -> None:
    result = run(stage, client, "voice", ["session.created"])
    (created,) = result["events"]
    check_shapes([created], dialect_of(client))
    assert ("modalities" in created["session"]) == client.startswith("beta")


@pytest.mark.parametrize("client", ["websocket", "beta-websocket"])
def test_a_client_whose_key_is_a_subprotocol_gets_back_only_realtime(
    stage: Stage, upstream: WsUpstream, client: str
) -> None:
    result = run(stage, client, "voice", ["session.created"])
    assert result["protocol"] == "realtime"
    assert KEY not in json.dumps(upstream.headers)


@pytest.mark.parametrize("client", ["ws", "websocket"])
def test_a_session_is_opened_with_a_client_secret(stage: Stage, upstream: WsUpstream, client: str) -> None:
    secret = {
        "session": {"type": "realtime", "model": "voice"},
        "expires_after": {"anchor": "created_at", "seconds": 60},
    }
    result = run(stage, client, "voice", turn("current", "with a secret", ANSWER["current"]), secret=secret)
    assert result["made"]["value"].startswith("ek_")
    assert result["made"]["session"]["model"] == "voice"
    assert joined(result["events"], "response.output_text.delta") == "You said: with a secret"
    assert result["made"]["value"] not in json.dumps(upstream.headers)


def test_a_client_secret_for_a_model_that_is_not_there_is_404(stage: Stage) -> None:
    result = run(stage, "ws", "no-such", [], secret={"session": {"type": "realtime", "model": "no-such"}})
    failure = result["failure"]
    assert (failure["name"], failure["status"], failure["code"]) == ("NotFoundError", 404, "model_not_found")


REFUSALS = [("no-such", KEY, 404), ("voice", "wrong-key", 401), ("local-chat", KEY, 400)]


@pytest.mark.parametrize("client", ["ws", "beta-ws"])
@pytest.mark.parametrize(("model", "key", "status"), REFUSALS, ids=[str(status) for _, _, status in REFUSALS])
def test_a_refused_handshake_is_an_error_with_its_status(
    stage: Stage, upstream: WsUpstream, client: str, model: str, key: str, status: int
) -> None:
    result = run(stage, client, model, ["session.created"], key=key)
    assert result["events"] == []
    assert [error["name"] for error in result["errors"]] == ["OpenAIRealtimeError"]
    assert result["errors"][0]["message"].endswith(f": {status}")
    assert upstream.connections == []


@pytest.mark.parametrize("client", ["websocket", "beta-websocket"])
def test_a_platforms_websocket_that_is_refused_gets_an_error_and_no_event(stage: Stage, client: str) -> None:
    result = run(stage, client, "no-such", ["session.created"])
    assert result["events"] == []
    assert [error["name"] for error in result["errors"]] == ["OpenAIRealtimeError"]


def test_what_the_embedded_model_finds_wrong_is_an_error_event_and_the_session_lives(stage: Stage) -> None:
    bad = {
        "type": "session.update",
        "event_id": "mine",
        "session": {"type": "realtime", "output_modalities": ["smell"]},
    }
    steps = ["session.created", bad, "error", *turn("current", "still there?", ANSWER["current"])[1:]]
    result = run(stage, "ws", "local-realtime", steps)
    (error,) = result["errors"]
    assert error["name"] == "OpenAIRealtimeError"
    assert error["error"]["event_id"] == "mine"
    assert error["error"]["param"].startswith("session.output_modalities")
    assert joined(result["events"], "response.output_text.delta")
