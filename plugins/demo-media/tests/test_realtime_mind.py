"""Conversations by voice with the embedded provider: its brain, its voice, and what it hears."""

from __future__ import annotations

import asyncio
import base64
import json
import math
from array import array
from typing import Any

import pytest

from tornado_gate.errors import InvalidField
from tornado_gate.types import RealtimeRequest
from tornado_gate_demo_media.realtime import open_session
from tornado_gate_local.workers import POOL
from tornado_gate_openai.voice import RATE, measure_level

SECONDS = 30


def tone(ms: int, loudness: float = 0.3) -> bytes:
    samples = (round(32_767 * loudness * math.sin(2 * math.pi * 440 * n / RATE)) for n in range(RATE * ms // 1000))
    return array("h", samples).tobytes()


class Caller:
    def __init__(self, make_call: Any, pace_seconds: float = 0.0, **session: Any) -> None:
        request = RealtimeRequest(model="local-realtime", session=session)
        self.session = open_session(make_call(), request, pace_seconds)

    async def send(self, kind: str, **fields: Any) -> None:
        await self.session.send(json.dumps({"type": kind, **fields}))

    async def until(self, kind: str) -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = []
        async with asyncio.timeout(SECONDS):
            while not events or events[-1]["type"] != kind:
                text = await self.session.receive()
                assert text is not None
                events.append(json.loads(text))
        return events

    async def ready(self, **session: Any) -> None:
        quiet = {"audio": {"input": {"turn_detection": None}}}
        await self.send("session.update", session={"type": "realtime", **quiet, **session})
        await self.until("session.updated")

    async def say(self, text: str) -> None:
        item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
        await self.send("conversation.item.create", item=item)
        await self.until("conversation.item.done")

    async def sound(self, pcm: bytes) -> None:
        await self.send("input_audio_buffer.append", audio=base64.b64encode(pcm).decode())
        await self.send("input_audio_buffer.commit")
        await self.until("conversation.item.done")

    async def answered(self, **response: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        await self.send("response.create", response=response)
        events = await self.until("response.done")
        return events, events[-1]["response"]


def words(events: list[dict[str, Any]]) -> str:
    kinds = ("response.output_text.delta", "response.output_audio_transcript.delta")
    return "".join(event["delta"] for event in events if event["type"] in kinds)


def sound(events: list[dict[str, Any]]) -> bytes:
    deltas = [event["delta"] for event in events if event["type"] == "response.output_audio.delta"]
    return b"".join(map(base64.b64decode, deltas))


TEXT_ONLY = {"output_modalities": ["text"]}


@pytest.mark.gen_test
async def test_it_answers_as_local_chat_does(make_call):
    caller = Caller(make_call)
    await caller.ready(**TEXT_ONLY)
    await caller.say("What is 2+2?")
    events, response = await caller.answered()
    assert "4" in words(events)
    assert len([one for one in events if one["type"] == "response.output_text.delta"]) > 1
    usage = response["usage"]
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    assert usage["input_token_details"]["audio_tokens"] == usage["output_token_details"]["audio_tokens"] == 0


@pytest.mark.gen_test
async def test_it_speaks_every_sentence_of_its_answer(make_call):
    caller = Caller(make_call)
    await caller.ready()
    await caller.say("Say: Good morning to you. The sun is up.")
    events, response = await caller.answered()
    assert words(events) == "Good morning to you. The sun is up."
    pcm = sound(events)
    assert 1.5 < len(pcm) / 2 / RATE < 8
    assert measure_level(pcm) > 0.01
    kinds = [event["type"] for event in events]
    first_sound = kinds.index("response.output_audio.delta")
    assert "response.output_audio_transcript.delta" in kinds[first_sound:]  # the second sentence comes behind it
    spoken_tokens = response["usage"]["output_token_details"]["audio_tokens"]
    assert spoken_tokens == math.ceil(len(pcm) / 2 / RATE * 20)


@pytest.mark.gen_test
async def test_it_says_how_long_and_how_loud_a_sound_was(make_call):
    caller = Caller(make_call)
    await caller.ready(**TEXT_ONLY)
    await caller.say("Say hello")
    await caller.answered()
    await caller.sound(tone(1500))
    events, response = await caller.answered()
    assert "1.5 seconds of sound at -13 dB, which is loud" in words(events)
    assert "no words" in words(events)
    assert response["usage"]["input_token_details"]["audio_tokens"] == 15


@pytest.mark.parametrize(("loudness", "told"), [(0.0, "silence"), (0.005, "quiet"), (0.1, "clear"), (0.9, "loud")])
@pytest.mark.gen_test
async def test_loudness_has_a_name(make_call, loudness: float, told: str):
    caller = Caller(make_call)
    await caller.ready(**TEXT_ONLY)
    await caller.sound(tone(3000, loudness))
    events, _ = await caller.answered()
    assert f"which is {told}." in words(events)


@pytest.mark.gen_test
async def test_sound_and_text_together_are_both_answered(make_call):
    caller = Caller(make_call)
    await caller.ready(**TEXT_ONLY)
    await caller.sound(tone(500))
    await caller.say("Say cheese")
    events, _ = await caller.answered()
    assert words(events).startswith("I heard 0.5 seconds of sound")
    assert words(events).endswith("\ncheese")


@pytest.mark.gen_test
async def test_it_calls_a_function_and_tells_what_came_of_it(make_call):
    caller = Caller(make_call)
    weather = {
        "type": "function",
        "name": "get_weather",
        "description": "The weather in a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    }
    await caller.ready(tools=[weather], **TEXT_ONLY)
    await caller.say("What is the weather in Paris?")
    _, response = await caller.answered()
    call = response["output"][0]
    assert (call["type"], call["name"]) == ("function_call", "get_weather")
    assert isinstance(json.loads(call["arguments"])["city"], str)
    output = {"type": "function_call_output", "call_id": call["call_id"], "output": "sunny, 21 degrees"}
    await caller.send("conversation.item.create", item=output)
    events, _ = await caller.answered()
    assert "sunny, 21 degrees" in words(events)
    await caller.sound(tone(300))
    _, response = await caller.answered(tool_choice="required")
    assert response["output"][0]["type"] == "function_call"


@pytest.mark.gen_test
async def test_an_answer_is_cut_at_the_tokens_that_were_allowed(make_call):
    caller = Caller(make_call)
    await caller.ready(**TEXT_ONLY)
    await caller.say("Tell me something long, please")
    _, response = await caller.answered(max_output_tokens=2)
    assert response["status_details"] == {"type": "incomplete", "reason": "max_output_tokens"}


@pytest.mark.gen_test
async def test_cancelling_in_the_middle_of_speech_frees_its_worker(make_call):
    caller = Caller(make_call)
    await caller.ready()
    await caller.say("Say: " + "One sentence after another. " * 40)
    await caller.send("response.create")
    await caller.until("response.output_audio.delta")
    await caller.send("response.cancel")
    response = (await caller.until("response.done"))[-1]["response"]
    assert response["status"] == "cancelled"
    item = response["output"][0]
    await caller.send("conversation.item.truncate", item_id=item["id"], content_index=0, audio_end_ms=100)
    await caller.until("conversation.item.truncated")
    assert await POOL.run(math.sqrt, 4.0) == 2
    await caller.say("Say fine")
    assert words((await caller.answered())[0]) == "fine"


@pytest.mark.gen_test
async def test_a_detected_turn_is_answered_by_voice(make_call):
    caller = Caller(make_call)
    await caller.until("session.created")
    pcm = base64.b64encode(bytes(24_000) + tone(800) + bytes(48_000)).decode()
    await caller.send("input_audio_buffer.append", audio=pcm)
    events = await caller.until("response.done")
    assert [event["type"] for event in events[:3]] == [
        "input_audio_buffer.speech_started",
        "input_audio_buffer.speech_stopped",
        "input_audio_buffer.committed",
    ]
    assert "seconds of sound" in words(events)
    assert measure_level(sound(events)) > 0.01


@pytest.mark.gen_test
async def test_a_voice_that_nobody_has_fails_the_response(make_call):
    caller = Caller(make_call)
    await caller.ready(audio={"input": {"turn_detection": None}, "output": {"voice": "nobody"}})
    _, response = await caller.answered()
    assert response["status"] == "failed"
    error = (await caller.until("error"))[-1]["error"]
    assert error["param"] == "session.audio.output.voice"
    assert "nobody" in error["message"]


@pytest.mark.gen_test
async def test_a_pace_is_kept_between_the_words(make_call):
    caller = Caller(make_call, pace_seconds=60)
    await caller.ready(**TEXT_ONLY)
    await caller.say("Say one two three")
    await caller.send("response.create")
    events = await caller.until("response.output_text.delta")
    assert words(events) == "one"
    await caller.session.close()


def test_a_session_that_cannot_be_is_refused_before_it_begins(make_call):
    with pytest.raises(InvalidField):
        Caller(make_call, prompt={"id": "pmpt_1"})
