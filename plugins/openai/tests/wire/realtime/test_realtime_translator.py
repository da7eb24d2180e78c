"""The translator between a caller and an upstream: texts in, texts out, and sound that is never parsed."""

from __future__ import annotations

import base64
import json
from typing import Any

import orjson
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from plugins.openai.tests.wire.realtime import golden, strategies
from plugins.openai.tests.wire.realtime.golden import (
    CALL,
    CLIENT,
    CURRENT_ONLY,
    PLACE,
    SERVER,
    Event,
    Pair,
    message,
    server,
)
from tornado_gate.errors import InvalidField
from tornado_gate.types import RealtimeDialect
from tornado_gate_openai.wire.realtime import (
    EventTranslator,
    peek_type,
    texts,
    translate_client_to_beta,
    translate_client_to_current,
    translate_server_to_beta,
    translate_server_to_current,
    translator,
)

BETA_CALLER: tuple[RealtimeDialect, RealtimeDialect] = ("beta", "current")
CURRENT_CALLER: tuple[RealtimeDialect, RealtimeDialect] = ("current", "beta")
DIRECTIONS = [BETA_CALLER, CURRENT_CALLER]
SOUND = base64.b64encode(bytes(range(256)) * 300).decode()


def told(caller: EventTranslator, *events: Event) -> list[Event]:
    return [json.loads(text) for event in events for text in caller.translate_server_message(json.dumps(event))]


@pytest.mark.parametrize("pair", CLIENT, ids=lambda pair: str(pair.beta["type"]))
def test_what_a_client_says_is_put_into_the_upstreams_dialect(pair: Pair) -> None:
    [there] = EventTranslator(*BETA_CALLER).translate_client_message(json.dumps(pair.beta))
    assert json.loads(there) == pair.current[0]
    [back] = EventTranslator(*CURRENT_CALLER).translate_client_message(there)
    assert json.loads(back) == pair.beta


@pytest.mark.parametrize("pair", SERVER, ids=lambda pair: str(pair.beta["type"]))
def test_what_a_server_says_is_put_into_the_callers_dialect(pair: Pair) -> None:
    assert told(EventTranslator(*CURRENT_CALLER), pair.beta) == pair.current
    assert told(EventTranslator(*BETA_CALLER), *pair.current) == [pair.beta]


@pytest.mark.parametrize("dialect", ["beta", "current"])
@pytest.mark.parametrize("text", ["{}", "no JSON", '{"type":"response.audio.delta"}', '{"type":"session.update"}'])
def test_texts_pass_untouched_where_both_speak_the_same(dialect: RealtimeDialect, text: str) -> None:
    same = EventTranslator(dialect, dialect)
    assert same.translate_client_message(text) == [text]
    assert same.translate_server_message(text) == [text]


def test_sound_from_the_server_is_renamed_without_being_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translator, "parse_event", None)
    text = f'{{"type": "response.output_audio.delta", "event_id": "event_1", "delta": "{SOUND}"}}'
    assert EventTranslator(*BETA_CALLER).translate_server_message(text) == [text.replace("output_audio", "audio")]


def test_sound_from_a_client_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translator, "parse_client_event", None)
    text = f'{{"event_id":"e","type":"input_audio_buffer.append","audio":"{SOUND}"}}'
    assert EventTranslator(*BETA_CALLER).translate_client_message(text) == [text]


def test_no_other_character_than_those_of_the_type_changes() -> None:
    text = ' {"output_index" : 0,\n "ok":true, "none":null, "type" :\t"response.audio.delta" , "delta":"AA=="} '
    renamed = text.replace("response.audio", "response.output_audio")
    assert EventTranslator(*CURRENT_CALLER).translate_server_message(text) == [renamed]


@pytest.mark.parametrize(
    "text",
    [
        '{"type":"response.audio.delta","delta":"A","type":"response.done"}',
        '{"type":"response.audio.delta","delta":"A","\\u0074ype":"response.done"}',
        '{"\\u0074ype":"response.audio.delta","type":"response.done"}',
        '{"item":{"type":"response.audio.delta"},"type":"response.done"}',
        '{"a":"\\"type\\":\\"response.audio.delta\\"","type":"response.done"}',
        '{"a":[1],"type":"response.done"}',
        '{"a":"' + "x" * 300 + '","type":"response.done"}',
        '{"type":"response.audio.delta" "delta"',
        '["type","response.audio.delta"]',
    ],
)
def test_a_type_that_is_not_sure_is_not_found_without_parsing(text: str) -> None:
    assert texts.find_type(text) is None
    assert peek_type(text) in ("response.done", None)


@pytest.mark.parametrize("text", ["", "[]", "7", "null", '"x"', "{", "{}", '{"type":5}', '{"type":null}'])
def test_a_text_that_is_no_event_has_no_type(text: str) -> None:
    assert peek_type(text) is None


@pytest.mark.parametrize(
    ("text", "param", "code"),
    [
        ("", "", "invalid_json"),
        ("{", "", "invalid_json"),
        ("[]", "", "invalid_json"),
        ("\ud800", "", "invalid_json"),
        ("[" * 500 + "]" * 500, "", "invalid_json"),
        ("{}", "type", "missing_required_parameter"),
        ('{"type":5}', "type", "invalid_value"),
        ('{"type":"session.update","type":"session.update"}', "type", "duplicate_name"),
    ],
)
def test_a_client_is_told_why_its_message_is_no_event(text: str, param: str, code: str) -> None:
    with pytest.raises(InvalidField) as error:
        EventTranslator(*BETA_CALLER).translate_client_message(text)
    assert (error.value.param, error.value.code) == (param, code)
    assert "body" not in error.value.message


def test_client_events_of_unknown_types_are_the_upstreams_affair() -> None:
    for text in ('{"type":"x.new"}', '{"type":"x\\u002enew","session":{"voice":"a"}}'):
        assert EventTranslator(*BETA_CALLER).translate_client_message(text) == [text]


@pytest.mark.parametrize(
    "text", ["no JSON", "[]", "\ud800", '{"type":7}', '{"type":"response.done","response":', "[" * 2000]
)
def test_what_no_server_should_say_passes_as_it_came(text: str) -> None:
    for direction in DIRECTIONS:
        assert EventTranslator(*direction).translate_server_message(text) == [text]


def test_a_server_event_that_cannot_be_said_otherwise_passes_as_it_came() -> None:
    hidden = json.dumps(server("session.created", session={"voice": "echo", "audio": "loud"}))
    deep = json.dumps(server("session.created", session={"x": json.loads("[" * 300 + "]" * 300)}))
    assert EventTranslator(*CURRENT_CALLER).translate_server_message(hidden) == [hidden]
    assert EventTranslator(*CURRENT_CALLER).translate_server_message(deep) == [deep]


def test_what_is_lost_is_told_to_the_gateway() -> None:
    lost: list[str] = []
    EventTranslator(*BETA_CALLER, lost.append).translate_client_message(
        '{"type":"session.update","session":{"temperature":0.7}}'
    )
    assert lost == ["session.temperature"]


def test_an_answer_is_added_when_it_begins_and_done_when_it_ends() -> None:
    begun, ended = message("assistant", status="in_progress"), {**golden.SAID_BETA, "status": "completed"}
    heard = told(
        EventTranslator(*CURRENT_CALLER),
        server("response.output_item.added", **golden.OUTPUT, item=begun),
        server("conversation.item.created", item=begun, previous_item_id="item_0"),
        server("response.output_item.done", **golden.OUTPUT, item=ended),
        server("response.done", response=golden.RESPONSE_BETA),
    )
    assert [event["type"] for event in heard] == [
        "response.output_item.added",
        "conversation.item.added",
        "conversation.item.done",
        "response.output_item.done",
        "response.done",
    ]
    done = heard[2]
    assert done["previous_item_id"] == "item_0"
    assert done["item"] == heard[3]["item"] == {**golden.SAID_CURRENT, "status": "completed"}
    assert len({heard[2]["event_id"], heard[3]["event_id"]}) == 2
    for event in heard:
        golden.CURRENT_SERVER.validate_python(event)


def test_an_answer_outside_the_conversation_is_never_done_in_it() -> None:
    ended = server("response.output_item.done", item={**golden.SAID_BETA, "status": "completed"})
    assert [event["type"] for event in told(EventTranslator(*CURRENT_CALLER), ended)] == ["response.output_item.done"]


def test_an_item_is_done_once() -> None:
    speaker = EventTranslator(*CURRENT_CALLER)
    ended = server("response.output_item.done", item=golden.SAID_BETA)
    told(speaker, server("conversation.item.created", item=message("assistant", status="in_progress")))
    assert [len(told(speaker, ended)), len(told(speaker, ended))] == [2, 1]


def test_a_call_of_a_function_is_told_with_its_name() -> None:
    heard = told(
        EventTranslator(*CURRENT_CALLER),
        server("response.output_item.added", item=CALL),
        server("response.function_call_arguments.done", item_id=CALL["id"], arguments="{}"),
    )
    assert heard[1]["name"] == "weather"


def test_a_name_that_the_upstream_gives_is_kept() -> None:
    event = server("response.function_call_arguments.done", item_id="item_2", arguments="{}", name="its own")
    assert told(EventTranslator(*CURRENT_CALLER), event) == [event]


def test_what_is_remembered_is_bounded() -> None:
    speaker = EventTranslator(*CURRENT_CALLER)
    for number in range(translator.MAX_REMEMBERED + 5):
        item = message("assistant", status="in_progress") | {"id": f"item_{number}"}
        told(speaker, server("conversation.item.created", item=item))
    first, last = ({**golden.SAID_BETA, "id": f"item_{number}"} for number in (0, translator.MAX_REMEMBERED + 4))
    assert len(told(speaker, server("response.output_item.done", item=first))) == 1
    assert len(told(speaker, server("response.output_item.done", item=last))) == 2


def test_a_conversation_of_a_beta_caller_has_each_item_once() -> None:
    item = message("user", {"type": "input_text", "text": "Hi"})
    heard = told(
        EventTranslator(*BETA_CALLER),
        server("conversation.item.added", item=item, previous_item_id="item_0"),
        server("conversation.item.done", item=item),
    )
    assert heard == [server("conversation.item.created", item=item, previous_item_id="item_0")]


def dumped(event: Event, spaced: bool) -> str:
    return json.dumps(event, indent=1) if spaced else json.dumps(event, ensure_ascii=False, separators=(",", ":"))


@given(strategies.ANY_EVENT | strategies.mended(), st.booleans(), st.randoms())
def test_the_fast_path_says_what_the_slow_one_says(event: Event, spaced: bool, random: Any) -> None:
    members = list(event.items())
    random.shuffle(members)
    event = dict(members)
    if not event.get("event_id") or not isinstance(event["event_id"], str):
        event["event_id"] = "event_1"  # without one, the second of two events has another id each time
    text = dumped(event, spaced)
    kind = event["type"] if isinstance(event["type"], str) else None
    assert peek_type(text) == kind
    for direction, to_client, to_server in (
        (CURRENT_CALLER, translate_client_to_beta, translate_server_to_current),
        (BETA_CALLER, translate_client_to_current, translate_server_to_beta),
    ):
        told = outcome(lambda d=direction: EventTranslator(*d).translate_client_message(text))
        assert told == ("type" if kind is None else outcome(lambda f=to_client: [f(event)]))
        fast = outcome(lambda d=direction: EventTranslator(*d).translate_server_message(text))
        slow = outcome(lambda f=to_server: f(event))
        assert fast == ([event] if isinstance(slow, str) else slow)


def outcome(run: Any) -> Any:
    """What comes out: events, or the field that is wrong."""
    try:
        return [json.loads(one) if isinstance(one, str) else json.loads(json.dumps(one)) for one in run()]
    except InvalidField as error:
        return error.param


@given(st.text() | st.binary().map(lambda raw: raw.decode("latin-1")) | strategies.JSON.map(json.dumps))
def test_no_text_raises_anything_but_an_invalid_field(text: str) -> None:
    for direction in DIRECTIONS:
        assert isinstance(EventTranslator(*direction).translate_server_message(text), list)
        try:
            assert EventTranslator(*direction).translate_client_message(text)
        except InvalidField:
            assert peek_type(text) is None or "type" in text


@given(st.text(alphabet='{}":,\\typ ex0[]1', max_size=60))
def test_a_type_that_is_found_is_the_one_that_a_parser_finds(inside: str) -> None:
    text = '{"a":"' + inside + '","type":"x.y"}'
    found = texts.find_type(text)
    try:
        event = orjson.loads(text)
    except orjson.JSONDecodeError:
        assume(False)
    assert found is None or found.group(1) == event["type"]


@pytest.mark.parametrize(
    "event", [*(pair.beta for pair in SERVER), *CURRENT_ONLY], ids=lambda event: str(event["type"])
)
def test_events_as_servers_write_them_take_the_fast_path(event: Event) -> None:
    flat = {name: value for name, value in event.items() if not isinstance(value, (dict, list))}
    text = json.dumps({**flat, **PLACE}, separators=(",", ":"))
    found = texts.find_type(text)
    assert found is not None
    assert found.group(1) == event["type"]


@pytest.mark.parametrize(
    ("beta", "current"),
    [
        ("session.voice", "session.audio.output.voice"),
        ("session.turn_detection.threshold", "session.audio.input.turn_detection.threshold"),
        ("response.modalities", "response.output_modalities"),
        ("session.instructions", "session.instructions"),
        ("item_id", "item_id"),
    ],
)
def test_an_error_names_the_field_as_the_caller_wrote_it(beta: str, current: str) -> None:
    def told(caller: Any, upstream: Any, param: str) -> str:
        event = {"type": "error", "event_id": "e", "error": {"message": "m", "param": param, "event_id": None}}
        (text,) = EventTranslator(caller, upstream).translate_server_message(json.dumps(event))
        answer: str = json.loads(text)["error"]["param"]
        return answer

    assert told("beta", "current", current) == beta
    assert told("current", "beta", beta) == current
    assert told("current", "current", current) == current


@pytest.mark.parametrize(
    ("param", "message", "expected"),
    [
        (
            "session.audio.output.voice",
            "'session.audio.output.voice' must be a string.",
            "'session.voice' must be a string.",
        ),
        (
            "session.audio.input.format.type",
            "'session.audio.input.format.type' must be one of 'audio/pcm' or 'audio/pcmu', not 'mp3'.",
            "'session.input_audio_format' must be one of 'pcm16' or 'g711_ulaw', not 'mp3'.",
        ),
    ],
)
def test_the_message_of_an_error_has_the_words_of_a_beta_caller(param: str, message: str, expected: str) -> None:
    event = {"type": "error", "event_id": "e", "error": {"message": message, "param": param, "event_id": None}}
    (text,) = EventTranslator("beta", "current").translate_server_message(json.dumps(event))
    error = json.loads(text)["error"]
    assert (error["message"], error["param"]) == (expected, expected.split("'")[1])
