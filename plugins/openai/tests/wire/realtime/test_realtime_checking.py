"""Client events checked, for providers that answer them themselves."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given

from plugins.openai.tests.wire.realtime import strategies
from plugins.openai.tests.wire.realtime.golden import CALL, CLIENT, GAVE, Event, client, message
from tornado_gate.errors import InvalidField
from tornado_gate_openai.wire.realtime import check_client_event, check_item, check_session, read_audio

GOOD = [event for pair in CLIENT for event in (pair.beta, *pair.current)]


def fault(event: Any, input_format: str = "audio/pcm") -> tuple[str, str]:
    with pytest.raises(InvalidField) as error:
        check_client_event(event, input_format)
    return error.value.param, error.value.code


def session(**members: Any) -> Event:
    return client("session.update", session=members)


def item(**members: Any) -> Event:
    return client("conversation.item.create", item=members)


def part(role: str, **members: Any) -> Event:
    return client("conversation.item.create", item=message(role, members))


@pytest.mark.parametrize("event", GOOD, ids=lambda event: str(event["type"]))
def test_events_of_both_dialects_are_taken(event: Event) -> None:
    check_client_event(event)


def test_what_the_contract_shows_is_taken() -> None:
    shown = {"modalities": ["text", "audio"], "instructions": "Hi", "voice": "alloy", "input_audio_format": "pcm16"}
    check_client_event({"type": "session.update", "session": {**shown, "output_audio_format": "pcm16"}})
    check_client_event({"type": "input_audio_buffer.append", "audio": "AAA="})
    check_client_event({"type": "input_audio_buffer.commit"})
    check_client_event({"type": "response.create"})


@pytest.mark.parametrize("event", [None, [], "x", 5, {}, {"type": None}, {"type": 5}, {"type": "session.updated"}])
def test_what_is_no_client_event_is_refused(event: Any) -> None:
    assert fault(event)[0] in ("", "type")


@pytest.mark.parametrize(
    ("event", "param"),
    [
        (client("session.update"), "session"),
        (client("transcription_session.update"), "session"),
        (client("input_audio_buffer.append"), "audio"),
        (client("conversation.item.create"), "item"),
        (client("conversation.item.delete"), "item_id"),
        (client("conversation.item.retrieve"), "item_id"),
        (client("conversation.item.truncate"), "item_id"),
        (client("conversation.item.truncate", item_id="i", audio_end_ms=1), "content_index"),
        (client("conversation.item.truncate", item_id="i", content_index=0), "audio_end_ms"),
        (item(), "item.type"),
        (item(type="message"), "item.role"),
        (item(type="message", role="user"), "item.content"),
        (item(type="function_call", name="f"), "item.arguments"),
        (item(type="function_call", arguments="{}"), "item.name"),
        (item(type="function_call_output", output="x"), "item.call_id"),
        (item(type="function_call_output", call_id="c"), "item.output"),
        (part("user"), "item.content.0.type"),
        (part("user", type="input_text"), "item.content.0.text"),
        (part("user", type="input_audio"), "item.content.0.audio"),
        (part("user", type="input_image"), "item.content.0.image_url"),
        (client("response.create", response={"input": [{"type": "item_reference"}]}), "response.input.0.id"),
    ],
)
def test_what_is_missing_is_named(event: Event, param: str) -> None:
    assert fault(event) == (param, "missing_required_parameter")


@pytest.mark.parametrize(
    ("event", "param"),
    [
        (client("input_audio_buffer.commit") | {"event_id": 5}, "event_id"),
        (client("input_audio_buffer.commit") | {"event_id": "x" * 513}, "event_id"),
        (client("session.update", session=[]), "session"),
        (session(modalities=["smell"]), "session.modalities.0"),
        (session(modalities=[]), "session.modalities"),
        (session(modalities="text"), "session.modalities"),
        (session(output_modalities=[5]), "session.output_modalities.0"),
        (session(voice=5), "session.voice"),
        (session(instructions=True), "session.instructions"),
        (session(speed=2), "session.speed"),
        (session(speed="1"), "session.speed"),
        (session(temperature=3), "session.temperature"),
        (session(input_audio_format="mp3"), "session.input_audio_format"),
        (session(max_response_output_tokens=0), "session.max_response_output_tokens"),
        (session(max_response_output_tokens=True), "session.max_response_output_tokens"),
        (session(max_output_tokens="many"), "session.max_output_tokens"),
        (session(turn_detection={"type": "nose"}), "session.turn_detection.type"),
        (session(turn_detection={"threshold": 2}), "session.turn_detection.threshold"),
        (session(turn_detection={"silence_duration_ms": 1.5}), "session.turn_detection.silence_duration_ms"),
        (session(turn_detection={"create_response": 1}), "session.turn_detection.create_response"),
        (session(tools={}), "session.tools"),
        (session(tools=[5]), "session.tools.0"),
        (session(tool_choice="sometimes"), "session.tool_choice"),
        (session(type="chat"), "session.type"),
        (session(audio=5), "session.audio"),
        (session(audio={"input": {"format": "pcm16"}}), "session.audio.input.format"),
        (session(audio={"input": {"format": {"type": "pcm16"}}}), "session.audio.input.format.type"),
        (
            session(audio={"input": {"format": {"type": "audio/pcm", "rate": 8000}}}),
            "session.audio.input.format.rate",
        ),
        (session(audio={"output": {"voice": {}}}), "session.audio.output.voice.id"),
        (client("response.create", response=5), "response"),
        (client("response.create", response={"input": {}}), "response.input"),
        (client("response.create", response={"input": [5]}), "response.input.0"),
        (client("response.create", response={"modalities": [1]}), "response.modalities.0"),
        (client("response.cancel", response_id=5), "response_id"),
        (client("conversation.item.truncate", item_id="i", content_index=-1, audio_end_ms=1), "content_index"),
        (client("conversation.item.truncate", item_id="i", content_index=0, audio_end_ms="1"), "audio_end_ms"),
        (client("conversation.item.create", item=[], previous_item_id="x"), "item"),
        (client("conversation.item.create", item=GAVE, previous_item_id=5), "previous_item_id"),
        (item(type="telepathy"), "item.type"),
        (item(type="item_reference", id="item_1"), "item.type"),
        (item(**{**CALL, "id": 5}), "item.id"),
        (item(**{**CALL, "status": "done"}), "item.status"),
        (item(type="message", role="robot", content=[]), "item.role"),
        (item(type="message", role="user", content="Hi"), "item.content"),
        (item(type="message", role="user", content=["Hi"]), "item.content.0"),
        (part("assistant", type="input_text", text="Hi"), "item.content.0.type"),
        (part("system", type="input_audio", audio="AAA="), "item.content.0.type"),
        (part("user", type="input_text", text=5), "item.content.0.text"),
        (part("user", type="input_audio", audio="AAA"), "item.content.0.audio"),
        (part("user", type="input_audio", audio="AA=="), "item.content.0.audio"),
    ],
)
def test_what_is_wrong_is_named(event: Event, param: str) -> None:
    assert fault(event)[0] == param


@pytest.mark.parametrize("audio", ["A", "AAA", "AA A", "AA\n==", "A===", "-_-_", "ä", "\ud800", 5, None, []])
def test_sound_that_is_no_base64_is_refused(audio: Any) -> None:
    assert fault(client("input_audio_buffer.append", audio=audio), "audio/pcmu")[0] == "audio"


def test_half_a_sample_of_pcm_is_refused_and_g711_has_none() -> None:
    three = client("input_audio_buffer.append", audio=base64.b64encode(b"abc").decode())
    assert fault(three)[0] == "audio"
    check_client_event(three, "audio/pcmu")
    assert read_audio(three, "audio/pcma") == b"abc"


def test_the_sound_of_a_message_is_given() -> None:
    assert read_audio(client("input_audio_buffer.append", audio="AAECAw==")) == bytes(range(4))


def test_null_is_as_good_as_nothing() -> None:
    names = ["modalities", "voice", "turn_detection", "tools", "audio", "temperature", "max_response_output_tokens"]
    check_client_event(session(**dict.fromkeys(names)))
    check_client_event(client("response.create", response=None))


def test_unknown_members_are_nobodys_fault() -> None:
    check_client_event(session(x_mine=5) | {"x": 1})


def test_parts_below_another_path_are_named_by_it() -> None:
    with pytest.raises(InvalidField) as error:
        check_session({"voice": 5}, "response")
    assert error.value.param == "response.voice"
    assert "'response.voice'" in error.value.message
    with pytest.raises(InvalidField) as error:
        check_item({"type": "item_reference", "id": 5}, "items.3", references=True)
    assert error.value.param == "items.3.id"


@given(strategies.ANY_EVENT | strategies.mended() | strategies.JSON)
def test_whatever_is_said_nothing_but_an_invalid_field_is_raised(event: Any) -> None:
    try:
        check_client_event(event)
    except InvalidField as error:
        assert error.message
        assert error.status == 400
