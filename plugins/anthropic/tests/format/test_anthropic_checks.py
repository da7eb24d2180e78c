"""The allowed contents of a messages body, and the path that a fault names."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic.types import MessageCountTokensParams
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
from format_anthropic_calls import QUESTION, VERSION, call_for, wire_with
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import force_setattr

import tornado_gate_anthropic.format as plugin
from tornado_gate.errors import GateError, InvalidField
from tornado_gate.types import ChatRequest
from tornado_gate.types.value import replace
from tornado_gate_anthropic.fields import MessagesBodySchema, check_messages_body

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
    "cache_control": "object",
    "container": "string or object",
    "diagnostics": "object",
    "inference_geo": "string",
    "max_tokens": "integer",
    "metadata": "object",
    "output_config": "object",
    "service_tier": "string",
    "speed": "string",
    "stop_sequences": "array",
    "stream": "boolean",
    "system": "string or array",
    "temperature": "number",
    "thinking": "object",
    "tool_choice": "object",
    "tools": "array",
    "top_k": "integer",
    "top_p": "number",
}
IN_HEADERS = {"user_profile_id", "workspace_id"}
NO_LONGER_IN_THE_SDK = {"temperature", "top_k", "top_p"}


def translate(body: Any) -> ChatRequest:
    request = plugin.translate_request(call_for(), wire_with(body))
    assert isinstance(request, ChatRequest)
    return request


def fault_of(body: Any) -> InvalidField:
    with pytest.raises(InvalidField) as caught:
        check_messages_body(body)
    return caught.value


def test_every_field_of_the_vendor_is_checked() -> None:
    vendors = {*MessageCreateParamsNonStreaming.__annotations__} - IN_HEADERS
    assert vendors | NO_LONGER_IN_THE_SDK == set(MessagesBodySchema().fields) == set(FIELDS)
    assert {*MessageCountTokensParams.__annotations__} - IN_HEADERS <= set(FIELDS)


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, kind in FIELDS.items() for value in WRONG[kind]])
def test_a_value_of_the_wrong_type_is_named(name: str, value: Any) -> None:
    fault = fault_of(QUESTION | {name: value})
    assert (fault.param, fault.status, fault.code) == (name, 400, "invalid_value")
    assert f"'{name}'" in fault.message


@pytest.mark.parametrize("name", [name for name in FIELDS if name not in ("model", "messages")])
def test_null_says_nothing(name: str) -> None:
    with_null = translate(QUESTION | {name: None})
    assert with_null.extra in ({}, {name: None})
    assert replace(with_null, extra={}) == translate({other: QUESTION[other] for other in QUESTION if other != name})


@pytest.mark.parametrize("name", ["model", "messages"])
def test_a_required_field_must_be_there(name: str) -> None:
    assert fault_of({**QUESTION, name: None}).param == name
    fault = fault_of({other: value for other, value in QUESTION.items() if other != name})
    assert (fault.param, fault.code) == (name, "missing_required_parameter")


def test_a_limit_may_be_missing() -> None:
    assert translate({"model": "m", "messages": QUESTION["messages"]}).max_tokens is None


@pytest.mark.parametrize(
    ("param", "fields"),
    [
        ("model", {"model": ""}),
        ("messages", {"messages": []}),
        ("max_tokens", {"max_tokens": -1}),
        ("temperature", {"temperature": 1.1}),
        ("temperature", {"temperature": -0.1}),
        ("top_p", {"top_p": 1.1}),
        ("top_k", {"top_k": -1}),
        ("stop_sequences.1", {"stop_sequences": ["a", 1]}),
        ("metadata.user_id", {"metadata": {"user_id": 1}}),
        ("system.0", {"system": ["a"]}),
        ("system.0.type", {"system": [{"text": "a"}]}),
        ("system.0.text", {"system": [{"type": "text", "text": 1}]}),
        ("thinking.type", {"thinking": {}}),
        ("thinking.budget_tokens", {"thinking": {"type": "enabled"}}),
        ("thinking.budget_tokens", {"thinking": {"type": "enabled", "budget_tokens": 1.5}}),
        ("thinking.display", {"thinking": {"type": "adaptive", "display": True}}),
        ("output_config.effort", {"output_config": {"effort": 1}}),
        ("output_config.format", {"output_config": {"format": "json"}}),
        ("output_config.format.type", {"output_config": {"format": {}}}),
        ("output_config.format.schema", {"output_config": {"format": {"type": "json_schema"}}}),
        ("output_config.format.schema", {"output_config": {"format": {"type": "json_schema", "schema": 1}}}),
        ("tools", {"tools": [{"type": "x"}] * 10_001}),
        ("tools.0", {"tools": [1]}),
        ("tools.0.type", {"tools": [{"type": 1}]}),
        ("tools.0.name", {"tools": [{}]}),
        ("tools.0.name", {"tools": [{"type": "custom", "name": ""}]}),
        ("tools.0.name", {"tools": [{"name": "a" * 129, "input_schema": {}}]}),
        ("tools.1.input_schema", {"tools": [{"type": "x"}, {"name": "f"}]}),
        ("tools.0.input_schema", {"tools": [{"name": "f", "input_schema": []}]}),
        ("tools.0.description", {"tools": [{"name": "f", "input_schema": {}, "description": 1}]}),
        ("tools.0.strict", {"tools": [{"name": "f", "input_schema": {}, "strict": 1}]}),
        ("tool_choice.type", {"tool_choice": {}}),
        ("tool_choice.name", {"tool_choice": {"type": "tool"}}),
        (
            "tool_choice.disable_parallel_tool_use",
            {"tool_choice": {"type": "auto", "disable_parallel_tool_use": 1}},
        ),
    ],
)
def test_a_value_out_of_bounds_is_named(param: str, fields: dict[str, Any]) -> None:
    assert fault_of(QUESTION | fields).param == param


def blocks(*values: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(values)}


def test_too_many_messages_are_refused() -> None:
    assert fault_of(QUESTION | {"messages": QUESTION["messages"] * 100_001}).param == "messages"


@pytest.mark.parametrize(
    ("param", "message"),
    [
        ("", 1),
        ("role", {"content": "Hi"}),
        ("role", {"role": None, "content": "Hi"}),
        ("role", {"role": "tool", "content": "Hi"}),
        ("role", {"role": 1, "content": "Hi"}),
        ("content", {"role": "user"}),
        ("content", {"role": "user", "content": None}),
        ("content", {"role": "system", "content": 1}),
        ("content", {"role": "assistant", "content": {}}),
        ("content.0", blocks("Hi")),
        ("content.0.type", blocks({"text": "Hi"})),
        ("content.0.type", blocks({"type": 1})),
        ("content.1.text", blocks({"type": "x"}, {"type": "text"})),
        ("content.0.text", blocks({"type": "text", "text": None})),
        ("content.0.source", blocks({"type": "image"})),
        ("content.0.source", blocks({"type": "image", "source": "https://a.example"})),
        ("content.0.source.type", blocks({"type": "image", "source": {}})),
        ("content.0.source.media_type", blocks({"type": "image", "source": {"type": "base64", "data": ""}})),
        ("content.0.source.data", blocks({"type": "image", "source": {"type": "base64", "media_type": "a"}})),
        ("content.0.source.url", blocks({"type": "image", "source": {"type": "url", "url": 1}})),
        ("content.0.source.file_id", blocks({"type": "image", "source": {"type": "file"}})),
        ("content.0.source.data", blocks({"type": "document", "source": {"type": "text"}})),
        ("content.0.source.content", blocks({"type": "document", "source": {"type": "content"}})),
        (
            "content.0.source.content.0.type",
            blocks({"type": "document", "source": {"type": "content", "content": [{}]}}),
        ),
        ("content.0.title", blocks({"type": "document", "source": {"type": "x"}, "title": 1})),
        ("content.0.thinking", blocks({"type": "thinking", "signature": "s"})),
        ("content.0.signature", blocks({"type": "thinking", "thinking": "", "signature": 1})),
        ("content.0.data", blocks({"type": "redacted_thinking"})),
        ("content.0.id", blocks({"type": "tool_use", "name": "f", "input": {}})),
        ("content.0.id", blocks({"type": "tool_use", "id": "", "name": "f", "input": {}})),
        ("content.0.name", blocks({"type": "tool_use", "id": "t", "name": None, "input": {}})),
        ("content.0.input", blocks({"type": "tool_use", "id": "t", "name": "f"})),
        ("content.0.input", blocks({"type": "tool_use", "id": "t", "name": "f", "input": "{}"})),
        ("content.0.tool_use_id", blocks({"type": "tool_result"})),
        ("content.0.content", blocks({"type": "tool_result", "tool_use_id": "t", "content": 1})),
        ("content.0.is_error", blocks({"type": "tool_result", "tool_use_id": "t", "is_error": "no"})),
        (
            "content.0.content.1.source.type",
            blocks(
                {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "x"}, {"type": "image", "source": {}}]}
            ),
        ),
    ],
)
def test_a_wrong_message_is_named_by_its_path(param: str, message: Any) -> None:
    fault = fault_of({"model": "m", "messages": [QUESTION["messages"][0], message]})
    assert fault.param == ("messages.1." + param).rstrip(".")
    assert fault.message.startswith(f"'{fault.param}' ")


def test_missing_content_is_said_so() -> None:
    fault = fault_of({"model": "m", "messages": [{"role": "user"}]})
    assert (fault.message, fault.code) == ("'messages.0.content' is missing.", "missing_required_parameter")


def test_what_is_unknown_passes() -> None:
    body = QUESTION | {
        "x_anything": None,
        "mcp_servers": [{"type": "url"}],
        "thinking": {"type": "between_tools"},
        "output_config": {"effort": "utmost", "format": {"type": "xml"}},
        "tools": [{"type": "computer_toolset_20260801"}, {"name": "f", "input_schema": {}, "x": 1}],
        "tool_choice": {"type": "x"},
        "messages": [
            {"role": "user", "content": [{"type": "x_new"}, {"type": "image", "source": {"type": "x"}}], "x": 1},
            {"role": "assistant", "content": []},
            {"role": "user", "content": ""},
        ],
    }
    assert plugin.forward_request(call_for(), wire_with(body)).body == body


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
@pytest.mark.parametrize("forward", [False, True])
@pytest.mark.parametrize(
    "value",
    [None, "", "2022-12-31", "2023-02-30", "2023-6-1", "20230601", "2023-06-01x", "latest", "2023-W01-1", "٢٠٢٣-٠٦-٠١"],
)
def test_the_version_must_be_a_date_from_2023_on(path: str, forward: bool, value: str | None) -> None:
    headers = {} if value is None else {"anthropic-version": value}
    hook: Any = plugin.forward_request if forward else plugin.translate_request
    with pytest.raises(InvalidField) as caught:
        hook(call_for(), wire_with(QUESTION, path, headers=headers))
    assert (caught.value.param, caught.value.status) == ("anthropic-version", 400)
    assert "2023" in caught.value.message


@pytest.mark.parametrize("value", ["2023-01-01", "2023-06-01", "2026-10-21", " 2024-02-29 "])
def test_a_version_is_any_date_from_2023_on(value: str) -> None:
    plugin.translate_request(call_for(), wire_with(QUESTION, headers=VERSION | {"anthropic-version": value}))


def test_a_default_model_stands_in_for_a_missing_one() -> None:
    request = plugin.translate_request(call_for("default"), wire_with({"messages": QUESTION["messages"]}))
    assert getattr(request, "model", None) == "default"


_words = st.text(st.characters(codec="utf-8"), max_size=5)
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | _words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_words | st.sampled_from([*FIELDS]), inner, max_size=3),
    max_leaves=8,
)
_known = st.sampled_from(
    [
        *("text", "image", "document", "thinking", "redacted_thinking", "tool_use", "tool_result", "base64", "url"),
        *("content", "file", "custom", "tool", "auto", "any", "enabled", "adaptive", "json_schema", "server_tool_use"),
    ]
)
_members = st.sampled_from(
    [
        *("type", "name", "id", "input", "text", "file_id", "url", "data", "media_type", "source", "content", "title"),
        *("tool_use_id", "signature", "thinking", "input_schema", "budget_tokens", "format", "schema", "effort"),
    ]
)
_objects = st.dictionaries(_members, st.deferred(lambda: _json | _known | _objects), max_size=4)
_message = st.builds(
    lambda role, content, rest: {"role": role, "content": content, **rest},
    st.sampled_from(["system", "user", "assistant"]),
    _words | st.lists(_objects, max_size=3) | _json,
    st.dictionaries(_words, _json, max_size=1),
)
_bodies = st.builds(
    lambda rest, messages: {"model": "m", "messages": messages, **rest},
    st.dictionaries(st.sampled_from([*FIELDS]) | _words, _json | _objects | st.lists(_objects, max_size=2), max_size=4),
    st.lists(_message | _json, min_size=1, max_size=3),
)


@given(
    body=_bodies | st.dictionaries(_words, _json), path=st.sampled_from(["/v1/messages", "/v1/messages/count_tokens"])
)
def test_no_body_raises_anything_but_a_gate_error(body: dict[str, Any], path: str) -> None:
    wire = wire_with({}, path)
    force_setattr(wire, "json", body)
    try:
        plugin.translate_request(call_for(), wire)
    except GateError as error:
        assert error.status == 400
        assert error.param
