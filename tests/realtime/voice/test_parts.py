"""The parts of a session by themselves: sentences, chats, boxes, the detector."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.realtime.voice.sessions import tone
from tornado_gate.types import Image, Message, Text, Tool, ToolCall, ToolChoice, ToolResult
from tornado_gate_openai.voice import AudioPart, ImagePart, Item, SentenceSplitter, TextPart, Turn, make_chat_request
from tornado_gate_openai.voice.buffers import InputBuffer, Outbox
from tornado_gate_openai.voice.chat import NO_RESULT
from tornado_gate_openai.voice.sentences import MAX_SENTENCE_LENGTH
from tornado_gate_openai.voice.vad import FRAME_BYTES, DetectionSettings, SpeechDetector, SpeechStarted, SpeechStopped


def fed(*texts: str) -> tuple[list[str], list[str]]:
    """What comes while the text comes, and what is left at its end."""
    sentences = SentenceSplitter()
    return [one for text in texts for one in sentences.feed(text)], sentences.flush()


def test_a_sentence_is_there_when_the_next_begins():
    assert fed("Hello the", "re. How", " are you?") == (["Hello there. "], ["How are you?"])
    assert fed("It costs 3.", "50 euros! Yes.") == (["It costs 3.50 euros! "], ["Yes."])
    assert fed("「はい。」そうです。") == (["「はい。", "」そうです。"], [])
    assert fed("1. Bread\n2. Milk\n") == (["1. Bread\n", "2. Milk\n"], [])
    assert fed("...", " ") == ([], [])


def test_a_sentence_without_end_is_cut_between_words():
    sentences, rest = fed("word " * 200)
    assert all(len(one) <= MAX_SENTENCE_LENGTH and one.endswith(" ") for one in sentences)
    assert "".join([*sentences, *rest]) == "word " * 200
    assert [len(one) for one in fed("x" * 700)[0]] == [300, 300]


@given(st.lists(st.text(alphabet="ab .!?\n,。1")))
def test_no_word_is_lost_or_said_twice(texts: list[str]):
    sentences, rest = fed(*texts)
    said = "".join([*sentences, *rest])
    assert [c for c in said if c.isalnum()] == [c for c in "".join(texts) if c.isalnum()]
    assert all(len(one) <= MAX_SENTENCE_LENGTH for one in sentences)


def item(kind: str = "message", **fields: object) -> Item:
    return Item(id="x", kind=kind, **fields)


def chat(*items: Item, **fields: object) -> list[Message]:
    turn = Turn(items=items, **fields)
    return list(make_chat_request(turn, "m", lambda sound: Text(text=f"<{sound.transcript}>")).messages)


def test_items_are_messages():
    told = AudioPart(bytearray(), transcript="hi")
    said = AudioPart(None, transcript="hello", output=True)
    picture = ImagePart("https://example.com/x.png", "low")
    messages = chat(
        item(parts=[told, TextPart("and this"), picture]),
        item(role="assistant", parts=[said]),
        item(role="system", parts=[TextPart("be brief")]),
        item(role="assistant", parts=[TextPart("", output=True)]),
        instructions="You are a parrot.",
    )
    assert [message.role for message in messages] == ["system", "user", "assistant", "system"]
    assert [part.text for part in messages[1].parts[:2]] == ["<hi>", "and this"]
    assert isinstance(messages[1].parts[2], Image)
    assert messages[2].parts == (Text(text="hello"),)


def test_results_stand_behind_their_calls_and_a_missing_one_is_said():
    messages = chat(
        item(parts=[TextPart("go")]),
        item("function_call", call_id="a", name="f", arguments="{}"),
        item("function_call", call_id="b", name="g", arguments=""),
        item(parts=[TextPart("still there?")]),
        item("function_call_output", call_id="a", output="done"),
        item("function_call_output", call_id="z", output="who asked"),
    )
    assert [message.role for message in messages] == ["user", "assistant", "tool", "tool", "user", "user"]
    assert [call.name for call in messages[1].parts if isinstance(call, ToolCall)] == ["f", "g"]
    results = [part for message in messages for part in message.parts if isinstance(part, ToolResult)]
    assert [result.parts[0].text for result in results] == ["done", NO_RESULT]
    assert messages[-1].parts[0].text.endswith("(z): who asked")


def test_tools_and_bounds_go_along_and_a_choice_without_tools_does_not():
    tool = Tool(name="look")
    turn = Turn(items=(), tools=(tool,), tool_choice=ToolChoice(mode="required"), max_tokens=9, temperature=0.5)
    request = make_chat_request(turn, "m", lambda sound: None)
    assert (request.tools, request.max_tokens, request.temperature) == ((tool,), 9, 0.5)
    assert (request.tool_choice.mode, request.stream, request.include_usage) == ("required", True, True)
    bare = make_chat_request(Turn(items=(), tool_choice=ToolChoice(mode="auto")), "m", lambda sound: None)
    assert bare.tool_choice is None


@pytest.mark.gen_test
async def test_an_outbox_makes_writers_wait_for_the_reader():
    box = Outbox(most_bytes=10)
    box.add(["x" * 10])
    waiting = asyncio.create_task(box.wait_for_room())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not waiting.done()
    assert await box.get() == "x" * 10
    await waiting
    box.add(["last"])
    box.close(drop=False)
    box.add(["too late"])
    assert [await box.get(), await box.get()] == ["last", None]


@pytest.mark.gen_test
async def test_a_closed_outbox_lets_everybody_go():
    box = Outbox(most_bytes=1)
    reading = asyncio.create_task(box.get())
    await asyncio.sleep(0)
    box.close(drop=True)
    assert await reading is None
    await box.wait_for_room()


def test_a_buffer_counts_time_from_the_first_sound_of_all():
    buffer = InputBuffer(1_000_000)
    buffer.append(tone(1000))
    assert buffer.take_all() == tone(1000)
    buffer.append(tone(500))
    assert (buffer.start_ms, buffer.end_ms) == (1000, 1500)
    buffer.forget_before(1200)
    assert (buffer.start_ms, len(buffer)) == (1200, 300 * 48)
    buffer.forget_before(100)
    buffer.keep_last(100)
    assert (buffer.start_ms, buffer.end_ms) == (1400, 1500)


def heard(detector: SpeechDetector, pcm: bytes, start_ms: int = 0) -> list[object]:
    frames = [pcm[start : start + FRAME_BYTES] for start in range(0, len(pcm), FRAME_BYTES)]
    found = (detector.process_frame(frame, start_ms + 20 * (n + 1)) for n, frame in enumerate(frames))
    return [one for one in found if one is not None]


def test_a_click_is_no_speech_and_a_pause_is_no_end():
    detector = SpeechDetector(DetectionSettings(prefix_ms=0, silence_ms=200))
    assert heard(detector, tone(20) + bytes(FRAME_BYTES * 10)) == []
    events = heard(detector, tone(200) + bytes(FRAME_BYTES * 9) + tone(200) + bytes(FRAME_BYTES * 10))
    assert events == [SpeechStarted(0), SpeechStopped(780)]


def test_a_higher_threshold_takes_a_louder_voice():
    quiet = tone(200, loudness=0.03)
    assert heard(SpeechDetector(DetectionSettings(threshold=0.5)), quiet) == [SpeechStarted(0)]
    assert heard(SpeechDetector(DetectionSettings(threshold=0.9)), quiet) == []


def test_a_voice_is_heard_above_a_hum_that_was_learnt():
    detector = SpeechDetector(DetectionSettings(threshold=0.1))
    assert heard(detector, tone(20_000, loudness=0.005)) == []
    assert heard(detector, tone(200, loudness=0.1), 20_000) == [SpeechStarted(19_700)]
