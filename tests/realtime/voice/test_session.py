"""A session that the gateway holds: events in the vendor's order, errors that end nothing, cancellation."""

from __future__ import annotations

import asyncio
import base64
import json

import pytest
from openai.types.realtime import RealtimeServerEvent
from pydantic import TypeAdapter

from tests.realtime.voice.sessions import SPOKEN, TEXT_ONLY, Client, ScriptedMind, b64, silence, tone, types
from tornado_gate.errors import UpstreamError, UpstreamOverloaded
from tornado_gate.types import Usage
from tornado_gate_openai.voice import (
    AudioPiece,
    CallPiece,
    CutShortPiece,
    SessionLimits,
    TextPiece,
    UsagePiece,
    measure_level,
)

VENDOR = TypeAdapter(RealtimeServerEvent)


@pytest.mark.gen_test
async def test_a_written_answer_comes_in_the_vendors_order():
    client = Client(
        ScriptedMind(TextPiece("Hel"), TextPiece("lo."), UsagePiece(usage=Usage(input_tokens=3, output_tokens=2)))
    )
    await client.ready(**TEXT_ONLY)
    await client.say("Hi")
    await client.send("response.create")
    events = await client.until("response.done")
    assert types(events) == [
        "response.created",
        "response.output_item.added",
        "conversation.item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "conversation.item.done",
        "response.done",
    ]
    done = events[-1]["response"]
    assert done["status"] == "completed"
    assert done["output"][0]["content"] == [{"type": "output_text", "text": "Hello."}]
    assert done["usage"]["total_tokens"] == 5
    assert done["usage"]["output_token_details"] == {"text_tokens": 2, "audio_tokens": 0}
    assert events[3]["part"] == {"type": "text", "text": ""}


@pytest.mark.gen_test
async def test_a_spoken_answer_has_sound_and_its_transcript():
    client = Client(ScriptedMind(*SPOKEN))
    await client.ready()
    await client.say("Hi")
    await client.send("response.create")
    events = await client.until("response.done")
    assert types(events) == [
        "response.created",
        "response.output_item.added",
        "conversation.item.added",
        "response.content_part.added",
        "response.output_audio_transcript.delta",
        "response.output_audio.delta",
        "response.output_audio.done",
        "response.output_audio_transcript.done",
        "response.content_part.done",
        "response.output_item.done",
        "conversation.item.done",
        "response.done",
    ]
    deltas = [base64.b64decode(one["delta"]) for one in events if one["type"] == "response.output_audio.delta"]
    assert b"".join(deltas) == tone(500)
    assert all(len(delta) <= 9600 for delta in deltas)
    told = events[-1]["response"]["audio"]["output"]
    assert told == {"format": {"type": "audio/pcm", "rate": 24_000}, "voice": "alloy"}
    assert events[-1]["response"]["output"][0]["content"] == [{"type": "output_audio", "transcript": "Hello there."}]
    assert events[-1]["response"]["usage"]["output_token_details"] == {"text_tokens": 2, "audio_tokens": 3}


@pytest.mark.gen_test
async def test_every_event_is_one_that_the_vendors_sdk_reads():
    mind = ScriptedMind(*SPOKEN, CallPiece("call_1", "look", '{"x": 1}'), TextPiece("And more."))
    client = Client(mind)
    await client.ready(audio={"input": {"transcription": {"model": "any"}}})
    item = await client.say("Hi")
    await client.append(tone(700) + silence(700))
    await client.event("conversation.item.input_audio_transcription.completed")
    await client.event("response.done")
    await client.send("conversation.item.retrieve", item_id=item)
    await client.send("conversation.item.delete", item_id=item)
    await client.send("input_audio_buffer.clear")
    await client.send("nonsense")
    await client.event("error")
    kinds = {one["type"] for one in client.seen}
    assert {"input_audio_buffer.speech_started", "response.function_call_arguments.done"} <= kinds
    for event in client.seen:
        read = VENDOR.validate_python(event)
        assert read.type == event["type"]
        assert read.event_id.startswith("event_")
    assert len({one["event_id"] for one in client.seen}) == len(client.seen)


@pytest.mark.gen_test
async def test_a_call_of_a_function_is_an_item_behind_what_was_said():
    client = Client(ScriptedMind(TextPiece("Let me look."), CallPiece("call_1", "look", '{"at": "sky"}')))
    tool = {"type": "function", "name": "look", "parameters": {"type": "object"}}
    await client.ready(**TEXT_ONLY, tools=[tool], tool_choice="auto")
    await client.say("Look")
    await client.send("response.create")
    events = await client.until("response.done")
    assert types(events)[-8:] == [
        "conversation.item.done",
        "response.output_item.added",
        "conversation.item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "conversation.item.done",
        "response.done",
    ]
    calls = [one for one in events if one["type"] == "response.function_call_arguments.done"]
    assert (calls[0]["arguments"], calls[0]["name"], calls[0]["output_index"]) == ('{"at": "sky"}', "look", 1)
    output = events[-1]["response"]["output"]
    assert [item["type"] for item in output] == ["message", "function_call"]
    await client.send(
        "conversation.item.create", item={"type": "function_call_output", "call_id": "call_1", "output": "blue"}
    )
    await client.answered()
    kinds = [item.kind for item in client.session.conversation]
    assert kinds[:4] == ["message", "message", "function_call", "function_call_output"]


@pytest.mark.gen_test
async def test_the_first_event_tells_of_the_session_and_an_update_is_all_or_nothing():
    client = Client(ScriptedMind(), session={"type": "realtime", "instructions": "Be brief."}, voice="onyx")
    session = (await client.next())["session"]
    assert (session["model"], session["instructions"]) == ("voice", "Be brief.")
    assert session["audio"]["output"]["voice"] == "onyx"
    assert session["output_modalities"] == ["audio"]
    wrong = {"type": "realtime", "instructions": "Be long.", "tools": [{"type": "mcp", "server_label": "x"}]}
    await client.send("session.update", event_id="mine", session=wrong)
    error = await client.error()
    assert (error["param"], error["event_id"]) == ("session.tools.0.type", "mine")
    await client.send("session.update", session={"type": "realtime", "model": "other", **TEXT_ONLY})
    updated = (await client.next())["session"]
    assert (updated["instructions"], updated["model"], updated["id"]) == ("Be brief.", "voice", session["id"])


@pytest.mark.gen_test
async def test_a_response_may_differ_from_its_session_and_stay_out_of_the_conversation():
    mind = ScriptedMind(TextPiece("Yes."))
    client = Client(mind)
    await client.ready(instructions="Session.")
    first = await client.say("one")
    asked = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "two"}]}
    response = await client.answered(
        conversation="none",
        instructions="Response.",
        metadata={"topic": "x"},
        max_output_tokens=9,
        input=[asked, {"type": "item_reference", "id": first}],
        **TEXT_ONLY,
    )
    assert response["conversation_id"] is None
    assert (response["metadata"], response["max_output_tokens"]) == ({"topic": "x"}, 9)
    assert response["output_modalities"] == ["text"]
    turn = mind.turns[0]
    assert (turn.instructions, turn.spoken, turn.max_tokens) == ("Response.", False, 9)
    assert [item.parts[0].text for item in turn.items] == ["two", "one"]
    assert [item.id for item in client.session.conversation] == [first]
    assert "conversation.item.added" not in types(client.seen[-8:])
    assert client.session.settings.instructions == "Session."


@pytest.mark.gen_test
async def test_cancelling_closes_the_mind_and_says_how_far_it_came():
    never = asyncio.Event()
    mind = ScriptedMind(TextPiece("Half a"), AudioPiece(tone(200)), never)
    client = Client(mind)
    await client.ready()
    await client.send("response.create")
    await client.event("response.output_audio.delta")
    await client.send("response.cancel")
    events = await client.until("response.done")
    response = events[-1]["response"]
    assert (response["status"], response["status_details"]["reason"]) == ("cancelled", "client_cancelled")
    assert response["output"][0]["status"] == "incomplete"
    assert response["output"][0]["content"][0]["transcript"] == "Half a"
    assert "response.output_audio.done" in types(events)
    assert mind.closed == 1
    await client.send("response.cancel")
    assert (await client.error())["code"] == "response_cancel_not_active"


@pytest.mark.gen_test
async def test_a_response_that_is_cancelled_before_it_begins_ends_all_the_same():
    mind = ScriptedMind(TextPiece("never"))
    client = Client(mind)
    await client.ready()
    client.session.start_response()
    await client.session.interrupt("turn_detected")
    done = await client.event("response.done")
    assert done["response"]["status_details"] == {"type": "cancelled", "reason": "turn_detected"}
    assert mind.turns == []


@pytest.mark.gen_test
async def test_there_is_one_response_for_the_conversation_and_a_few_beside_it():
    never = asyncio.Event()
    client = Client(ScriptedMind(never), limits=SessionLimits(responses=2))
    await client.ready()
    await client.send("response.create")
    await client.next()
    await client.send("response.create", event_id="again")
    error = await client.error()
    assert (error["code"], error["event_id"]) == ("conversation_already_has_active_response", "again")
    await client.send("response.create", response={"conversation": "none"})
    assert (await client.next())["type"] == "response.created"
    await client.send("response.create", response={"conversation": "none"})
    assert (await client.error())["code"] == "too_many_active_responses"
    await client.session.close()


@pytest.mark.parametrize(
    ("failure", "code"),
    [(UpstreamOverloaded("Busy."), "upstream_overloaded"), (KeyError("secret"), "internal_error")],
)
@pytest.mark.gen_test
async def test_a_failure_is_a_failed_response_and_an_error_and_the_session_lives_on(failure: Exception, code: str):
    mind = ScriptedMind(TextPiece("So "), failure)
    client = Client(mind)
    await client.ready(**TEXT_ONLY)
    response = await client.answered()
    assert (response["status"], response["status_details"]["error"]["code"]) == ("failed", code)
    assert response["output"][0]["status"] == "incomplete"
    error = await client.error()
    assert error["code"] == code
    assert "secret" not in error["message"]
    mind.pieces = (TextPiece("Fine."),)
    assert (await client.answered())["status"] == "completed"


@pytest.mark.gen_test
async def test_an_answer_that_was_cut_is_incomplete():
    client = Client(ScriptedMind(TextPiece("So"), CutShortPiece("max_output_tokens")))
    await client.ready(**TEXT_ONLY)
    response = await client.answered()
    assert (response["status"], response["status_details"]["reason"]) == ("incomplete", "max_output_tokens")
    assert response["output"][0]["status"] == "incomplete"


@pytest.mark.gen_test
async def test_sound_goes_out_in_the_format_of_the_session():
    client = Client(ScriptedMind(TextPiece("x"), AudioPiece(tone(300)[:-2]), AudioPiece(tone(300))))
    await client.ready(audio={"input": {"turn_detection": None}, "output": {"format": {"type": "audio/pcmu"}}})
    await client.send("response.create")
    events = await client.until("response.done")
    sound = [base64.b64decode(one["delta"]) for one in events if one["type"] == "response.output_audio.delta"]
    assert 4798 <= len(b"".join(sound)) <= 4800  # 600 ms of 8,000 samples of one byte


@pytest.mark.gen_test
async def test_closing_ends_everything():
    mind = ScriptedMind(TextPiece("x"), asyncio.Event())
    client = Client(mind)
    await client.ready(**TEXT_ONLY)
    await client.send("response.create")
    await client.event("response.output_text.delta")
    await client.session.close(1001, "going away")
    assert mind.closed == 1
    assert await client.session.receive() is None
    assert (client.session.close_code, client.session.close_reason) == (1001, "going away")
    with pytest.raises(UpstreamError):
        await client.session.send("{}")


@pytest.mark.gen_test
async def test_a_reader_who_does_not_read_holds_the_answer_up():
    pieces = [AudioPiece(tone(1000)) for _ in range(20)]
    mind = ScriptedMind(TextPiece("x"), *pieces)
    client = Client(mind, limits=SessionLimits(outbox=100_000))
    await client.ready()
    await client.send("response.create")
    for _ in range(200):
        await asyncio.sleep(0)
    assert mind.closed == 0
    sending = asyncio.create_task(client.send("input_audio_buffer.clear"))
    await asyncio.sleep(0)
    assert not sending.done()
    await client.until("response.done")
    await sending
    assert mind.closed == 1


@pytest.mark.gen_test
async def test_a_mind_without_a_voice_answers_in_writing():
    client = Client(ScriptedMind(TextPiece("Hi."), produces_audio=False))
    assert (await client.next())["session"]["output_modalities"] == ["text"]
    assert (await client.answered())["output"][0]["content"][0]["type"] == "output_text"
    await client.send("session.update", session={"type": "realtime", "output_modalities": ["audio"]})
    assert (await client.error())["param"] == "session.output_modalities"
    await client.send("response.create", response={"output_modalities": ["audio"]})
    assert (await client.error())["param"] == "response.output_modalities"


@pytest.mark.parametrize(
    ("text", "param", "code"),
    [
        ("{", "", "invalid_json"),
        ("[]", "message", "invalid_value"),
        ("{}", "type", "missing_required_parameter"),
        ('{"type": "no.such"}', "type", "invalid_value"),
        ('{"type": "output_audio_buffer.clear"}', "type", "invalid_value"),
        ('{"type": "input_audio_buffer.append", "audio": "a$$a"}', "audio", "invalid_value"),
        ('{"type": "input_audio_buffer.append", "audio": "YWJj"}', "audio", "invalid_value"),
        ('{"type": "input_audio_buffer.append"}', "audio", "invalid_value"),
        ('{"type": "input_audio_buffer.commit"}', "", "input_audio_buffer_commit_empty"),
        ('{"type": "conversation.item.retrieve", "item_id": "x"}', "item_id", "item_retrieve_invalid_item_id"),
        ('{"type": "conversation.item.delete", "item_id": "x"}', "item_id", "item_delete_invalid_item_id"),
        (
            '{"type": "conversation.item.truncate", "item_id": "x", "content_index": 0, "audio_end_ms": 0}',
            "item_id",
            "item_truncate_invalid_item_id",
        ),
        ('{"type": "response.create", "response": {"conversation": "x"}}', "response.conversation", "invalid_value"),
        ('{"type": "response.create", "response": {"metadata": {"a": 1}}}', "response.metadata", "invalid_value"),
        (
            '{"type": "response.create", "response": {"input": [{"type": "item_reference", "id": "x"}]}}',
            "response.input.0.id",
            "invalid_item_reference",
        ),
    ],
)
@pytest.mark.gen_test
async def test_what_is_wrong_is_an_error_event_and_ends_nothing(text: str, param: str, code: str):
    client = Client(ScriptedMind(TextPiece("Still here.")))
    await client.ready(**TEXT_ONLY)
    await client.session.send(text)
    error = await client.error()
    assert (error["param"] or "", error["code"]) == (param, code)
    assert (await client.answered())["status"] == "completed"


@pytest.mark.gen_test
async def test_the_sound_of_an_item_can_be_retrieved():
    client = Client(ScriptedMind(*SPOKEN))
    await client.ready()
    item = (await client.answered())["output"][0]
    assert "audio" not in item["content"][0]
    await client.send("conversation.item.retrieve", item_id=item["id"])
    retrieved = (await client.event("conversation.item.retrieved"))["item"]
    assert measure_level(base64.b64decode(retrieved["content"][0]["audio"])) > 0.1
    assert json.loads(json.dumps(retrieved))["content"][0]["transcript"] == "Hello there."
    assert b64(tone(500)) == retrieved["content"][0]["audio"]


@pytest.mark.gen_test
async def test_a_long_sound_can_be_retrieved_too():
    client = Client(ScriptedMind())
    await client.ready()
    await client.append(silence(15_000))
    await client.send("input_audio_buffer.commit")
    item_id = (await client.event("conversation.item.done"))["item"]["id"]
    await client.send("conversation.item.retrieve", item_id=item_id)
    retrieved = (await client.next())["item"]
    assert retrieved["content"][0]["audio"] == b64(silence(15_000))
