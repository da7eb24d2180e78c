"""Which tools are called, when, and with what."""

from __future__ import annotations

import re

import orjson
import pytest

from tornado_gate.errors import InvalidField
from tornado_gate.types import Message, PartStart, Text, Tool, ToolCall, ToolChoice, ToolResult, VendorTool
from tornado_gate_local.answer import make_choices
from tornado_gate_local.words import split_name

CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}},
    "required": ["city"],
}
WEATHER = Tool(name="get_weather", description="Get the current weather of a city", parameters=CITY)
STOCKS = Tool(name="getStockPrice", description="Price of one share on the exchange")
ADD = Tool(
    name="add",
    parameters={
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    },
)
ALL = (WEATHER, STOCKS, ADD)


def called(request) -> list[ToolCall]:
    [choice] = make_choices(request, "salt")
    found = [part for part in choice.parts if isinstance(part, ToolCall)]
    assert (choice.reason == "tool_calls") == bool(found)
    return found


def names(request) -> list[str]:
    return [call.name for call in called(request)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("What is the weather in Paris?", ["get_weather"]),
        ("How are stocks doing?", ["getStockPrice"]),
        ("Please call get_weather", ["get_weather"]),
        ("Which share on the exchange is best?", ["getStockPrice"]),
        ("Weather in Rome and the price of gold", ["get_weather", "getStockPrice"]),
        ("Get me the best for a friend", []),
        ("Hello!", []),
    ],
)
def test_auto_calls_what_the_words_of_the_user_meet(chat, text, expected):
    assert names(chat(text, tools=ALL)) == expected
    assert names(chat(text, tools=ALL, tool_choice=ToolChoice(mode="auto"))) == expected


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (ToolChoice(mode="none"), []),
        (ToolChoice(mode="required"), ["get_weather"]),
        (ToolChoice(mode="tool", name="add"), ["add"]),
        (ToolChoice(mode="allowed", names=("add",), required=True), ["add"]),
        (ToolChoice(mode="allowed", names=("add",)), []),
        (ToolChoice(mode="allowed", names=("get_weather",)), ["get_weather"]),
    ],
)
def test_tool_choice_rules_over_the_words(chat, choice, expected):
    assert names(chat("What is the weather in Paris?", tools=ALL, tool_choice=choice)) == expected


def test_required_calls_the_first_tool_when_no_words_meet(chat):
    assert names(chat("Hello!", tools=ALL, tool_choice=ToolChoice(mode="required"))) == ["get_weather"]


def test_a_forced_tool_that_was_not_given_is_an_invalid_field(chat):
    request = chat(tools=ALL, tool_choice=ToolChoice(mode="tool", name="nowhere"))
    with pytest.raises(InvalidField) as caught:
        make_choices(request, "salt")
    assert caught.value.param == "tool_choice"


def test_without_parallel_calls_only_one_tool_is_called(chat):
    text = "Weather in Rome and the price of gold"
    assert names(chat(text, tools=ALL, parallel_tool_calls=False)) == ["get_weather"]


def after_tools(chat, **rest):
    messages = (
        Message(role="user", parts=(Text(text="What is the weather in Paris?"),)),
        Message(role="assistant", parts=(ToolCall(id="call_1", name="get_weather", arguments="{}"),)),
        Message(role="tool", parts=(ToolResult(call_id="call_1", parts=(Text(text="18 degrees"),)),)),
    )
    return chat(messages=messages, tools=ALL, **rest)


def test_after_results_it_answers_with_text(chat):
    [choice] = make_choices(after_tools(chat), "salt")
    assert choice.reason == "stop"
    assert "18 degrees" in choice.parts[0].text


def test_after_results_it_calls_again_when_forced(chat):
    assert names(after_tools(chat, tool_choice=ToolChoice(mode="required"))) == ["get_weather"]


def test_arguments_come_from_the_text(chat):
    [call] = called(chat("What is the weather in San Francisco, in Fahrenheit?", tools=ALL))
    assert orjson.loads(call.arguments) == {"city": "San Francisco", "unit": "fahrenheit"}


def test_an_optional_argument_that_is_not_mentioned_is_left_out(chat):
    [call] = called(chat("What is the weather in paris?", tools=ALL))
    assert orjson.loads(call.arguments) == {"city": "Paris"}


def test_numbers_are_taken_in_order(chat):
    [call] = called(chat("Add 3 and 5", tools=ALL))
    assert orjson.loads(call.arguments) == {"a": 3, "b": 5}


@pytest.mark.parametrize("parameters", [None, {}, {"type": "object"}, {"type": "string"}, {"properties": {}}])
def test_arguments_are_always_an_object(chat, parameters):
    [call] = called(chat("Run the probe", tools=(Tool(name="probe", parameters=parameters),)))
    assert isinstance(orjson.loads(call.arguments), dict)


def test_ids_look_like_ids_and_differ(chat):
    request = chat("Weather in Rome and the price of gold", tools=ALL, n=2)
    ids = [part.id for salt in ("one", "two") for choice in make_choices(request, salt) for part in choice.parts]
    assert all(re.fullmatch("call_[0-9a-f]{24}", each) for each in ids)
    assert len(set(ids)) == 8


def test_max_tokens_cuts_the_arguments_of_a_call(chat):
    [choice] = make_choices(chat("Weather in Paris", tools=ALL, max_tokens=6), "salt")
    assert choice.reason == "length"
    assert choice.parts[0].arguments == '{"city'


def test_tools_of_a_vendor_are_never_called(chat):
    tool = VendorTool(wire_format="openai_chat", value={"type": "web_search"})
    assert called(chat("search the web", tools=(tool,), tool_choice=ToolChoice(mode="required"))) == []


@pytest.mark.gen_test
async def test_a_call_is_streamed_with_its_name_first(stream_events, chat):
    events = await stream_events(chat("Weather in Paris", tools=ALL, stream=True))
    start = events[1]
    assert isinstance(start, PartStart)
    assert (start.kind, start.name) == ("tool_call", "get_weather")
    assert "".join(event.data for event in events[2:-3]) == '{"city":"Paris"}'


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("get_weather", ["get", "weather"]),
        ("getStockPrice", ["get", "stock", "price"]),
        ("HTTPServer-v2", ["http", "server", "v", "2"]),
    ],
)
def test_names_are_split_into_words(name, parts):
    assert split_name(name) == parts
