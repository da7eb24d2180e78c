"""What a chat body may hold, and the path that is named when it does not."""

from __future__ import annotations

from typing import Any

import pytest
from format_openai_calls import QUESTION, call_for, wire_with
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import force_setattr
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming

import tornado_gate_openai.format as plugin
from tornado_gate.errors import GateError, InvalidField
from tornado_gate_openai.fields.chat import ChatBodySchema, check_chat

WRONG: dict[str, list[Any]] = {
    "string": [True, 1, 1.5, [], {}],
    "boolean": [0, 1, "true", [], {}],
    "integer": [True, 1.5, "5", [], {}, 2**63, -(10**30)],
    "number": [True, "0.5", [], {}, 10**30],
    "array": [True, 1, "a", {}],
    "object": [True, 1, "a", []],
    "string or array": [True, 1, {}],
    "string or object": [True, 1, []],
}

FIELDS: dict[str, str] = {
    "model": "string",
    "messages": "array",
    "audio": "object",
    "frequency_penalty": "number",
    "function_call": "string or object",
    "functions": "array",
    "logit_bias": "object",
    "logprobs": "boolean",
    "max_completion_tokens": "integer",
    "max_tokens": "integer",
    "metadata": "object",
    "modalities": "array",
    "moderation": "object",
    "n": "integer",
    "parallel_tool_calls": "boolean",
    "prediction": "object",
    "presence_penalty": "number",
    "prompt_cache_key": "string",
    "prompt_cache_options": "object",
    "prompt_cache_retention": "string",
    "reasoning_effort": "string",
    "response_format": "object",
    "safety_identifier": "string",
    "seed": "integer",
    "service_tier": "string",
    "stop": "string or array",
    "store": "boolean",
    "stream": "boolean",
    "stream_options": "object",
    "temperature": "number",
    "tool_choice": "string or object",
    "tools": "array",
    "top_logprobs": "integer",
    "top_p": "number",
    "user": "string",
    "verbosity": "string",
    "web_search_options": "object",
}


def fault_of(body: Any) -> InvalidField:
    with pytest.raises(InvalidField) as caught:
        check_chat(body)
    return caught.value


def test_every_field_of_the_vendor_is_checked() -> None:
    vendors = {*CompletionCreateParamsNonStreaming.__annotations__}
    assert vendors == set(ChatBodySchema().fields) == set(FIELDS)


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, kind in FIELDS.items() for value in WRONG[kind]])
def test_a_value_of_the_wrong_type_is_named(name: str, value: Any) -> None:
    fault = fault_of(QUESTION | {name: value})
    assert (fault.param, fault.status, fault.code) == (name, 400, "invalid_value")
    assert f"'{name}'" in fault.message


@pytest.mark.parametrize("name", [name for name in FIELDS if name not in ("model", "messages")])
def test_null_says_nothing(name: str) -> None:
    check_chat(QUESTION | {name: None})


@pytest.mark.parametrize("name", ["model", "messages"])
def test_a_required_field_must_be_there(name: str) -> None:
    assert fault_of({**QUESTION, name: None}).param == name
    fault = fault_of({other: value for other, value in QUESTION.items() if other != name})
    assert (fault.param, fault.code) == (name, "missing_required_parameter")


@pytest.mark.parametrize(
    ("param", "fields"),
    [
        ("model", {"model": ""}),
        ("messages", {"messages": []}),
        ("messages", {"messages": [QUESTION["messages"][0]] * 10_001}),
        ("temperature", {"temperature": 2.1}),
        ("temperature", {"temperature": -0.1}),
        ("top_p", {"top_p": 1.1}),
        ("n", {"n": 0}),
        ("n", {"n": 129}),
        ("frequency_penalty", {"frequency_penalty": -2.5}),
        ("presence_penalty", {"presence_penalty": 3}),
        ("top_logprobs", {"logprobs": True, "top_logprobs": 21}),
        ("top_logprobs", {"top_logprobs": 2}),
        ("max_tokens", {"max_tokens": 0}),
        ("max_completion_tokens", {"max_completion_tokens": -1}),
        ("stop", {"stop": ["a"] * 5}),
        ("stop.1", {"stop": ["a", 1]}),
        ("logit_bias.50256", {"logit_bias": {"50256": "1"}}),
        ("metadata.a", {"metadata": {"a": 1}}),
        ("modalities.0", {"modalities": [1]}),
        ("stream_options", {"stream_options": {"include_usage": True}}),
        ("stream_options.include_usage", {"stream": True, "stream_options": {"include_usage": 1}}),
        ("response_format.type", {"response_format": {}}),
        ("response_format.type", {"response_format": {"type": "xml"}}),
        ("response_format.json_schema", {"response_format": {"type": "json_schema"}}),
        ("response_format.json_schema.name", {"response_format": {"type": "json_schema", "json_schema": {}}}),
        (
            "response_format.json_schema.schema",
            {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": 1}}},
        ),
        ("audio.format", {"audio": {"voice": "alloy"}}),
        ("audio.voice", {"audio": {"format": "wav", "voice": 1}}),
        ("audio.voice.id", {"audio": {"format": "wav", "voice": {}}}),
        ("prediction.type", {"prediction": {}}),
        ("prediction.content", {"prediction": {"type": "content"}}),
        ("prediction.content.0.type", {"prediction": {"type": "content", "content": [{}]}}),
        ("tools", {"tools": [{"type": "x"}] * 129}),
        ("tools.0", {"tools": [1]}),
        ("tools.0.type", {"tools": [{}]}),
        ("tools.0.function", {"tools": [{"type": "function"}]}),
        ("tools.0.function.name", {"tools": [{"type": "function", "function": {}}]}),
        ("tools.0.function.name", {"tools": [{"type": "function", "function": {"name": "a b"}}]}),
        ("tools.0.function.name", {"tools": [{"type": "function", "function": {"name": "a" * 129}}]}),
        (
            "tools.0.function.description",
            {"tools": [{"type": "function", "function": {"name": "f", "description": 1}}]},
        ),
        ("tools.0.function.parameters", {"tools": [{"type": "function", "function": {"name": "f", "parameters": []}}]}),
        ("tools.0.function.strict", {"tools": [{"type": "function", "function": {"name": "f", "strict": 1}}]}),
        ("tools.1.custom.name", {"tools": [{"type": "x"}, {"type": "custom", "custom": {}}]}),
        ("tool_choice", {"tool_choice": "any"}),
        ("tool_choice.type", {"tool_choice": {}}),
        ("tool_choice.function", {"tool_choice": {"type": "function"}}),
        ("tool_choice.function.name", {"tool_choice": {"type": "function", "function": {"name": 1}}}),
        ("tool_choice.allowed_tools.mode", {"tool_choice": {"type": "allowed_tools", "allowed_tools": {}}}),
        (
            "tool_choice.allowed_tools.tools",
            {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto"}}},
        ),
        ("functions.0", {"functions": [1]}),
        ("functions.0.name", {"functions": [{}]}),
        ("function_call", {"function_call": "required"}),
        ("function_call.name", {"function_call": {}}),
    ],
)
def test_a_value_out_of_bounds_is_named(param: str, fields: dict[str, Any]) -> None:
    assert fault_of(QUESTION | fields).param == param


CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


@pytest.mark.parametrize(
    ("param", "message"),
    [
        ("", 1),
        ("role", {"content": "Hi"}),
        ("role", {"role": None, "content": "Hi"}),
        ("role", {"role": "narrator", "content": "Hi"}),
        ("role", {"role": 1, "content": "Hi"}),
        ("content", {"role": "user"}),
        ("content", {"role": "system", "content": None}),
        ("content", {"role": "developer", "content": 1}),
        ("content", {"role": "user", "content": {}}),
        ("name", {"role": "user", "content": "Hi", "name": 1}),
        ("content.0", {"role": "user", "content": ["Hi"]}),
        ("content.0.type", {"role": "user", "content": [{"text": "Hi"}]}),
        ("content.0.type", {"role": "user", "content": [{"type": 1}]}),
        ("content.1.text", {"role": "user", "content": [{"type": "x"}, {"type": "text"}]}),
        ("content.0.text", {"role": "user", "content": [{"type": "text", "text": None}]}),
        ("content.0.refusal", {"role": "assistant", "content": [{"type": "refusal"}]}),
        ("content.0.image_url", {"role": "user", "content": [{"type": "image_url", "image_url": "https://a.example"}]}),
        ("content.0.image_url.url", {"role": "user", "content": [{"type": "image_url", "image_url": {}}]}),
        (
            "content.0.image_url.detail",
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u", "detail": "huge"}}]},
        ),
        ("content.0.input_audio.data", {"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}),
        (
            "content.0.input_audio.format",
            {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": ""}}]},
        ),
        ("content.0.file", {"role": "user", "content": [{"type": "file"}]}),
        ("content.0.file.file_id", {"role": "user", "content": [{"type": "file", "file": {"file_id": 1}}]}),
        ("content", {"role": "assistant"}),
        ("content", {"role": "assistant", "content": None, "tool_calls": None}),
        ("content", {"role": "assistant", "content": 1}),
        ("refusal", {"role": "assistant", "refusal": 1}),
        ("audio", {"role": "assistant", "audio": 1}),
        ("audio.id", {"role": "assistant", "audio": {}}),
        ("function_call.arguments", {"role": "assistant", "function_call": {"name": "f"}}),
        ("tool_calls", {"role": "assistant", "tool_calls": {}}),
        ("tool_calls.0", {"role": "assistant", "tool_calls": [1]}),
        ("tool_calls.0.id", {"role": "assistant", "tool_calls": [{"type": "function"}]}),
        ("tool_calls.0.type", {"role": "assistant", "tool_calls": [{"id": "c"}]}),
        ("tool_calls.0.function", {"role": "assistant", "tool_calls": [{"id": "c", "type": "function"}]}),
        (
            "tool_calls.1.function.arguments",
            {"role": "assistant", "tool_calls": [CALL, CALL | {"function": {"name": "f", "arguments": {}}}]},
        ),
        (
            "tool_calls.0.custom.name",
            {"role": "assistant", "tool_calls": [{"id": "c", "type": "custom", "custom": {}}]},
        ),
        ("tool_call_id", {"role": "tool", "content": "1"}),
        ("content", {"role": "tool", "tool_call_id": "c"}),
        ("name", {"role": "function", "content": "1"}),
        ("content", {"role": "function", "name": "f"}),
    ],
)
def test_a_wrong_message_is_named_by_its_path(param: str, message: Any) -> None:
    fault = fault_of({"model": "m", "messages": [QUESTION["messages"][0], message]})
    assert fault.param == ("messages.1." + param).rstrip(".")
    assert fault.message.startswith(f"'{fault.param}' ")


def test_missing_content_is_said_so() -> None:
    fault = fault_of({"model": "m", "messages": [{"role": "user"}]})
    assert (fault.message, fault.code) == ("'messages.0.content' is missing.", "missing_required_parameter")


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": "", "reasoning_content": "hm"},
        {"role": "assistant", "tool_calls": [CALL]},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "mcp", "mcp": {}}]},
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "assistant", "refusal": "No."},
        {"role": "assistant", "content": None, "audio": {"id": "a"}},
        {"role": "function", "name": "f", "content": None},
        {"role": "user", "content": [{"type": "video_url", "video_url": {}}], "x": 1},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u", "detail": None}}]},
    ],
)
def test_what_the_vendor_takes_passes(message: Any) -> None:
    check_chat({"model": "m", "messages": [message]})


def test_what_is_unknown_passes() -> None:
    check_chat(
        QUESTION
        | {
            "top_k": 5,
            "x_anything": None,
            "tools": [{"type": "namespace", "name": "n"}, {"type": "function", "function": {"name": "a.b-c"}}],
            "tool_choice": {"type": "mcp", "server_label": "s"},
            "max_tokens": 5,
            "max_completion_tokens": 5,
        }
    )


def test_a_default_model_stands_in_for_a_missing_one() -> None:
    body = {"messages": QUESTION["messages"]}
    request = plugin.translate_request(call_for("default"), wire_with(body))
    assert getattr(request, "model", None) == "default"


_words = st.text(st.characters(codec="utf-8"), max_size=5)
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | _words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_words | st.sampled_from([*FIELDS]), inner, max_size=3),
    max_leaves=8,
)
_known = st.sampled_from(
    [
        "text",
        "image_url",
        "input_audio",
        "file",
        "refusal",
        "function",
        "custom",
        "allowed_tools",
        "json_schema",
        "content",
    ]
)
_objects = st.dictionaries(
    st.sampled_from(["type", "name", "id", "arguments", "text", "file_id", "url", "data", "format", "mode", "tools"])
    | _known,
    st.deferred(lambda: _json | _known | _objects),
    max_size=4,
)
_roles = st.sampled_from(["system", "user", "assistant", "tool", "function"])
_message = st.dictionaries(
    st.sampled_from(["content", "name", "tool_calls", "tool_call_id", "audio", "refusal", "function_call"]),
    _json | st.lists(_objects, max_size=2) | _objects,
    max_size=4,
).flatmap(lambda message: _roles.map(lambda role: {"role": role, "content": "Hi", **message}))
_bodies = st.builds(
    lambda rest, messages: {"model": "m", "messages": messages, **rest},
    st.dictionaries(st.sampled_from([*FIELDS]) | _words, _json | _objects | st.lists(_objects, max_size=2), max_size=4),
    st.lists(_message | _json, min_size=1, max_size=3),
)


@given(body=_bodies | st.dictionaries(_words, _json))
def test_no_body_raises_anything_but_a_gate_error(body: dict[str, Any]) -> None:
    wire = wire_with({})
    force_setattr(wire, "json", body)
    try:
        plugin.translate_request(call_for(), wire)
    except GateError as error:
        assert error.status == 400
        assert error.param
