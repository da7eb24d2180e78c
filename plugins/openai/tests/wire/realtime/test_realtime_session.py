"""What a session is set to, whichever dialect says it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from plugins.openai.tests.wire.realtime import golden, strategies
from plugins.openai.tests.wire.realtime.golden import PCM, SESSION_BETA, SESSION_CURRENT, TOOL, Event, client, server
from tornado_gate.errors import InvalidField
from tornado_gate.types import RealtimeDialect
from tornado_gate_openai.wire.realtime import SessionConfig, TurnDetection, translate_client_to_current

FRESH = SessionConfig(id="sess_1", model="m")


def test_both_dialects_set_the_same() -> None:
    beta, current = FRESH.update(SESSION_BETA, "beta"), FRESH.update(SESSION_CURRENT, "current")
    assert beta == current
    assert beta.modalities == ("text", "audio")
    assert (beta.voice, beta.speed, beta.instructions) == ("alloy", 1.2, "Be kind.")
    assert (beta.input_format, beta.output_format) == ("audio/pcm", "audio/pcmu")
    assert beta.turn_detection == TurnDetection(threshold=0.4, prefix_padding_ms=200, silence_duration_ms=400)
    assert (beta.transcription, beta.noise_reduction) == ({"model": "whisper-1"}, {"type": "near_field"})
    assert (beta.tools, beta.tool_choice, beta.max_output_tokens) == ((TOOL,), "auto", 512)
    assert beta.extra == {}


def test_what_was_set_is_told_in_both_dialects() -> None:
    told = FRESH.update(SESSION_BETA, "beta")
    turns = {**SESSION_BETA["turn_detection"], "create_response": True, "interrupt_response": True}
    beta, current = told.render("beta"), told.render("current")
    assert beta == {
        **SESSION_BETA,
        "turn_detection": turns,
        "id": "sess_1",
        "object": "realtime.session",
        "model": "m",
        "temperature": 0.8,
    }
    assert current["audio"]["input"]["turn_detection"] == turns
    current["audio"]["input"]["turn_detection"] = golden.VAD
    assert current == {**SESSION_CURRENT, "id": "sess_1", "object": "realtime.session", "model": "m"}


def test_a_fresh_session_satisfies_the_vendors_types() -> None:
    golden.CURRENT_SERVER.validate_python(server("session.created", session=FRESH.render("current")))
    beta = golden.BETA_SERVER.validate_python(
        server("session.created", session={**FRESH.render("beta"), "model": None})
    )
    assert (beta.session.voice, beta.session.modalities) == ("alloy", ["text", "audio"])
    assert beta.session.input_audio_format == beta.session.output_audio_format == "pcm16"
    assert beta.session.max_response_output_tokens == "inf"


def test_only_what_is_said_changes() -> None:
    before = FRESH.update(SESSION_BETA, "beta")
    after = before.update({"voice": "echo"}, "beta")
    assert (after.voice, after.speed, after.output_format) == ("echo", 1.2, "audio/pcmu")
    assert after.turn_detection == before.turn_detection


@pytest.mark.parametrize("dialect", ["beta", "current"])
def test_null_turns_off_what_can_be_off(dialect: RealtimeDialect) -> None:
    before = FRESH.update(SESSION_BETA, "beta")
    names = [
        "turn_detection",
        "input_audio_transcription",
        "input_audio_noise_reduction",
        "voice",
        "tools",
        "modalities",
    ]
    off: Event = dict.fromkeys(names)
    if dialect == "current":
        off = translate_client_to_current(client("session.update", session=off))["session"]
    after = before.update(off, dialect)
    assert (after.turn_detection, after.transcription, after.noise_reduction) == (None, None, None)
    assert (after.voice, after.tools, after.modalities) == (before.voice, before.tools, before.modalities)
    assert after.render("beta")["turn_detection"] is None
    assert after.render("current")["audio"]["input"]["turn_detection"] is None


def test_a_detection_of_turns_is_set_anew_each_time() -> None:
    before = FRESH.update({"turn_detection": {"type": "server_vad", "threshold": 0.9}}, "beta")
    after = before.update({"turn_detection": {"silence_duration_ms": 700}}, "beta")
    assert after.turn_detection == TurnDetection(silence_duration_ms=700)


def test_a_semantic_detection_has_an_eagerness_and_no_threshold() -> None:
    said = {"turn_detection": {"type": "semantic_vad", "eagerness": "high", "interrupt_response": False}}
    assert FRESH.update(said, "beta").render("beta")["turn_detection"] == {
        "type": "semantic_vad",
        "eagerness": "high",
        "create_response": True,
        "interrupt_response": False,
    }


@pytest.mark.parametrize("dialect", ["beta", "current"])
def test_text_alone_is_text_alone(dialect: RealtimeDialect) -> None:
    said: Event = {"modalities": ["text"]} if dialect == "beta" else {"output_modalities": ["text"]}
    session = FRESH.update(said, dialect)
    assert session.modalities == ("text",)
    assert session.render("beta")["modalities"] == session.render("current")["output_modalities"] == ["text"]


def test_the_most_tokens_can_be_set_and_set_free() -> None:
    few = FRESH.update({"max_output_tokens": 5}, "current")
    assert (few.max_output_tokens, few.render("beta")["max_response_output_tokens"]) == (5, 5)
    assert few.update({"max_response_output_tokens": "inf"}, "beta").max_output_tokens is None


@pytest.mark.parametrize("dialect", ["beta", "current"])
def test_unknown_members_are_echoed_where_they_stood(dialect: RealtimeDialect) -> None:
    said: Event = {"x_mine": [1], "tracing": "auto", "audio": {"input": {"x_deep": {"a": 1}}, "output": None}}
    session = FRESH.update(said, dialect).update({"x_more": 2}, dialect)
    told = session.render(dialect)
    assert (told["x_mine"], told["tracing"], told["x_more"]) == ([1], "auto", 2)
    assert told["audio"]["input"]["x_deep"] == {"a": 1}
    if dialect == "current":
        assert told["audio"]["output"]["format"] == PCM


def test_what_only_a_server_sets_is_not_set_by_an_echo() -> None:
    session = FRESH.update({"id": "sess_mine", "object": "x", "expires_at": 5}, "beta")
    assert session == FRESH


def test_when_a_session_ends_is_told() -> None:
    for dialect in ("beta", "current"):
        assert SessionConfig(expires_at=1234).render(dialect)["expires_at"] == 1234
        assert "expires_at" not in FRESH.render(dialect)


def test_a_temperature_is_told_to_the_current_dialect_only_when_it_was_set() -> None:
    assert "temperature" not in FRESH.render("current")
    assert FRESH.render("beta")["temperature"] == 0.8
    set_to = FRESH.update({"temperature": 1.1}, "beta")
    assert set_to.render("beta")["temperature"] == set_to.render("current")["temperature"] == 1.1


def test_a_session_that_transcribes_has_no_voice() -> None:
    session = FRESH.update(golden.LISTENING_CURRENT, "current")
    assert session.kind == "transcription"
    told = session.render("current")
    assert told["object"] == "realtime.transcription_session"
    assert "output" not in told["audio"]
    assert not {"output_modalities", "tools", "instructions"} & set(told)
    golden.CURRENT_SERVER.validate_python(server("session.updated", session=told))
    assert session.render("beta")["input_audio_format"] == "g711_alaw"
    assert not {"voice", "temperature", "type"} & set(session.render("beta"))


def test_a_voice_that_has_an_id_is_that_id() -> None:
    assert FRESH.update({"audio": {"output": {"voice": {"id": "voice_1"}}}}, "current").voice == "voice_1"


@pytest.mark.parametrize(
    ("session", "dialect", "param"),
    [
        (None, "beta", "session"),
        ([], "current", "session"),
        ({"voice": 5}, "beta", "session.voice"),
        ({"input_audio_format": "mp3"}, "beta", "session.input_audio_format"),
        ({"audio": {"output": {"speed": 9}}}, "current", "session.audio.output.speed"),
        ({"audio": {"input": {"turn_detection": 5}}}, "current", "session.audio.input.turn_detection"),
    ],
)
def test_a_fault_is_named_as_the_caller_wrote_it(session: Any, dialect: RealtimeDialect, param: str) -> None:
    with pytest.raises(InvalidField) as error:
        FRESH.update(session, dialect)
    assert error.value.param == param


def test_one_response_can_have_a_session_of_its_own() -> None:
    one = FRESH.update({"modalities": ["text"], "instructions": "Now.", "conversation": "none"}, "beta", "response")
    assert (one.modalities, one.instructions, FRESH.instructions) == (("text",), "Now.", "")
    with pytest.raises(InvalidField) as error:
        FRESH.update({"voice": 5}, "beta", "response")
    assert error.value.param == "response.voice"


@given(strategies.BETA_SESSIONS)
def test_what_is_told_sets_the_same_again(said: Event) -> None:
    session = FRESH.update(said, "beta")
    again = FRESH.update(session.render("beta"), "beta")
    assert again.render("beta") == session.render("beta")
    assert FRESH.update(session.render("current"), "current").render("current") == session.render("current")


@given(strategies.BETA_SESSIONS)
def test_both_dialects_set_the_same_whatever_is_said(said: Event) -> None:
    current = translate_client_to_current(client("session.update", session=said))["session"]
    assert FRESH.update(said, "beta") == FRESH.update(current, "current")


@given(strategies.JSON | strategies.BETA_SESSIONS)
def test_no_update_raises_anything_but_an_invalid_field(said: Any) -> None:
    for dialect in ("beta", "current"):
        try:
            session = FRESH.update(said, dialect)
        except InvalidField as error:
            assert error.param.startswith("session")
        else:
            json.dumps([session.render("beta"), session.render("current")])
