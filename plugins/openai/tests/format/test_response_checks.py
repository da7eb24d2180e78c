"""What the body of a response may hold, and the path that is named when it does not."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any, get_type_hints

import pytest
from format_openai_calls import FakeMemory, call_for, wire_with
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import force_setattr
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming

import tornado_gate_openai.format as plugin
from tornado_gate.codec.value_limits import check_for_upstream
from tornado_gate.errors import GateError, InvalidField
from tornado_gate_openai.fields.responses import ResponseBodySchema, check_response

QUESTION: dict[str, Any] = {"model": "m", "input": "Hi"}
WRONG: dict[str, list[Any]] = {
    "string": [True, 1, 1.5, [], {}],
    "boolean": [0, 1, "true", [], {}],
    "integer": [True, 1.5, "5", [], {}, 2**63],
    "number": [True, "0.5", [], {}],
    "array": [True, 1, "a", {}],
    "object": [True, 1, "a", []],
    "string or array": [True, 1, {}],
    "string or object": [True, 1, []],
}
FIELDS: dict[str, str] = {
    "model": "string",
    "input": "string or array",
    "access_programs": "object",
    "background": "boolean",
    "context_management": "array",
    "conversation": "string or object",
    "image": "object",
    "include": "array",
    "instructions": "string",
    "max_output_tokens": "integer",
    "max_tool_calls": "integer",
    "metadata": "object",
    "moderation": "object",
    "parallel_tool_calls": "boolean",
    "previous_response_id": "string",
    "prompt": "object",
    "prompt_cache_key": "string",
    "prompt_cache_options": "object",
    "prompt_cache_retention": "string",
    "reasoning": "object",
    "safety_identifier": "string",
    "service_tier": "string",
    "store": "boolean",
    "stream": "boolean",
    "stream_options": "object",
    "temperature": "number",
    "text": "object",
    "tool_choice": "string or object",
    "tools": "array",
    "top_logprobs": "integer",
    "top_p": "number",
    "truncation": "string",
    "user": "string",
}


def fault_of(body: Any) -> InvalidField:
    with pytest.raises(InvalidField) as caught:
        check_response(body)
    return caught.value


def test_every_field_of_the_vendor_is_checked() -> None:
    vendors = set(get_type_hints(ResponseCreateParamsNonStreaming))
    assert vendors == set(ResponseBodySchema().fields) == set(FIELDS)


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, kind in FIELDS.items() for value in WRONG[kind]])
def test_a_value_of_the_wrong_type_is_named(name: str, value: Any) -> None:
    fault = fault_of(QUESTION | {name: value})
    assert (fault.param, fault.status, fault.code) == (name, 400, "invalid_value")


@pytest.mark.parametrize("name", [name for name in FIELDS if name not in QUESTION])
def test_null_says_nothing(name: str) -> None:
    check_response(QUESTION | {name: None})


@pytest.mark.parametrize("name", ["model", "input"])
def test_a_required_field_must_be_there(name: str) -> None:
    assert fault_of({**QUESTION, name: None}).param == name
    fault = fault_of({other: value for other, value in QUESTION.items() if other != name})
    assert (fault.param, fault.code) == (name, "missing_required_parameter")


@pytest.mark.parametrize("value", ["", []])
@pytest.mark.parametrize("earlier", [{"previous_response_id": "resp_1"}, {"conversation": "conv_1"}])
def test_a_request_that_continues_something_may_have_an_empty_input(value: Any, earlier: dict[str, Any]) -> None:
    check_response({**QUESTION, "input": value, **earlier})


@pytest.mark.parametrize("body", [{"model": "m"}, {"model": "m", "input": ""}, {"model": "m", "input": []}])
def test_a_prompt_template_of_the_upstream_may_be_the_whole_input(body: dict[str, Any]) -> None:
    prompt = {"prompt": {"id": "pmpt_1"}}
    check_for_upstream(check_response, {**body, **prompt})
    with pytest.raises(InvalidField) as caught:
        check_response({**body, **prompt})
    assert (caught.value.param, caught.value.code) == ("input", "missing_required_parameter")
    with pytest.raises(InvalidField) as caught:
        check_for_upstream(check_response, body)
    assert (caught.value.param, caught.value.code) == ("input", "missing_required_parameter")


FUNCTION = {"type": "function", "name": "f"}


@pytest.mark.parametrize(
    ("param", "fields"),
    [
        ("model", {"model": ""}),
        ("input", {"input": []}),
        ("input", {"input": ""}),
        ("input", {"input": [], "instructions": "Hi"}),
        ("input", {"input": "", "prompt": {"id": "pmpt_1"}}),
        ("input", {"input": [{"role": "user", "content": "Hi"}] * 10_001}),
        ("temperature", {"temperature": 2.1}),
        ("top_p", {"top_p": -0.1}),
        ("top_logprobs", {"top_logprobs": 21}),
        ("max_output_tokens", {"max_output_tokens": 0}),
        ("max_tool_calls", {"max_tool_calls": 0}),
        ("truncation", {"truncation": "maybe"}),
        ("metadata.a", {"metadata": {"a": 1}}),
        ("include.0", {"include": [1]}),
        ("conversation.id", {"conversation": {}}),
        ("prompt.id", {"prompt": {}}),
        ("reasoning.effort", {"reasoning": {"effort": 1}}),
        ("reasoning.summary", {"reasoning": {"summary": []}}),
        ("context_management.0.type", {"context_management": [{}]}),
        ("stream_options", {"stream_options": {"include_obfuscation": False}}),
        ("stream_options.include_obfuscation", {"stream": True, "stream_options": {"include_obfuscation": 1}}),
        ("text.verbosity", {"text": {"verbosity": 1}}),
        ("text.format.type", {"text": {"format": {}}}),
        ("text.format.type", {"text": {"format": {"type": "xml"}}}),
        ("text.format.name", {"text": {"format": {"type": "json_schema", "schema": {}}}}),
        ("text.format.schema", {"text": {"format": {"type": "json_schema", "name": "n"}}}),
        ("text.format.strict", {"text": {"format": {"type": "json_schema", "strict": 1}}}),
        ("tools.0", {"tools": [1]}),
        ("tools.0.type", {"tools": [{}]}),
        ("tools.0.name", {"tools": [{"type": "function"}]}),
        ("tools.0.name", {"tools": [{"type": "function", "name": "a b"}]}),
        ("tools.0.name", {"tools": [{"type": "custom"}]}),
        ("tools.0.parameters", {"tools": [FUNCTION | {"parameters": []}]}),
        ("tools.0.strict", {"tools": [FUNCTION | {"strict": 1}]}),
        ("tools.0.description", {"tools": [FUNCTION | {"description": 1}]}),
        ("tool_choice", {"tool_choice": "any"}),
        ("tool_choice.type", {"tool_choice": {}}),
        ("tool_choice.name", {"tool_choice": {"type": "function"}}),
        ("tool_choice.mode", {"tool_choice": {"type": "allowed_tools", "tools": []}}),
        ("tool_choice.tools", {"tool_choice": {"type": "allowed_tools", "mode": "auto"}}),
    ],
)
def test_a_value_out_of_bounds_is_named(param: str, fields: dict[str, Any]) -> None:
    assert fault_of(QUESTION | fields).param == param


CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}


def without(value: dict[str, Any], name: str) -> dict[str, Any]:
    return {other: member for other, member in value.items() if other != name}


@pytest.mark.parametrize(
    ("param", "item"),
    [
        ("", 1),
        ("type", {}),
        ("type", {"type": 1}),
        ("role", {"role": "nobody", "content": "Hi"}),
        ("role", {"type": "message", "content": "Hi"}),
        ("content", {"role": "user"}),
        ("content", {"role": "user", "content": None}),
        ("content.0", {"role": "user", "content": ["Hi"]}),
        ("content.0.type", {"role": "user", "content": [{"text": "Hi"}]}),
        ("content.0.text", {"role": "user", "content": [{"type": "input_text"}]}),
        ("content.0.text", {"role": "user", "content": [{"type": "text", "text": 1}]}),
        ("content.0.text", {"role": "assistant", "content": [{"type": "output_text"}]}),
        ("content.0.refusal", {"role": "assistant", "content": [{"type": "refusal"}]}),
        ("content.0.image_url", {"role": "user", "content": [{"type": "input_image"}]}),
        ("content.0.image_url", {"role": "user", "content": [{"type": "input_image", "image_url": {"url": "u"}}]}),
        ("content.0.detail", {"role": "user", "content": [{"type": "input_image", "file_id": "f", "detail": 1}]}),
        ("content.0.file_data", {"role": "user", "content": [{"type": "input_file", "file_data": 1}]}),
        ("content.0.input_audio", {"role": "user", "content": [{"type": "input_audio"}]}),
        (
            "content.0.input_audio.format",
            {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": ""}}]},
        ),
        ("call_id", without(CALL, "call_id")),
        ("name", without(CALL, "name")),
        ("arguments", CALL | {"arguments": {}}),
        ("input", {"type": "custom_tool_call", "call_id": "c", "name": "f"}),
        ("call_id", {"type": "function_call_output", "output": "1"}),
        ("output", {"type": "function_call_output", "call_id": "c"}),
        ("output.0.type", {"type": "custom_tool_call_output", "call_id": "c", "output": [{}]}),
        ("summary", {"type": "reasoning", "summary": "hm"}),
        ("summary.0.text", {"type": "reasoning", "summary": [{}]}),
        ("content.0", {"type": "reasoning", "summary": [], "content": ["hm"]}),
        ("encrypted_content", {"type": "reasoning", "summary": [], "encrypted_content": 1}),
        ("id", {"type": "item_reference"}),
        ("id", {"id": 5}),
    ],
)
def test_a_wrong_item_is_named_by_its_path(param: str, item: Any) -> None:
    fault = fault_of({"model": "m", "input": [{"role": "user", "content": "Hi"}, item]})
    assert fault.param == ("input.1." + param).rstrip(".")
    assert fault.message.startswith(f"'{fault.param}' ")


@pytest.mark.parametrize(
    "item",
    [
        {"type": "message", "role": "developer", "content": [{"type": "input_video", "x": 1}], "x": 1},
        {"role": "user", "content": [{"type": "input_image", "file_id": "f", "image_url": None}]},
        {"type": "function_call_output", "name": "f", "output": "1", "call_id": None},
        {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "1"}]},
        {"type": "reasoning", "summary": None, "encrypted_content": None},
        {"type": "web_search_call", "anything": [1]},
        {"id": "msg_1"},
        {"type": "additional_tools", "role": "developer", "tools": []},
    ],
)
def test_what_the_vendor_takes_passes(item: Any) -> None:
    check_response({"model": "m", "input": [item]})


def test_large_sets_of_unknown_tools_pass() -> None:
    tools = [{"type": "namespace", "name": "n", "tools": []}, *({**FUNCTION, "name": f"f{n}"} for n in range(500))]
    check_response(QUESTION | {"tools": tools, "tool_choice": {"type": "mcp", "server_label": "s"}, "x_new": 1})


_words = st.text(st.characters(codec="utf-8"), max_size=5)
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | _words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_words | st.sampled_from([*FIELDS]), inner, max_size=3),
    max_leaves=8,
)
_known = st.sampled_from(
    [
        "message",
        "user",
        "assistant",
        "function_call",
        "custom_tool_call",
        "function_call_output",
        "reasoning",
        "item_reference",
        "input_text",
        "input_image",
        "input_file",
        "input_audio",
        "output_text",
        "refusal",
        "function",
        "custom",
        "allowed_tools",
        "json_schema",
    ]
)
_objects = st.dictionaries(
    st.sampled_from(
        (
            *(
                "type",
                "role",
                "content",
                "name",
                "id",
                "call_id",
                "arguments",
                "output",
                "summary",
                "text",
                "image_url",
            ),
            *("file_id", "file_data", "input_audio", "refusal", "tools", "mode", "format", "schema", "input"),
        )
    ),
    st.deferred(lambda: _json | _known | _objects | st.lists(_objects, max_size=2)),
    max_size=5,
)
_bodies = st.builds(
    lambda rest, items: {"model": "m", "input": items, **rest},
    st.dictionaries(st.sampled_from([*FIELDS]) | _words, _json | _objects | st.lists(_objects, max_size=2), max_size=4),
    st.lists(_objects | _json, min_size=1, max_size=3) | _words,
)


@given(body=_bodies | st.dictionaries(_words, _json))
def test_no_body_raises_anything_but_a_gate_error(body: dict[str, Any]) -> None:
    wire = wire_with({}, "/v1/responses")
    force_setattr(wire, "json", body)

    async def translate() -> None:
        result: Any = plugin.translate_request(call_for(memory=FakeMemory()), wire)
        assert inspect.isawaitable(result)
        await result

    try:
        asyncio.run(translate())
    except GateError as error:
        assert error.status in (400, 404)
        assert error.param
