"""Sessions with three models: the requests to each, the order of the caller's events, and failures."""

from __future__ import annotations

import asyncio
import base64
import io
import wave

import pytest
from cascade_models import ALL, SOUND_OF_A_LETTER, Caller, FakeInner, called, joined, kinds, said

from tornado_gate.errors import NotAllowed, UpstreamOverloaded, UpstreamTimeout
from tornado_gate.types import (
    ChatRequest,
    SpeechRequest,
    StreamError,
    Text,
    ToolCall,
    ToolResult,
    TranscriptionRequest,
    replace,
)
from tornado_gate_cascade.speaking import MAX_CONCURRENT
from tornado_gate_cascade.voice_model import INAUDIBLE_TEXT, CascadeModels

LOUD = b"\x00\x20\x00\xe0" * 6000
"""500 ms."""


async def spoken(caller: Caller, pcm: bytes = LOUD) -> None:
    await caller.send("input_audio_buffer.append", audio=base64.b64encode(pcm).decode())
    await caller.send("input_audio_buffer.commit")
    await caller.until("conversation.item.done")


@pytest.mark.gen_test
async def test_a_turn_by_voice_goes_through_all_three():
    inner = FakeInner(said("Good day. ", "How are you?"))
    caller = Caller(inner)
    await caller.ready(instructions="Be kind.", hearing={"transcription": {"model": "x", "language": "en"}})
    await spoken(caller)
    transcribed = (await caller.until("conversation.item.input_audio_transcription.completed"))[-1]
    assert transcribed["transcript"] == "what was said"
    assert transcribed["usage"] == {"type": "tokens", "input_tokens": 5, "output_tokens": 2, "total_tokens": 7}
    events = await caller.answered()
    assert kinds(events) == [
        "response.created",
        "response.output_item.added",
        "conversation.item.added",
        "response.content_part.added",
        "response.output_audio_transcript.delta",
        "response.output_audio.delta",
        "response.output_audio_transcript.delta",
        "response.output_audio.delta",
        "response.output_audio.done",
        "response.output_audio_transcript.done",
        "response.content_part.done",
        "response.output_item.done",
        "conversation.item.done",
        "response.done",
    ]
    sound = [base64.b64decode(item["delta"]) for item in events if item["type"] == "response.output_audio.delta"]
    assert b"".join(sound) == SOUND_OF_A_LETTER * len("Good day.How are you?")
    assert joined(events, "response.output_audio_transcript.delta") == "Good day. How are you?"
    usage = events[-1]["response"]["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]) == (11, 4, 15)
    ears, chat, *speech = inner.requests
    assert isinstance(ears, TranscriptionRequest)
    assert (ears.model, ears.language, ears.audio.media_type) == ("the-ears", "en", "audio/wav")
    with wave.open(io.BytesIO(base64.b64decode(ears.audio.base64))) as file:
        assert file.readframes(100_000) == LOUD
    assert (chat.model, chat.stream, [item.role for item in chat.messages]) == ("the-chat", True, ["system", "user"])
    assert chat.messages[1].parts == (Text(text="what was said"),)
    assert [(item.text, item.voice, item.format, item.stream) for item in speech] == [
        ("Good day.", "onyx", "pcm", True),
        ("How are you?", "onyx", "pcm", True),
    ]
    assert inner.open == 0


@pytest.mark.gen_test
async def test_the_first_sentence_is_heard_while_the_chat_still_writes():
    more = asyncio.Event()
    inner = FakeInner(said("One. T", more, "wo."))
    caller = Caller(inner)
    await caller.ready()
    await caller.send("response.create")
    events = await caller.until("response.output_audio.delta")
    assert joined(events, "response.output_audio_transcript.delta") == "One. T"
    assert inner.log == ["speech began: One."]
    more.set()
    await caller.until("response.done")
    assert inner.log == ["speech began: One.", "chat ended", "speech began: Two."]


@pytest.mark.gen_test
async def test_the_next_sentence_is_made_meanwhile_and_heard_in_its_turn():
    inner = FakeInner(said("A one. B two. C three. D four. ", "E five."))
    go = inner.hold["A one."] = asyncio.Event()
    caller = Caller(inner)
    await caller.ready()
    await caller.send("response.create")
    for _ in range(50):
        await asyncio.sleep(0)
    assert len(inner.log) == MAX_CONCURRENT
    go.set()
    events = await caller.until("response.done")
    spoken_sentences = [item.text for item in inner.asked(SpeechRequest)]
    assert spoken_sentences == ["A one.", "B two.", "C three.", "D four.", "E five."]
    sound = [base64.b64decode(item["delta"]) for item in events if item["type"] == "response.output_audio.delta"]
    assert len(b"".join(sound)) == len(SOUND_OF_A_LETTER) * len("".join(spoken_sentences))


@pytest.mark.gen_test
async def test_text_alone_is_not_spoken():
    inner = FakeInner(said("Good ", "day."))
    caller = Caller(inner)
    await caller.ready(output_modalities=["text"])
    await caller.say("Hi")
    events = await caller.answered()
    assert joined(events, "response.output_text.delta") == "Good day."
    assert inner.asked(SpeechRequest) == []


@pytest.mark.gen_test
async def test_marks_of_markdown_are_not_read_aloud():
    inner = FakeInner(said("**Very** `good`.\n\n# End\n", "***\n"))
    caller = Caller(inner)
    await caller.ready()
    await caller.answered()
    assert [request.text for request in inner.asked(SpeechRequest)] == ["Very good.", "End"]


@pytest.mark.parametrize("modality", ["text", "audio"])
@pytest.mark.gen_test
async def test_functions_go_round(modality: str):
    inner = FakeInner(called(("call_1", "look", '{"at": "sky"}'), ("call_2", "listen", "{}")))
    caller = Caller(inner)
    tool = {"type": "function", "name": "look", "description": "Looks.", "parameters": {"type": "object"}}
    await caller.ready(tools=[tool], tool_choice="required", output_modalities=[modality])
    await caller.say("What is up there?")
    events = await caller.answered()
    done = [event for event in events if event["type"] == "response.function_call_arguments.done"]
    assert [(event["call_id"], event["name"], event["arguments"]) for event in done] == [
        ("call_1", "look", '{"at": "sky"}'),
        ("call_2", "listen", "{}"),
    ]
    request = inner.asked(ChatRequest)[0]
    assert (request.tools[0].name, request.tools[0].parameters) == ("look", {"type": "object"})
    assert request.tool_choice.mode == "required"
    inner.chat = said("Blue.")
    item = {"type": "function_call_output", "call_id": "call_1", "output": "blue"}
    await caller.send("conversation.item.create", item=item)
    await caller.answered()
    user, calls, *results = inner.asked(ChatRequest)[1].messages
    assert [part.id for part in calls.parts if isinstance(part, ToolCall)] == ["call_1", "call_2"]
    assert [part.call_id for event in results for part in event.parts if isinstance(part, ToolResult)] == [
        "call_1",
        "call_2",
    ]
    assert user.role == "user"


@pytest.mark.gen_test
async def test_what_is_said_before_a_call_is_spoken_before_it():
    text, call = said("Let me see"), called(("c", "look", "{}"))
    inner = FakeInner([*text[:-2], *(replace(step, index=5) for step in call[4:-1]), call[-1]])
    caller = Caller(inner)
    await caller.ready()
    events = await caller.answered()
    order = kinds(events)
    assert order.index("response.output_audio.done") < order.index("response.function_call_arguments.done")
    assert [item.text for item in inner.asked(SpeechRequest)] == ["Let me see"]
    assert [item["type"] for item in events[-1]["response"]["output"]] == ["message", "function_call"]


@pytest.mark.parametrize("moment", ["chat", "speech"])
@pytest.mark.gen_test
async def test_cancelling_ends_all_stages_at_once(moment: str):
    never = asyncio.Event()
    inner = FakeInner(said("One. Two. Three. ", never) if moment == "chat" else said("One. Two. Three."))
    inner.hold["One."] = never
    caller = Caller(inner)
    await caller.ready()
    await caller.send("response.create")
    await caller.until("response.output_audio.delta")
    assert inner.open >= 1
    await caller.send("response.cancel")
    assert inner.open == 0
    response = (await caller.until("response.done"))[-1]["response"]
    assert (response["status"], response["status_details"]["reason"]) == ("cancelled", "client_cancelled")
    inner.chat, inner.hold = said("Yes."), {}
    assert (await caller.answered())[-1]["response"]["status"] == "completed"


@pytest.mark.gen_test
async def test_a_caller_who_speaks_interrupts_all_stages():
    inner = FakeInner(said("One. Two.", asyncio.Event()))
    caller = Caller(inner)
    await caller.ready(hearing={"turn_detection": {"type": "server_vad"}})
    await caller.send("response.create")
    await caller.until("response.output_audio.delta")
    await caller.send("input_audio_buffer.append", audio=base64.b64encode(LOUD).decode())
    assert inner.open == 0
    done = (await caller.until("response.done"))[-1]["response"]
    assert done["status_details"] == {"type": "cancelled", "reason": "turn_detected"}
    await caller.session.close()


@pytest.mark.gen_test
async def test_closing_a_session_ends_all_stages():
    inner = FakeInner(said("One. ", asyncio.Event()))
    caller = Caller(inner)
    await caller.ready()
    await caller.send("response.create")
    await caller.until("response.output_audio.delta")
    await caller.session.close()
    assert inner.open == 0


BUSY = UpstreamOverloaded("Busy.")


@pytest.mark.parametrize("modality", ["text", "audio"])
@pytest.mark.parametrize(
    "chat", [[BUSY], said("So. ", BUSY), said("So. ", StreamError(error=BUSY))], ids=["at once", "later", "told"]
)
@pytest.mark.gen_test
async def test_a_chat_that_fails_fails_the_response_and_no_more(chat: list, modality: str):
    inner = FakeInner(chat)
    caller = Caller(inner)
    await caller.ready(output_modalities=[modality])
    response = (await caller.answered())[-1]["response"]
    assert (response["status"], response["status_details"]["error"]["code"]) == ("failed", "upstream_overloaded")
    assert (await caller.until("error"))[-1]["error"]["message"] == "Busy."
    assert inner.open == 0
    inner.chat = said("Better.")
    assert (await caller.answered())[-1]["response"]["status"] == "completed"


@pytest.mark.gen_test
async def test_a_voice_that_fails_fails_the_response_behind_what_was_heard():
    inner = FakeInner(said("One. Two. Three."))
    inner.fail["Two."] = UpstreamTimeout("Too slow.")
    caller = Caller(inner)
    await caller.ready()
    events = await caller.answered()
    assert events[-1]["response"]["status_details"]["error"]["code"] == "upstream_timeout"
    assert joined(events, "response.output_audio.delta")
    assert (await caller.until("error"))[-1]["error"]["code"] == "upstream_timeout"
    assert inner.open == 0


@pytest.mark.gen_test
async def test_a_voice_that_gives_no_pcm_is_refused():
    inner = FakeInner(said("One."), media_type="audio/mpeg")
    caller = Caller(inner)
    await caller.ready()
    response = (await caller.answered())[-1]["response"]
    assert response["status"] == "failed"
    assert "audio/mpeg" in response["status_details"]["error"]["message"]


@pytest.mark.gen_test
async def test_ears_that_fail_fail_one_response():
    inner = FakeInner(said("What?"), words=NotAllowed("Not with this key."))
    caller = Caller(inner)
    await caller.ready()
    await spoken(caller)
    response = (await caller.answered())[-1]["response"]
    assert response["status_details"]["error"] == {
        "type": "permission_error",
        "code": "not_allowed",
        "message": "Not with this key.",
    }
    assert inner.asked(ChatRequest) == []
    await caller.until("error")
    assert (await caller.answered())[-1]["response"]["status"] == "completed"
    assert inner.asked(ChatRequest)[0].messages[0].parts == (Text(text=INAUDIBLE_TEXT),)


@pytest.mark.gen_test
async def test_without_ears_sound_is_refused_and_text_is_answered():
    inner = FakeInner(said("Hi."))
    caller = Caller(inner, CascadeModels(chat="the-chat", speech="the-voice"))
    await caller.ready()
    await caller.send("input_audio_buffer.append", audio=base64.b64encode(LOUD).decode())
    assert (await caller.until("error"))[-1]["error"]["code"] == "audio_input_not_supported"
    await caller.say("Hi")
    assert joined(await caller.answered(), "response.output_audio.delta")


@pytest.mark.gen_test
async def test_without_a_voice_answers_are_text():
    inner = FakeInner(said("Hi."))
    caller = Caller(inner, CascadeModels(chat="the-chat", transcription="the-ears"))
    await caller.ready()
    await spoken(caller)
    events = await caller.answered()
    assert joined(events, "response.output_text.delta") == "Hi."
    assert inner.asked(ChatRequest)[0].messages[0].parts == (Text(text="what was said"),)


@pytest.mark.parametrize(("reason", "told"), [("length", "max_output_tokens"), ("content_filter", "content_filter")])
@pytest.mark.gen_test
async def test_an_answer_that_was_cut_is_incomplete(reason: str, told: str):
    caller = Caller(FakeInner(said("So", reason=reason)))
    await caller.ready()
    response = (await caller.answered(max_output_tokens=5))[-1]["response"]
    assert (response["status"], response["status_details"]["reason"]) == ("incomplete", told)


@pytest.mark.gen_test
async def test_the_voice_and_speed_are_those_of_the_session():
    inner = FakeInner(said("Hi."))
    caller = Caller(inner, ALL)
    await caller.ready(speaking={"voice": "nova", "speed": 1.25})
    await caller.answered()
    request = inner.asked(SpeechRequest)[0]
    assert (request.voice, request.speed) == ("nova", 1.25)
