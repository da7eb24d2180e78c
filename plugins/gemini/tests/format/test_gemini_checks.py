"""Refused requests, and the names of the fields in their errors."""

from __future__ import annotations

from typing import Any

import pytest
from format_gemini_calls import COUNT, GENERATE, QUESTION, call_for, wire_to
from hypothesis import given
from hypothesis import strategies as st

import tornado_gate_gemini.format as plugin
from tornado_gate.errors import InvalidField


def catch_refusal(body: dict[str, Any], path: str = GENERATE) -> InvalidField:
    with pytest.raises(InvalidField) as caught:
        plugin.translate_request(call_for(), wire_to(path, body))
    with pytest.raises(InvalidField) as verbatim:
        plugin.forward_request(call_for(), wire_to(path, body))
    assert caught.value.body() == verbatim.value.body()
    assert caught.value.param in caught.value.message
    return caught.value


def with_part(part: Any) -> dict[str, Any]:
    return {"contents": [{"role": "user", "parts": [{"text": "a"}, part]}]}


OBJECTS = [
    "generationConfig",
    "generationConfig.speechConfig",
    "generationConfig.speechConfig.voiceConfig",
    "generationConfig.speechConfig.voiceConfig.prebuiltVoiceConfig",
    "generationConfig.imageConfig",
    "generationConfig.thinkingConfig",
    "generationConfig.responseSchema",
    "generationConfig.responseJsonSchema",
    "toolConfig",
    "toolConfig.functionCallingConfig",
    "toolConfig.retrievalConfig",
    "labels",
]
ARRAYS = [
    "tools",
    "safetySettings",
    "generationConfig.stopSequences",
    "generationConfig.responseModalities",
    "toolConfig.functionCallingConfig.allowedFunctionNames",
]
STRINGS = [
    "cachedContent",
    "model",
    "labels.a",
    "generationConfig.responseMimeType",
    "generationConfig.mediaResolution",
    "generationConfig.thinkingConfig.thinkingLevel",
    "generationConfig.imageConfig.aspectRatio",
    "generationConfig.imageConfig.imageSize",
    "generationConfig.speechConfig.voiceConfig.prebuiltVoiceConfig.voiceName",
    "generationConfig.speechConfig.languageCode",
    "toolConfig.functionCallingConfig.mode",
]
INTEGERS = [
    "generationConfig.candidateCount",
    "generationConfig.maxOutputTokens",
    "generationConfig.seed",
    "generationConfig.logprobs",
    "generationConfig.thinkingConfig.thinkingBudget",
]
NUMBERS = [
    "generationConfig.temperature",
    "generationConfig.topP",
    "generationConfig.topK",
    "generationConfig.presencePenalty",
    "generationConfig.frequencyPenalty",
]
BOOLEANS = ["generationConfig.responseLogprobs", "generationConfig.thinkingConfig.includeThoughts"]
VALUES: list[Any] = ["x", "5", 5, 1.5, True, {}, [], [5], {"a": 1}]


def allowed(kind: str, value: Any) -> bool:
    return {
        "object": isinstance(value, dict),
        "array": isinstance(value, list),
        "string": isinstance(value, str),
        "integer": isinstance(value, int) and not isinstance(value, bool),
        "number": isinstance(value, (int, float)) and not isinstance(value, bool),
        "boolean": isinstance(value, bool),
    }[kind]


WRONG = [
    (path, value)
    for kind, paths in (
        ("object", OBJECTS),
        ("array", ARRAYS),
        ("string", STRINGS),
        ("integer", INTEGERS),
        ("number", NUMBERS),
        ("boolean", BOOLEANS),
    )
    for path in paths
    for value in VALUES
    if not allowed(kind, value)
]


def at(path: str, value: Any) -> dict[str, Any]:
    """A body with `value` at `path`."""
    for name in reversed(path.split(".")):
        value = {name: value}
    return QUESTION | value


@pytest.mark.parametrize(("path", "value"), WRONG)
def test_a_value_of_a_wrong_type_is_refused_by_its_path(path: str, value: Any) -> None:
    error = catch_refusal(at(path, value))
    assert error.param == path
    assert error.code == "invalid_value"


@pytest.mark.parametrize("path", [*OBJECTS, *ARRAYS, *STRINGS, *INTEGERS, *NUMBERS, *BOOLEANS])
def test_null_says_nothing(path: str) -> None:
    if path != "labels.a":
        plugin.translate_request(call_for(), wire_to(GENERATE, at(path, None)))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("generationConfig.logprobs", 5),
        ("generationConfig.seed", 2**63),
    ],
)
def test_a_value_that_the_gateway_cannot_keep_or_that_needs_another_is_refused(path: str, value: Any) -> None:
    assert catch_refusal(at(path, value)).param == path


@pytest.mark.parametrize(
    ("contents", "param"),
    [
        ("Hi", "contents"),
        ({"parts": [{"text": "Hi"}]}, "contents"),
        ([], "contents"),
        (["Hi"], "contents.0"),
        ([{"role": "user"}], "contents.0.parts"),
        ([{"parts": []}], "contents.0.parts"),
        ([{"parts": {"text": "Hi"}}], "contents.0.parts"),
        ([{"role": 5, "parts": [{"text": "Hi"}]}], "contents.0.role"),
    ],
)
def test_contents_are_an_array_of_contents(contents: Any, param: str) -> None:
    assert catch_refusal({"contents": contents}).param == param


def test_contents_are_needed() -> None:
    error = catch_refusal({"generationConfig": {}})
    assert (error.param, error.code) == ("contents", "missing_required_parameter")


@pytest.mark.parametrize(
    ("part", "param"),
    [
        ("Hi", ""),
        ({}, ""),
        ({"text": None}, ""),
        ({"text": 5}, ".text"),
        ({"text": "a", "inlineData": {"mimeType": "a", "data": "b"}}, ""),
        ({"text": "a", "thought": 1}, ".thought"),
        ({"text": "a", "thoughtSignature": 1}, ".thoughtSignature"),
        ({"inlineData": "AAEC"}, ".inlineData"),
        ({"inlineData": {"mimeType": 5, "data": "AAEC"}}, ".inlineData.mimeType"),
        ({"inlineData": {"mimeType": "image/png"}}, ".inlineData.data"),
        ({"fileData": {"mimeType": "image/png"}}, ".fileData.fileUri"),
        ({"fileData": {"fileUri": "u", "mimeType": 5}}, ".fileData.mimeType"),
        ({"functionCall": {"args": {}}}, ".functionCall.name"),
        ({"functionCall": {"name": "f", "args": "{}"}}, ".functionCall.args"),
        ({"functionCall": {"name": "f", "id": 5}}, ".functionCall.id"),
        ({"functionResponse": {"response": {}}}, ".functionResponse.name"),
        ({"functionResponse": {"name": "f", "response": "18"}}, ".functionResponse.response"),
        ({"functionResponse": {"name": "f", "parts": [{"text": 5}]}}, ".functionResponse.parts.0.text"),
        ({"executableCode": {"code": 5}}, ".executableCode.code"),
        ({"codeExecutionResult": []}, ".codeExecutionResult"),
        ({"toolCall": 5}, ".toolCall"),
    ],
)
def test_a_part_holds_one_thing_of_its_kind(part: Any, param: str) -> None:
    assert catch_refusal(with_part(part)).param == f"contents.0.parts.1{param}"


@pytest.mark.parametrize(
    "part", [{"somethingNew": {"a": 1}}, {"thoughtSignature": "AAEC"}, {"toolResponse": {}}, {"text": "", "x": 1}]
)
def test_parts_of_unknown_kinds_pass(part: Any) -> None:
    plugin.translate_request(call_for(), wire_to(GENERATE, with_part(part)))


@pytest.mark.parametrize(
    ("system", "param"),
    [
        (5, "systemInstruction"),
        ({}, "systemInstruction.parts"),
        ({"parts": [5]}, "systemInstruction.parts.0"),
        ({"parts": {"text": 5}}, "systemInstruction.parts.text"),
        ({"text": 5}, "systemInstruction.text"),
    ],
)
def test_the_system_instruction_is_checked(system: Any, param: str) -> None:
    assert catch_refusal(QUESTION | {"systemInstruction": system}).param == param


@pytest.mark.parametrize(
    ("tools", "param"),
    [
        ([5], "tools.0"),
        ([{"googleSearch": "yes"}], "tools.0.googleSearch"),
        ([{"functionDeclarations": {}}], "tools.0.functionDeclarations"),
        ([{"functionDeclarations": [{}]}], "tools.0.functionDeclarations.0.name"),
        ([{"functionDeclarations": [{"name": "f", "parameters": []}]}], "tools.0.functionDeclarations.0.parameters"),
        (
            [{"functionDeclarations": [{"name": "f", "parameters": {}, "parametersJsonSchema": {}}]}],
            "tools.0.functionDeclarations.0.parametersJsonSchema",
        ),
    ],
)
def test_tools_are_checked(tools: Any, param: str) -> None:
    assert catch_refusal(QUESTION | {"tools": tools}).param == param


def test_safety_settings_are_checked() -> None:
    assert catch_refusal(QUESTION | {"safetySettings": [{"category": "c"}]}).param == "safetySettings.0.threshold"


def test_two_schemas_for_one_answer_are_refused() -> None:
    config = {"responseSchema": {}, "responseJsonSchema": {}}
    assert catch_refusal(at("generationConfig", config)).param == "generationConfig.responseJsonSchema"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"generation_config": {"max_output_tokens": "5"}}, "generation_config.max_output_tokens"),
        ({"generation_config": {"topK": "5"}}, "generation_config.topK"),
        ({"system_instruction": 5}, "system_instruction"),
        (with_part({"inline_data": {"mime_type": 5, "data": "x"}}), "contents.0.parts.1.inline_data.mime_type"),
    ],
)
def test_a_fault_is_told_in_the_callers_spelling(body: dict[str, Any], param: str) -> None:
    error = catch_refusal(QUESTION | body)
    assert error.param == param
    assert error.message.startswith(f"'{param}' must be")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "contents"),
        ({"contents": []}, "contents"),
        ({"generateContentRequest": 5}, "generateContentRequest"),
        ({"generateContentRequest": {}}, "generateContentRequest.contents"),
        ({"generate_content_request": {"contents": [5]}}, "generate_content_request.contents.0"),
        (QUESTION | {"generateContentRequest": QUESTION}, "generateContentRequest"),
    ],
)
def test_a_count_is_checked(body: dict[str, Any], param: str) -> None:
    assert catch_refusal(body, COUNT).param == param


NAMES = ["contents", "parts", "text", "role", "tools", "generationConfig", "functionDeclarations", "inlineData", "name"]
anything = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(body=st.dictionaries(st.sampled_from(NAMES[:6]), anything, min_size=1), count=st.booleans())
def test_any_body_is_a_request_or_a_clear_refusal(body: dict[str, Any], count: bool) -> None:
    try:
        plugin.translate_request(call_for(), wire_to(COUNT if count else GENERATE, body))
    except InvalidField as error:
        assert error.status == 400
