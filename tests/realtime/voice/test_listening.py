"""What a caller says: the buffer, the detection of turns, transcripts."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest

from tests.realtime.voice.sessions import SPOKEN, TEXT_ONLY, Client, ScriptedMind, b64, silence, tone, types
from tornado_gate.errors import UpstreamOverloaded
from tornado_gate_openai.voice import AudioPiece, SessionLimits, TextPiece, Transcript, measure_level

VAD = {"type": "server_vad", "threshold": 0.5, "prefix_padding_ms": 200, "silence_duration_ms": 400}


def detecting(**changes: Any) -> dict[str, Any]:
    return {"input": {"turn_detection": {**VAD, **changes}}}


@pytest.mark.gen_test
async def test_a_commit_makes_an_item_of_the_sound():
    mind = ScriptedMind(TextPiece("Yes."))
    client = Client(mind)
    await client.ready(**TEXT_ONLY)
    before = await client.say("first")
    await client.append(tone(150))
    await client.append(tone(150))
    await client.send("input_audio_buffer.commit")
    events = await client.until("conversation.item.done")
    assert types(events) == ["input_audio_buffer.committed", "conversation.item.added", "conversation.item.done"]
    assert [event["previous_item_id"] for event in events] == [before] * 3
    item = events[1]["item"]
    assert events[0]["item_id"] == item["id"]
    assert item["content"] == [{"type": "input_audio", "transcript": None}]
    assert mind.sounds == []  # nobody has asked for words yet
    await client.answered()
    heard = mind.turns[0].items[1].parts[0]
    assert (heard.transcript, bytes(heard.pcm), heard.seconds) == ("hello", tone(150) * 2, 0.3)
    await client.answered()
    assert len(mind.sounds) == 1


@pytest.mark.parametrize("ms", [0, 99])
@pytest.mark.gen_test
async def test_a_commit_of_next_to_nothing_is_an_error(ms: int):
    client = Client(ScriptedMind())
    await client.ready()
    await client.append(tone(ms))
    await client.send("input_audio_buffer.commit", event_id="mine")
    error = await client.error()
    assert (error["code"], error["event_id"]) == ("input_audio_buffer_commit_empty", "mine")


@pytest.mark.gen_test
async def test_a_cleared_buffer_is_empty():
    client = Client(ScriptedMind())
    await client.ready()
    await client.append(tone(500))
    await client.send("input_audio_buffer.clear")
    assert (await client.next())["type"] == "input_audio_buffer.cleared"
    await client.send("input_audio_buffer.commit")
    assert (await client.error())["code"] == "input_audio_buffer_commit_empty"


@pytest.mark.gen_test
async def test_the_buffer_is_bounded_and_a_refused_append_leaves_it_as_it_was():
    client = Client(ScriptedMind(), limits=SessionLimits(input_buffer=48_000))
    await client.ready()
    await client.append(tone(900))
    await client.append(tone(200))
    assert (await client.error())["code"] == "input_audio_buffer_full"
    await client.append(tone(100))
    await client.send("input_audio_buffer.commit")
    await client.event("conversation.item.done")
    assert next(iter(client.session.conversation)).parts[0].seconds == 1.0


@pytest.mark.gen_test
async def test_telephone_sound_becomes_pcm():
    client = Client(ScriptedMind())
    await client.ready(audio={"input": {"turn_detection": None, "format": {"type": "audio/pcma"}}})
    await client.send("input_audio_buffer.append", audio=b64(bytes([0xD5]) * 4001))
    await client.send("input_audio_buffer.commit")
    await client.event("conversation.item.done")
    sound = next(iter(client.session.conversation)).parts[0]
    assert sound.length == 4001 * 6
    assert measure_level(bytes(sound.pcm)) < 0.001


@pytest.mark.gen_test
async def test_a_turn_is_detected_committed_and_answered():
    mind = ScriptedMind(*SPOKEN)
    client = Client(mind)
    await client.ready(audio=detecting())
    sound = silence(1000) + tone(700) + silence(700)
    for start in range(0, len(sound), 1234):
        await client.append(sound[start : start + 1234])
    events = await client.until("response.done")
    assert types(events)[:5] == [
        "input_audio_buffer.speech_started",
        "input_audio_buffer.speech_stopped",
        "input_audio_buffer.committed",
        "conversation.item.added",
        "conversation.item.done",
    ]
    assert types(events)[5] == "response.created"
    started, stopped, committed, added = events[:4]
    assert 780 <= started["audio_start_ms"] <= 820  # 200 ms before it was heard
    assert 2080 <= stopped["audio_end_ms"] <= 2140  # 400 ms after
    assert {started["item_id"], stopped["item_id"], committed["item_id"]} == {added["item"]["id"]}
    heard = mind.sounds[0]
    assert 1.26 <= heard.seconds <= 1.36
    assert mind.turns[0].items[0].parts[0].transcript == "hello"


@pytest.mark.gen_test
async def test_two_turns_in_one_append_are_two_items():
    client = Client(ScriptedMind())
    await client.ready(audio=detecting(create_response=False))
    await client.append((silence(300) + tone(400) + silence(600)) * 2)
    events = await client.drained()
    assert [one["type"] for one in events].count("input_audio_buffer.committed") == 2
    assert not [one for one in events if one["type"].startswith("response.")]
    first, second = client.session.conversation
    assert first.parts[0].seconds == pytest.approx(second.parts[0].seconds, abs=0.1)


@pytest.mark.gen_test
async def test_silence_and_a_steady_hum_are_no_speech_and_take_no_memory():
    client = Client(ScriptedMind())
    await client.ready(audio=detecting())
    for _ in range(40):
        await client.append(silence(500) + tone(500, loudness=0.012))
    assert await client.drained() == []
    await client.send("input_audio_buffer.commit")
    await client.event("conversation.item.done")
    assert next(iter(client.session.conversation)).parts[0].seconds <= 30


@pytest.mark.parametrize("interrupts", [True, False])
@pytest.mark.gen_test
async def test_speech_interrupts_an_answer_when_the_session_says_so(interrupts: bool):
    never = asyncio.Event()
    mind = ScriptedMind(TextPiece("I was saying"), AudioPiece(tone(100)), never)
    client = Client(mind)
    await client.ready(audio=detecting(interrupt_response=interrupts, create_response=False))
    await client.send("response.create")
    await client.event("response.output_audio.delta")
    await client.append(tone(300))
    events = await client.drained()
    assert events[0]["type"] == "input_audio_buffer.speech_started"
    assert ("response.done" in types(events)) is interrupts
    if interrupts:
        response = events[-1]["response"]
        assert response["status_details"] == {"type": "cancelled", "reason": "turn_detected"}
    await client.session.close()


@pytest.mark.gen_test
async def test_a_turn_that_ends_while_an_answer_runs_on_is_an_item_and_an_error():
    client = Client(ScriptedMind(asyncio.Event()))
    await client.ready(audio=detecting(interrupt_response=False))
    await client.send("response.create")
    await client.next()
    await client.append(tone(300) + silence(500))
    events = await client.drained()
    assert types(events)[-2:] == ["conversation.item.done", "error"]
    assert events[-1]["error"]["code"] == "conversation_already_has_active_response"
    await client.session.close()


@pytest.mark.gen_test
async def test_a_commit_in_the_middle_of_speech_keeps_the_id_that_was_told():
    client = Client(ScriptedMind())
    await client.ready(audio=detecting())
    await client.append(tone(300))
    started = await client.next()
    await client.send("input_audio_buffer.commit")
    assert (await client.next())["item_id"] == started["item_id"]
    await client.append(silence(600))
    assert [one["type"] for one in await client.drained()] == ["conversation.item.added", "conversation.item.done"]


@pytest.mark.gen_test
async def test_semantic_detection_waits_as_long_as_its_eagerness_says():
    client = Client(ScriptedMind())
    detection = {"type": "semantic_vad", "eagerness": "low", "create_response": False}
    await client.ready(audio={"input": {"turn_detection": detection}})
    await client.append(tone(300) + silence(1000))
    assert [one["type"] for one in await client.drained()] == ["input_audio_buffer.speech_started"]
    await client.append(silence(300))
    assert (await client.next())["type"] == "input_audio_buffer.speech_stopped"


@pytest.mark.gen_test
async def test_a_timeout_that_cannot_be_kept_is_refused():
    client = Client(ScriptedMind())
    await client.event("session.created")
    await client.send("session.update", session={"type": "realtime", "audio": detecting(idle_timeout_ms=6000)})
    assert (await client.error())["param"] == "session.audio.input.turn_detection.idle_timeout_ms"


@pytest.mark.gen_test
async def test_a_transcript_is_told_when_the_session_asks_for_it():
    client = Client(ScriptedMind(words="good morning"))
    await client.ready(audio={"input": {"turn_detection": None, "transcription": {"model": "any", "language": "en"}}})
    await client.append(tone(500))
    await client.send("input_audio_buffer.commit")
    told = await client.event("conversation.item.input_audio_transcription.completed")
    assert (told["transcript"], told["content_index"]) == ("good morning", 0)
    assert told["usage"] == {"type": "duration", "seconds": 0.5}
    await client.send("conversation.item.retrieve", item_id=told["item_id"])
    part = (await client.next())["item"]["content"][0]
    assert part["transcript"] == "good morning"
    assert base64.b64decode(part["audio"]) == tone(500)


@pytest.mark.parametrize("transcribes", [True, False])
@pytest.mark.gen_test
async def test_a_sound_that_could_not_be_transcribed_fails_one_response(transcribes: bool):
    mind = ScriptedMind(TextPiece("ok"), words=UpstreamOverloaded("Busy."))
    client = Client(mind)
    wanted = {"model": "any"} if transcribes else None
    await client.ready(**TEXT_ONLY, audio={"input": {"turn_detection": None, "transcription": wanted}})
    await client.append(tone(500))
    await client.send("input_audio_buffer.commit")
    response = await client.answered()
    told = [one for one in client.seen if one["type"].endswith("transcription.failed")]
    assert [one["error"]["code"] for one in told] == ["upstream_overloaded"] * transcribes
    assert response["status_details"]["error"]["code"] == "upstream_overloaded"
    assert (await client.error())["code"] == "upstream_overloaded"
    assert mind.turns == []
    assert (await client.answered())["status"] == "completed"
    assert mind.turns[0].items[0].parts[0].transcript is None


@pytest.mark.gen_test
async def test_a_mind_that_hears_no_words_says_so_once_and_answers():
    client = Client(ScriptedMind(TextPiece("Hm."), words=None))
    await client.ready(**TEXT_ONLY, audio={"input": {"turn_detection": None, "transcription": {"model": "any"}}})
    await client.append(tone(500))
    await client.send("input_audio_buffer.commit")
    failed = await client.event("conversation.item.input_audio_transcription.failed")
    assert failed["error"]["code"] == "transcription_not_supported"
    assert (await client.answered())["status"] == "completed"


@pytest.mark.gen_test
async def test_a_deaf_mind_refuses_sound_once_and_takes_text():
    client = Client(ScriptedMind(TextPiece("Hi."), accepts_audio=False))
    await client.ready(**TEXT_ONLY)
    for _ in range(3):
        await client.append(tone(100))
    assert (await client.error())["code"] == "audio_input_not_supported"
    await client.send("input_audio_buffer.commit")
    assert (await client.error())["code"] == "audio_input_not_supported"
    item = {"type": "message", "role": "user", "content": [{"type": "input_audio", "audio": b64(tone(100))}]}
    await client.send("conversation.item.create", item=item)
    assert (await client.error())["param"] == "item.content.0"
    await client.say("text")
    assert (await client.answered())["status"] == "completed"


class SlowEars(ScriptedMind):
    """Listens until it is told to stop, and counts how many do at a time."""

    def __init__(self) -> None:
        super().__init__(TextPiece("ok"))
        self.go = asyncio.Event()
        self.listening = self.most = 0

    async def transcribe(self, sound: Any, language: str | None, prompt: str | None) -> Transcript | None:
        self.listening += 1
        self.most = max(self.most, self.listening)
        try:
            await self.go.wait()
        finally:
            self.listening -= 1
        return Transcript(text="late")


@pytest.mark.gen_test
async def test_an_answer_waits_for_the_words_and_can_be_cancelled_meanwhile():
    mind = SlowEars()
    client = Client(mind)
    await client.ready(**TEXT_ONLY)
    for _ in range(4):
        await client.append(tone(200))
        await client.send("input_audio_buffer.commit")
        await client.event("conversation.item.done")
    await client.send("response.create")
    await client.event("response.created")
    await client.send("response.cancel")
    assert (await client.event("response.done"))["response"]["status"] == "cancelled"
    assert mind.turns == []
    mind.go.set()
    await client.answered()
    assert [item.parts[0].transcript for item in mind.turns[0].items] == ["late"] * 4
    assert mind.most == 2


@pytest.mark.gen_test
async def test_nobody_listens_to_an_item_that_was_deleted():
    mind = SlowEars()
    client = Client(mind)
    await client.ready(audio={"input": {"turn_detection": None, "transcription": {"model": "any"}}})
    await client.append(tone(200))
    await client.send("input_audio_buffer.commit")
    item_id = (await client.event("conversation.item.done"))["item"]["id"]
    await client.drained()
    assert mind.listening == 1
    await client.send("conversation.item.delete", item_id=item_id)
    await client.drained()
    assert mind.listening == 0
    assert (await client.answered())["status"] == "completed"
