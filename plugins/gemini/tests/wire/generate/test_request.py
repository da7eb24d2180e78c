"""Requests, both halves."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given

from plugins.gemini.tests.wire.generate import strategies
from plugins.gemini.tests.wire.generate.streaming import call_for, parsed, rendered
from tornado_gate.errors import InvalidField
from tornado_gate.testing import chat
from tornado_gate.types import (
    ChatRequest,
    Reasoning,
    ResponseFormat,
    Tool,
    ToolChoice,
    VendorTool,
)
from tornado_gate_gemini.wire.generate import GeminiModelFeatures, parse_request, render_count, render_request
from tornado_gate_gemini.wire.generate.server_tools import parse_server_tool

OLD = GeminiModelFeatures(schema="openapi", thinking_levels=False, tools_with_format=False, parts_in_results=False)


@given(request=strategies.requests)
def test_parsing_what_was_rendered_gives_the_same_request(request: ChatRequest) -> None:
    body, losses = rendered(request)
    back = parse_request(body, model="m")
    assert {field: getattr(back, field) for field in request.__struct_fields__ if field != "names"} == {
        field: getattr(request, field) for field in request.__struct_fields__ if field != "names"
    }
    assert losses == []


@given(request=strategies.requests)
def test_turns_alternate_and_none_is_empty(request: ChatRequest) -> None:
    contents = rendered(request)[0]["contents"]
    roles = [content["role"] for content in contents]
    assert all(one != other for one, other in pairwise(roles))
    assert set(roles) <= {"user", "model"}
    assert all(content["parts"] for content in contents)


def test_every_member_of_the_config_has_its_field() -> None:
    request = parsed(
        {
            "generationConfig": {
                "temperature": 0.5,
                "topP": 0.9,
                "topK": 40.0,
                "candidateCount": 2,
                "maxOutputTokens": 10,
                "stopSequences": ["END"],
                "seed": 3,
                "presencePenalty": 0.1,
                "frequencyPenalty": 0.2,
                "responseLogprobs": True,
                "logprobs": 4,
                "responseModalities": ["TEXT", "AUDIO"],
                "speechConfig": {"voiceConfig": {"prebuiltVoiceConfig": {"voiceName": "Kore"}}},
                "imageConfig": {"aspectRatio": "16:9"},
                "mediaResolution": "MEDIA_RESOLUTION_LOW",
            }
        }
    )
    assert (request.temperature, request.top_p, request.top_k, request.n) == (0.5, 0.9, 40, 2)
    assert (request.max_tokens, request.stop, request.seed) == (10, ("END",), 3)
    assert (request.presence_penalty, request.frequency_penalty) == (0.1, 0.2)
    assert (request.logprobs, request.top_logprobs, request.modalities) == (True, 4, ("text", "audio"))
    assert request.extra == {
        "generationConfig.speechConfig": {"voiceConfig": {"prebuiltVoiceConfig": {"voiceName": "Kore"}}},
        "generationConfig.imageConfig": {"aspectRatio": "16:9"},
        "generationConfig.mediaResolution": "MEDIA_RESOLUTION_LOW",
    }


def test_a_top_k_that_is_no_whole_number_is_kept_for_those_who_know_it() -> None:
    request = parsed({"generationConfig": {"topK": 2.5}})
    assert (request.top_k, request.extra) == (None, {"generationConfig.topK": 2.5})


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"thinkingLevel": "LOW"}, Reasoning(effort="low")),
        ({"thinkingBudget": 1024}, Reasoning(budget_tokens=1024)),
        ({"thinkingBudget": 0}, Reasoning(enabled=False)),
        ({"thinkingBudget": -1, "includeThoughts": True}, Reasoning(enabled=True, summary="auto")),
        ({"includeThoughts": False}, None),
        ({}, None),
    ],
)
def test_thinking_as_asked_for(config: dict[str, Any], expected: Reasoning | None) -> None:
    assert parsed({"generationConfig": {"thinkingConfig": config}}).reasoning == expected


@pytest.mark.parametrize(
    ("reasoning", "modern", "old"),
    [
        (Reasoning(effort="minimal"), {"thinkingLevel": "MINIMAL"}, {"thinkingBudget": 1024}),
        (Reasoning(effort="low"), {"thinkingLevel": "LOW"}, {"thinkingBudget": 1024}),
        (Reasoning(effort="medium"), {"thinkingLevel": "MEDIUM"}, {"thinkingBudget": 8192}),
        (Reasoning(effort="high"), {"thinkingLevel": "HIGH"}, {"thinkingBudget": 24576}),
        (Reasoning(budget_tokens=77), {"thinkingLevel": "MINIMAL"}, {"thinkingBudget": 77}),
        (Reasoning(enabled=True), None, {"thinkingBudget": -1}),
        (
            Reasoning(effort="low", summary="auto"),
            {"thinkingLevel": "LOW", "includeThoughts": True},
            {"thinkingBudget": 1024, "includeThoughts": True},
        ),
    ],
)
def test_thinking_in_the_words_of_the_model(reasoning: Reasoning, modern: Any, old: Any) -> None:
    for dialect, expected in ((GeminiModelFeatures(), modern), (OLD, old)):
        body, losses = rendered(chat(reasoning=reasoning), dialect)
        assert body.get("generationConfig", {}).get("thinkingConfig") == expected
        assert losses == []


@pytest.mark.parametrize("reasoning", [Reasoning(effort="none"), Reasoning(enabled=False)])
def test_a_model_that_always_thinks_thinks_little_and_it_is_told(reasoning: Reasoning) -> None:
    names = {"reasoning": "reasoning_effort"}
    body, losses = rendered(chat(reasoning=reasoning, names=names))
    assert body["generationConfig"]["thinkingConfig"] == {"thinkingLevel": "LOW"}
    assert losses == ["reasoning_effort"]
    body, losses = rendered(chat(reasoning=reasoning), OLD)
    assert body["generationConfig"]["thinkingConfig"] == {"thinkingBudget": 0}
    assert losses == []


@pytest.mark.parametrize(
    ("reasoning", "config", "lost"),
    [
        (Reasoning(effort="xhigh"), {"thinkingLevel": "HIGH"}, ["reasoning"]),
        (Reasoning(effort="odd"), None, ["reasoning"]),
        (Reasoning(effort="low", budget_tokens=5), {"thinkingLevel": "LOW"}, ["reasoning.budget_tokens"]),
    ],
)
def test_what_thinking_cannot_be_is_told(reasoning: Reasoning, config: Any, lost: list[str]) -> None:
    body, losses = rendered(chat(reasoning=reasoning))
    assert body.get("generationConfig", {}).get("thinkingConfig") == config
    assert losses == lost


def test_a_schema_in_the_vendors_own_words_becomes_a_json_schema() -> None:
    schema = {
        "type": "OBJECT",
        "properties": {
            "name": {"type": "STRING", "nullable": True, "minLength": "2"},
            "kind": {"type": "STRING", "format": "enum", "enum": ["a", "b"], "example": "a"},
            "both": {"anyOf": [{"type": "INTEGER"}, {"type": "STRING"}], "nullable": True},
            "list": {"type": "ARRAY", "items": {"type": "NUMBER"}},
        },
        "propertyOrdering": ["name", "kind"],
        "required": ["name"],
    }
    request = parsed({"generationConfig": {"responseMimeType": "application/json", "responseSchema": schema}})
    assert request.response_format == ResponseFormat(
        kind="json_schema",
        schema={
            "type": "object",
            "properties": {
                "name": {"type": ["string", "null"], "minLength": 2},
                "kind": {"type": "string", "enum": ["a", "b"], "examples": ["a"]},
                "both": {"anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "null"}]},
                "list": {"type": "array", "items": {"type": "number"}},
            },
            "required": ["name"],
        },
    )


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"responseMimeType": "text/plain"}, ResponseFormat(kind="text")),
        ({"responseMimeType": "application/json"}, ResponseFormat(kind="json_object")),
        (
            {"responseMimeType": "application/json", "responseJsonSchema": {"type": "array"}},
            ResponseFormat(kind="json_schema", schema={"type": "array"}),
        ),
    ],
)
def test_the_form_of_the_answer(config: dict[str, Any], expected: ResponseFormat) -> None:
    request = parsed({"generationConfig": config})
    assert request.response_format == expected
    assert rendered(request)[0]["generationConfig"] == config


def test_a_form_that_only_this_format_knows_is_kept_whole() -> None:
    config = {"responseMimeType": "text/x.enum", "responseSchema": {"type": "STRING", "enum": ["a"]}}
    request = parsed({"generationConfig": config})
    assert request.response_format is None
    assert set(request.extra) == {"generationConfig.responseMimeType", "generationConfig.responseSchema"}
    assert rendered(request)[0]["generationConfig"] == config


def test_a_schema_goes_as_it_is_or_levelled() -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"const": "x"}}}
    wanted = ResponseFormat(kind="json_schema", name="n", description="D", strict=True, schema=schema)
    body, losses = rendered(chat(response_format=wanted))
    assert body["generationConfig"] == {
        "responseMimeType": "application/json",
        "responseJsonSchema": {"type": "object", "properties": {"a": {"const": "x"}}, "description": "D"},
    }
    body, _ = rendered(chat(response_format=wanted), GeminiModelFeatures(schema="json"))
    assert body["generationConfig"]["responseJsonSchema"] == schema | {"description": "D"}
    body, _ = rendered(chat(response_format=wanted), OLD)
    assert body["generationConfig"]["responseSchema"] == {
        "description": "D",
        "type": "OBJECT",
        "properties": {"a": {"enum": ["x"], "type": "STRING"}},
    }
    assert losses == []


def test_an_older_model_takes_tools_or_a_form_and_the_form_is_lost() -> None:
    request = chat(tools=(Tool(name="f"),), response_format=ResponseFormat(kind="json_object"))
    body, losses = rendered(request, OLD)
    assert "generationConfig" not in body
    assert losses == ["response_format"]
    assert rendered(request)[1] == []


def test_functions_are_declared_in_one_entry() -> None:
    request = parsed(
        {
            "tools": [
                {"functionDeclarations": [{"name": "a", "description": "A", "parameters": {"type": "OBJECT"}}]},
                {
                    "googleSearch": {},
                    "functionDeclarations": [{"name": "b", "parametersJsonSchema": {"type": "object"}}],
                },
            ]
        }
    )
    assert request.tools == (
        Tool(name="a", description="A", parameters={"type": "object"}),
        VendorTool(
            wire_format="gemini-generate", value={"googleSearch": {}}, server=parse_server_tool("googleSearch", {})
        ),
        Tool(name="b", parameters={"type": "object"}),
    )
    assert rendered(request)[0]["tools"] == [
        {
            "functionDeclarations": [
                {"name": "a", "description": "A", "parametersJsonSchema": {"type": "object"}},
                {"name": "b", "parametersJsonSchema": {"type": "object"}},
            ]
        },
        {"googleSearch": {}},
    ]


def test_levelled_parameters_report_what_they_lose_and_an_empty_object_is_left_out() -> None:
    tools = (
        Tool(name="a", parameters={"type": "object", "properties": {}}),
        Tool(name="b", parameters={"type": "object", "properties": {"x": {"type": "integer", "not": {}}}}, strict=True),
    )
    body, losses = rendered(chat(tools=tools), OLD)
    assert body["tools"] == [
        {
            "functionDeclarations": [
                {"name": "a"},
                {"name": "b", "parameters": {"type": "OBJECT", "properties": {"x": {"type": "INTEGER"}}}},
            ]
        }
    ]
    assert losses == ["tools.1.strict", "tools.1.parameters.properties.x.not"]


@pytest.mark.parametrize(
    ("config", "choice"),
    [
        ({"mode": "AUTO"}, ToolChoice(mode="auto")),
        ({"mode": "NONE"}, ToolChoice(mode="none")),
        ({"mode": "ANY"}, ToolChoice(mode="required")),
        ({"mode": "ANY", "allowedFunctionNames": ["f"]}, ToolChoice(mode="tool", name="f")),
        (
            {"mode": "ANY", "allowedFunctionNames": ["f", "g"]},
            ToolChoice(mode="allowed", names=("f", "g"), required=True),
        ),
        ({"mode": "VALIDATED", "allowedFunctionNames": ["f"]}, ToolChoice(mode="allowed", names=("f",))),
        ({"mode": "VALIDATED"}, ToolChoice(mode="vendor", vendor={"mode": "VALIDATED"})),
    ],
)
def test_the_choice_of_tools(config: dict[str, Any], choice: ToolChoice) -> None:
    request = parsed({"toolConfig": {"functionCallingConfig": config}})
    assert request.tool_choice == choice
    assert rendered(request)[0]["toolConfig"] == {"functionCallingConfig": config}


@pytest.mark.parametrize("config", [{}, {"mode": "MODE_UNSPECIFIED"}])
def test_no_choice_of_tools(config: dict[str, Any]) -> None:
    choice = parsed({"toolConfig": {"functionCallingConfig": config}}).tool_choice
    assert choice is None


def test_what_other_formats_say_and_this_one_cannot_is_told() -> None:
    request = chat(
        logit_bias={"1": 2},
        user="u",
        metadata={"a": "b"},
        parallel_tool_calls=False,
        tools=(VendorTool(wire_format="other", value={}),),
        tool_choice=ToolChoice(mode="vendor", vendor={}),
        stop=tuple("abcde"),
        audio={"voice": "Kore", "format": "mp3"},
        extra={"store": True, "nothing": None},
    )
    body, losses = rendered(request)
    assert losses == [
        "tool_choice",
        "tools.0",
        "audio.format",
        "logit_bias",
        "user",
        "metadata",
        "parallel_tool_calls",
        "store",
    ]
    config = body["generationConfig"]
    assert config["stopSequences"] == list("abcde")
    assert config["speechConfig"] == {"voiceConfig": {"prebuiltVoiceConfig": {"voiceName": "Kore"}}}


def test_a_loss_is_an_error_for_the_strict() -> None:
    with pytest.raises(InvalidField, match="'user' is not supported"):
        render_request(call_for(strict=True), chat(user="u"))


def test_a_count_asks_for_the_prompt_alone() -> None:
    call = call_for()
    assert render_count(call, chat("Hi", temperature=1.0, user="u"), model="models/up") == {
        "contents": [{"role": "user", "parts": [{"text": "Hi"}]}]
    }
    body = render_count(call, parsed({"systemInstruction": "S"}), model="models/up")
    assert body["generateContentRequest"]["model"] == "models/up"
    assert body["generateContentRequest"]["systemInstruction"] == {"parts": [{"text": "S"}]}
    assert call.losses == []


def test_the_paths_of_parts_are_the_callers() -> None:
    body = {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {"parts": [{"text": "a"}]},
            {"role": "model", "parts": [{"text": "b"}, {"functionCall": {"name": "f", "args": {}}}]},
            {"parts": [{"text": "c"}, {"functionResponse": {"name": "f", "response": {}}}, {"text": "d"}]},
            {"role": "model", "parts": [{"text": "e"}]},
        ],
    }
    request = parse_request(body, model="m")
    paths = {
        request.path(number, place): type(part).__name__
        for number, message in enumerate(request.messages)
        for place, part in enumerate(message.parts)
    }
    assert paths == {
        "systemInstruction.parts.0": "Text",
        "contents.0.parts.0": "Text",
        "contents.1.parts.0": "Text",
        "contents.1.parts.1": "ToolCall",
        "contents.2.parts.1": "ToolResult",
        "contents.2.parts.0": "Text",
        "contents.2.parts.2": "Text",
        "contents.3.parts.0": "Text",
    }
