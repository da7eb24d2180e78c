"""Events of one realtime dialect become those of the other."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from openai.types.beta.realtime.realtime_client_event import RealtimeClientEvent as BetaClientEvent
from openai.types.beta.realtime.realtime_server_event import RealtimeServerEvent as BetaServerEvent
from openai.types.realtime.realtime_client_event import RealtimeClientEvent as CurrentClientEvent
from openai.types.realtime.realtime_server_event import RealtimeServerEvent as CurrentServerEvent

from plugins.openai.tests.wire.realtime import golden, strategies
from plugins.openai.tests.wire.realtime.golden import CLIENT, CURRENT_ONLY, SERVER, Event, Pair, client, message, server
from tornado_gate.errors import InvalidField
from tornado_gate_openai.wire.realtime import (
    translate_client_to_beta,
    translate_client_to_current,
    translate_server_to_beta,
    translate_server_to_current,
)


def name_of(pair: Pair) -> str:
    return str(pair.beta["type"])


def test_the_pairs_hold_every_event_of_the_vendors_sdk() -> None:
    beta_client, beta_server = {name_of(pair) for pair in CLIENT}, {name_of(pair) for pair in SERVER}
    current_client = {event["type"] for pair in CLIENT for event in pair.current}
    current_server = {event["type"] for event in [*CURRENT_ONLY, *(one for pair in SERVER for one in pair.current)]}
    assert beta_client == golden.types_of(BetaClientEvent)
    assert current_client == golden.types_of(CurrentClientEvent)
    assert beta_server == golden.types_of(BetaServerEvent)
    assert current_server == golden.types_of(CurrentServerEvent) - {"conversation.item.created"}


@pytest.mark.parametrize("pair", CLIENT, ids=name_of)
def test_a_client_event_goes_to_an_upstream_of_either_dialect(pair: Pair) -> None:
    assert translate_client_to_current(pair.beta) == pair.current[0]
    assert translate_client_to_beta(pair.current[0]) == pair.beta


@pytest.mark.parametrize("pair", SERVER, ids=name_of)
def test_a_server_event_comes_to_a_caller_of_either_dialect(pair: Pair) -> None:
    assert translate_server_to_current(pair.beta) == pair.current
    assert [event for one in pair.current for event in translate_server_to_beta(one)] == [pair.beta]


@pytest.mark.parametrize("pair", CLIENT, ids=name_of)
def test_client_events_satisfy_the_vendors_types(pair: Pair) -> None:
    golden.BETA_CLIENT.validate_python(translate_client_to_beta(pair.current[0]))
    golden.CURRENT_CLIENT.validate_python(translate_client_to_current(pair.beta))


@pytest.mark.parametrize("pair", SERVER, ids=name_of)
def test_server_events_satisfy_the_vendors_types(pair: Pair) -> None:
    for event in translate_server_to_current(pair.beta):
        golden.CURRENT_SERVER.validate_python(event)
    if pair.beta["type"] != "transcription_session.updated":  # there the type demands a secret that only REST gives
        golden.BETA_SERVER.validate_python(pair.beta)


@pytest.mark.parametrize("event", CURRENT_ONLY, ids=lambda event: str(event["type"]))
def test_server_events_that_the_beta_dialect_lacks_pass_as_they_come(event: Event) -> None:
    assert translate_server_to_beta(event) == [event]


def test_nothing_that_is_given_is_changed() -> None:
    for pair in CLIENT:
        before = copy.deepcopy(pair)
        translate_client_to_current(pair.beta)
        translate_client_to_beta(pair.current[0])
        assert pair == before
    for pair in SERVER:
        before = copy.deepcopy(pair)
        translate_server_to_current(pair.beta)
        for event in pair.current:
            translate_server_to_beta(event)
        assert pair == before


def test_unknown_members_stay_where_they_are() -> None:
    session = {"voice": "alloy", "x_mine": [1], "audio": {"input": {"x_deep": 1}, "x_side": 2}}
    there = translate_client_to_current(client("session.update", session=session))["session"]
    assert there["x_mine"] == [1]
    assert there["audio"] == {"input": {"x_deep": 1}, "x_side": 2, "output": {"voice": "alloy"}}
    assert translate_client_to_beta(client("session.update", session=there))["session"] == session


@pytest.mark.parametrize(
    ("name", "value", "lost"),
    [
        ("temperature", 0.7, ["session.temperature"]),
        ("client_secret", {}, ["session.client_secret"]),
        ("temperature", None, []),
    ],
)
def test_what_the_current_dialect_cannot_say_is_lost_by_name(name: str, value: Any, lost: list[str]) -> None:
    said: list[str] = []
    event = translate_client_to_current(client("session.update", session={"voice": "echo", name: value}), said.append)
    assert said == lost
    assert name not in event["session"]


@pytest.mark.parametrize("name", ["include", "parallel_tool_calls", "prompt", "reasoning", "truncation"])
def test_what_the_beta_dialect_cannot_say_is_lost_by_name(name: str) -> None:
    said: list[str] = []
    event = translate_client_to_beta(client("session.update", session={"type": "realtime", name: "x"}), said.append)
    assert (said, event["session"]) == ([f"session.{name}"], {})
    event = translate_client_to_beta(client("response.create", response={name: "x"}), said.append)
    assert (said[1:], event["response"]) == ([f"response.{name}"], {})


def test_a_temperature_for_one_response_is_lost_by_name() -> None:
    said: list[str] = []
    event = translate_client_to_current(client("response.create", response={"temperature": 1.0}), said.append)
    assert (said, event["response"]) == (["response.temperature"], {})


def test_modalities_of_a_transcription_are_lost_by_name() -> None:
    said: list[str] = []
    event = translate_client_to_current(
        client("transcription_session.update", session={"modalities": ["text"]}), said.append
    )
    assert (said, event["session"]) == (["session.modalities"], {"type": "transcription"})


def test_text_and_sound_together_are_sound_with_its_transcript() -> None:
    both = client("session.update", session={"modalities": ["audio", "text"]})
    assert translate_client_to_current(both)["session"]["output_modalities"] == ["audio"]


def test_another_rate_than_the_only_one_is_refused_rather_than_forgotten() -> None:
    slow = {"type": "realtime", "audio": {"input": {"format": {"type": "audio/pcm", "rate": 16000}}}}
    with pytest.raises(InvalidField) as error:
        translate_client_to_beta(client("session.update", session=slow))
    assert error.value.param == "session.audio.input.format.rate"


def test_a_member_that_hides_the_place_of_another_is_refused() -> None:
    with pytest.raises(InvalidField) as error:
        translate_client_to_current(client("session.update", session={"voice": "echo", "audio": "loud"}))
    assert error.value.param == "session.audio"


def test_formats_that_nobody_knows_keep_their_names() -> None:
    there = translate_client_to_current(client("session.update", session={"input_audio_format": "opus"}))
    assert there["session"]["audio"]["input"]["format"] == {"type": "opus"}
    assert translate_client_to_beta(there)["session"]["input_audio_format"] == "opus"


def test_a_voice_that_has_an_id_is_named_by_it() -> None:
    session = {"type": "realtime", "audio": {"output": {"voice": {"id": "voice_1"}}}}
    assert translate_client_to_beta(client("session.update", session=session))["session"] == {"voice": "voice_1"}


@pytest.mark.parametrize(
    ("role", "kind"), [("user", "input_text"), ("system", "input_text"), ("assistant", "output_text")]
)
def test_who_speaks_decides_what_a_text_is(role: str, kind: str) -> None:
    item = message(role, {"type": "text", "text": "Hi"})
    event = translate_client_to_current(client("conversation.item.create", item=item))
    assert event["item"]["content"] == [{"type": kind, "text": "Hi"}]


@pytest.mark.parametrize("word", ["added", "done"])
def test_a_content_part_is_plain_text_in_both_dialects(word: str) -> None:
    event = server(f"response.content_part.{word}", part={"type": "output_text", "text": "Hi"})
    for translate in (translate_server_to_current, translate_server_to_beta):
        assert translate(event)[0]["part"] == {"type": "text", "text": "Hi"}


def test_a_session_that_was_told_as_something_else_is_a_realtime_session() -> None:
    event = server("session.created", session={"type": "conversation", "voice": "echo"})
    assert translate_server_to_current(event)[0]["session"]["type"] == "realtime"


def test_a_call_without_a_name_gets_the_member_that_the_current_dialect_demands() -> None:
    event = server("response.function_call_arguments.done", arguments="{}")
    assert (
        translate_server_to_current(event)
        == translate_server_to_current({**event, "name": None})
        == [{**event, "name": ""}]
    )


def test_the_second_of_two_events_has_an_id_even_if_the_upstream_gave_none() -> None:
    item = message("user", {"type": "input_text", "text": "Hi"})
    added, done = translate_server_to_current({"type": "conversation.item.created", "item": item})
    assert "event_id" not in added
    assert done["event_id"].startswith("event_")


def test_an_item_that_is_not_there_is_not_done() -> None:
    assert len(translate_server_to_current(server("conversation.item.created", item=None))) == 1


@given(strategies.BETA_SESSIONS)
def test_a_session_means_the_same_after_the_way_there_and_back(session: Event) -> None:
    event = client("session.update", session=session)
    back = translate_client_to_beta(translate_client_to_current(event))["session"]
    if "modalities" in session:
        assert set(back.pop("modalities")) == set(session["modalities"])
    assert back == {name: value for name, value in session.items() if name != "modalities"}


@given(strategies.ANY_EVENT | strategies.mended())
def test_whatever_is_said_nothing_but_an_invalid_field_is_raised(event: Event) -> None:
    for translate in (
        translate_client_to_current,
        translate_client_to_beta,
        translate_server_to_current,
        translate_server_to_beta,
    ):
        before = copy.deepcopy(event)
        try:
            translate(event)
        except InvalidField as error:
            assert error.param
        assert event == before
