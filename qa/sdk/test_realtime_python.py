"""openai-python in conversations by voice: `client.realtime`, `client.beta.realtime`."""

from __future__ import annotations

import asyncio
import base64
import json
import math
import time
from array import array
from collections.abc import Iterator
from typing import Any, Final

import openai
import pytest
from openai.types.realtime import RealtimeFunctionToolParam, RealtimeSessionCreateRequestParam

from qa.sdk import realtime_gateway
from qa.sdk.realtime_gateway import KEY, UPSTREAM_KEY, Stage, joined, send_text, until
from qa.sdk.realtime_script import SOUND, Event, check_shapes
from tests.support.ws_upstream import WsUpstream

stage = realtime_gateway.stage
upstream = realtime_gateway.upstream

WEATHER: RealtimeFunctionToolParam = {
    "type": "function", "name": "get_weather", "description": "The weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}  # fmt: skip
RATE: Final = 24000


@pytest.fixture(params=["voice", "local-realtime"])
def model(request: pytest.FixtureRequest, upstream: WsUpstream) -> str:
    """A model of an upstream, then the embedded one."""
    name: str = request.param
    return name


@pytest.fixture
def client(stage: Stage) -> Iterator[openai.OpenAI]:
    with realtime_gateway.openai_client(stage) as client:
        yield client


def pcm(events: list[Event], kind: str) -> bytes:
    return b"".join(base64.b64decode(event["delta"]) for event in events if event["type"] == kind)


def tone(seconds: float) -> bytes:
    """PCM16 at 24 kHz of a loud hum."""
    wave = (int(12000 * math.sin(2 * math.pi * 220 * place / RATE)) for place in range(int(RATE * seconds)))
    return array("h", wave).tobytes()


# Today's dialect


@pytest.mark.representative
def test_a_turn_in_writing(client: openai.OpenAI, model: str) -> None:
    with client.realtime.connect(model=model) as connection:
        assert until(connection, "session.created")[0]["session"]["type"] == "realtime"
        connection.session.update(
            session={"type": "realtime", "output_modalities": ["text"], "instructions": "Be brief."}
        )
        updated = until(connection, "session.updated")[-1]["session"]
        assert (updated["output_modalities"], updated["instructions"]) == (["text"], "Be brief.")
        send_text(connection, "good morning")
        connection.response.create()
        events = until(connection, "response.done")
    said = joined(events, "response.output_text.delta")
    response = events[-1]["response"]
    assert said
    assert response["output"][0]["content"][0]["text"] == said
    assert response["status"] == "completed"
    assert (
        response["usage"]["total_tokens"] == response["usage"]["input_tokens"] + response["usage"]["output_tokens"] > 0
    )
    if model == "voice":
        assert said == "You said: good morning"


def test_an_answer_by_voice(client: openai.OpenAI, model: str) -> None:
    with client.realtime.connect(model=model) as connection:
        connection.session.update(session={"type": "realtime", "output_modalities": ["audio"]})
        send_text(connection, "good morning")
        connection.response.create()
        events = until(connection, "response.done")
    sound = pcm(events, "response.output_audio.delta")
    said = joined(events, "response.output_audio_transcript.delta")
    (done,) = (event for event in events if event["type"] == "response.output_audio_transcript.done")
    assert said == done["transcript"] != ""
    assert any(event["type"] == "response.output_audio.done" for event in events)
    assert joined(events, "response.output_text.delta") == ""
    if model == "voice":
        assert sound == SOUND
    else:
        samples = array("h", sound)
        assert len(samples) > RATE / 4
        assert max(samples) > 1000


def test_a_question_by_voice(client: openai.OpenAI, model: str) -> None:
    """Without detection of turns the caller says when it has spoken."""
    session: RealtimeSessionCreateRequestParam = {"type": "realtime", "output_modalities": ["text"]}
    session["audio"] = {"input": {"format": {"type": "audio/pcm", "rate": 24000}, "turn_detection": None}}
    sound = tone(0.5)
    with client.realtime.connect(model=model) as connection:
        connection.session.update(session=session)
        for start in range(0, len(sound), 9600):
            connection.input_audio_buffer.append(audio=base64.b64encode(sound[start : start + 9600]).decode())
        connection.input_audio_buffer.commit()
        committed = until(connection, "input_audio_buffer.committed")[-1]
        connection.response.create()
        events = until(connection, "response.done")
    added = [event["item"] for event in events if event["type"] == "conversation.item.added"]
    assert committed["item_id"] == added[0]["id"]
    assert added[0]["content"][0]["type"] == "input_audio"
    said = joined(events, "response.output_text.delta")
    assert said == "You said: a sound" if model == "voice" else "0.5 seconds" in said


def test_the_embedded_model_hears_when_a_turn_ends(client: openai.OpenAI, stage: Stage) -> None:
    session: RealtimeSessionCreateRequestParam = {"type": "realtime", "output_modalities": ["text"]}
    session["audio"] = {"input": {"turn_detection": {"type": "server_vad", "silence_duration_ms": 300}}}
    sound = bytes(RATE) + tone(1) + bytes(RATE * 2)
    with client.realtime.connect(model="local-realtime") as connection:
        connection.session.update(session=session)
        for start in range(0, len(sound), 9600):
            connection.input_audio_buffer.append(audio=base64.b64encode(sound[start : start + 9600]).decode())
        kinds = [event["type"] for event in until(connection, "response.done")]
    heard = ["input_audio_buffer.speech_started", "input_audio_buffer.speech_stopped", "input_audio_buffer.committed"]
    assert [kind for kind in kinds if kind.startswith("input_audio_buffer.")] == heard
    assert kinds.index("input_audio_buffer.committed") < kinds.index("response.created")


def test_a_tool_is_called_and_its_result_answered(client: openai.OpenAI, model: str) -> None:
    with client.realtime.connect(model=model) as connection:
        connection.session.update(
            session={"type": "realtime", "output_modalities": ["text"], "tools": [WEATHER], "tool_choice": "auto"}
        )
        send_text(connection, "What is the weather in Paris?")
        connection.response.create()
        events = until(connection, "response.done")
        (called,) = (event for event in events if event["type"] == "response.function_call_arguments.done")
        assert called["arguments"] == joined(events, "response.function_call_arguments.delta")
        assert "city" in json.loads(called["arguments"])
        (item,) = events[-1]["response"]["output"]
        assert (item["type"], item["name"], item["call_id"]) == ("function_call", "get_weather", called["call_id"])
        connection.conversation.item.create(
            item={"type": "function_call_output", "call_id": called["call_id"], "output": '{"output": "18 degrees"}'}
        )
        connection.response.create()
        events = until(connection, "response.done")
    assert "18 degrees" in joined(events, "response.output_text.delta")
    assert events[-1]["response"]["output"][0]["type"] == "message"


def test_an_answer_is_cancelled_and_the_next_one_comes(client: openai.OpenAI, stage: Stage) -> None:
    with client.realtime.connect(model="slow-realtime") as connection:
        connection.session.update(session={"type": "realtime", "output_modalities": ["text"]})
        send_text(connection, "one two three four five six seven eight nine ten " * 20)
        connection.response.create()
        until(connection, "response.output_text.delta")
        began = time.monotonic()
        connection.response.cancel()
        cancelled = until(connection, "response.done")[-1]["response"]
        assert (cancelled["status"], time.monotonic() - began < 2) == ("cancelled", True)
        send_text(connection, "short")
        connection.response.create()
        assert until(connection, "response.done")[-1]["response"]["status"] == "completed"


def test_the_upstream_gets_its_own_key_and_name_and_what_was_sent(
    client: openai.OpenAI, stage: Stage, upstream: WsUpstream
) -> None:
    with client.realtime.connect(model="voice", extra_query={"unknown": "1"}) as connection:
        until(connection, "session.created")
        connection.send({"type": "response.create", "response": {"metadata": {"of": "mine"}}})
        until(connection, "response.done")
    assert stage.told_upstream() == [{"type": "response.create", "response": {"metadata": {"of": "mine"}}}]
    assert upstream.headers[0]["authorization"] == f"Bearer {UPSTREAM_KEY}"
    assert upstream.uris[0].startswith("/v1/realtime?model=gpt-realtime")
    assert KEY not in json.dumps([upstream.headers, upstream.uris])


def test_the_asynchronous_client_leads_a_conversation(stage: Stage, model: str) -> None:
    async def main() -> list[Event]:
        async with (
            openai.AsyncOpenAI(base_url=stage.base_url, api_key=KEY, max_retries=0) as client,
            client.realtime.connect(model=model) as connection,
        ):
            await connection.session.update(session={"type": "realtime", "output_modalities": ["text"]})
            item: Any = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "good morning"}]}
            await connection.conversation.item.create(item=item)
            await connection.response.create()
            events = []
            async for event in connection:
                events.append(event.to_dict())
                if event.type == "response.done":
                    break
            return events

    events = asyncio.run(asyncio.wait_for(main(), 60))
    check_shapes(events, "current")
    assert joined(events, "response.output_text.delta")


def test_handlers_are_called_until_the_session_ends(stage: Stage, model: str) -> None:
    """`dispatch_events` ends when the gateway has agreed to close."""
    words: list[str] = []

    async def main() -> None:
        async with (
            openai.AsyncOpenAI(base_url=stage.base_url, api_key=KEY, max_retries=0) as client,
            client.realtime.connect(model=model) as connection,
        ):
            connection.on("response.output_text.delta", lambda event: words.append(event.delta))

            connection.on("response.done", lambda event: connection.close())
            await connection.response.create(response={"output_modalities": ["text"], "instructions": "Say hello."})
            await connection.dispatch_events()

    asyncio.run(asyncio.wait_for(main(), 60))
    assert "".join(words)


def test_many_sessions_at_once_keep_apart(stage: Stage) -> None:
    async def one(client: openai.AsyncOpenAI, word: str) -> str:
        async with client.realtime.connect(model="local-realtime") as connection:
            await connection.session.update(session={"type": "realtime", "output_modalities": ["text"]})
            item: Any = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": word}]}
            await connection.conversation.item.create(item=item)
            await connection.response.create()
            async for event in connection:
                if event.type == "response.done":
                    (said,) = event.response.output or []
                    return json.dumps(said.to_dict())
        return ""

    async def main() -> dict[str, str]:
        words = [f"word{number:02}" for number in range(20)]
        async with openai.AsyncOpenAI(base_url=stage.base_url, api_key=KEY, max_retries=0) as client:
            said = await asyncio.gather(*(one(client, word) for word in words))
        return dict(zip(words, said, strict=True))

    answers = asyncio.run(asyncio.wait_for(main(), 40))
    for word, said in answers.items():
        assert [other for other in answers if other in said] == [word]


def test_a_session_opens_on_a_connection_that_another_request_left_open(
    client: openai.OpenAI, upstream: WsUpstream
) -> None:
    """The upstream has no chat; what it says of that leaves its connection in the pool."""
    with pytest.raises(openai.APIStatusError):
        client.chat.completions.create(model="voice", messages=[{"role": "user", "content": "hello"}])
    with client.realtime.connect(model="voice") as connection:
        assert until(connection, "session.created")
    assert len(upstream.connections) == 1


# The dialect before


def test_a_beta_client_has_a_turn_in_writing(client: openai.OpenAI, model: str) -> None:
    with client.beta.realtime.connect(model=model) as connection:
        created = until(connection, "session.created")[0]["session"]
        assert "modalities" in created
        connection.session.update(session={"modalities": ["text"], "instructions": "Be brief."})
        assert until(connection, "session.updated")[-1]["session"]["modalities"] == ["text"]
        send_text(connection, "good morning")
        connection.response.create()
        events = until(connection, "response.done")
    said = joined(events, "response.text.delta")
    assert said
    assert events[-1]["response"]["output"][0]["content"] == [{"type": "text", "text": said}]
    kinds = [event["type"] for event in events]
    assert kinds.count("conversation.item.created") == 2
    assert "response.output_text.delta" not in kinds


def test_a_beta_client_talks(client: openai.OpenAI, model: str) -> None:
    with client.beta.realtime.connect(model=model) as connection:
        connection.session.update(
            session={"modalities": ["text", "audio"], "voice": "alloy", "input_audio_format": "pcm16"}
        )
        connection.input_audio_buffer.append(audio=base64.b64encode(tone(0.5)).decode())
        connection.input_audio_buffer.commit()
        connection.response.create()
        events = until(connection, "response.done")
    assert len(pcm(events, "response.audio.delta")) > 2000
    assert joined(events, "response.audio_transcript.delta")
    (part,) = events[-1]["response"]["output"][0]["content"]
    assert (part["type"], bool(part["transcript"])) == ("audio", True)


def test_a_beta_client_has_its_tool_called(client: openai.OpenAI, model: str) -> None:
    with client.beta.realtime.connect(model=model) as connection:
        tool: Any = WEATHER
        connection.session.update(session={"modalities": ["text"], "tools": [tool], "tool_choice": "auto"})
        send_text(connection, "What is the weather in Paris?")
        connection.response.create()
        events = until(connection, "response.done")
        (item,) = events[-1]["response"]["output"]
        assert (item["type"], item["name"]) == ("function_call", "get_weather")
        output: Any = {"type": "function_call_output", "call_id": item["call_id"], "output": '{"output": "18 degrees"}'}
        connection.conversation.item.create(item=output)
        connection.response.create()
        events = until(connection, "response.done")
    assert "18 degrees" in joined(events, "response.text.delta")
