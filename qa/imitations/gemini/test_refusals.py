"""The imitation refuses what the vendor refuses, with the vendor's words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from qa.imitations.calling.server import Received, Response
from qa.imitations.gemini.api import KEY, GenerateApi

USER = {"role": "user", "parts": [{"text": "Hello"}]}
CALL = {"functionCall": {"name": "look", "args": {}}}
RESPONSE = {"functionResponse": {"name": "look", "response": {}}}
TOOLS = [{"functionDeclarations": [{"name": "look"}]}]
DUMMY = "skip_thought_signature_validator"
NEWEST, LITE = "gemini-3.8-flash", "gemini-3.5-flash-lite"
FIRST, SECOND, PRO, THIRD, FOURTH = (
    "gemini-2.0-flash",
    "gemini-2.5-flash",
    "gemini-2.5-pro",
    "gemini-3-pro-preview",
    "gemini-4-neon",
)


def send_request(
    api: GenerateApi, model: str = SECOND, method: str = "generateContent", key: str = KEY, **body: Any
) -> Response:
    sent = {"contents": [USER], **body}
    headers = {"x-goog-api-key": key, "content-type": "application/json"}
    return api.answer(Received(f"/v1beta/models/{model}:{method}", headers, json.dumps(sent).encode()))


def config(**members: Any) -> dict[str, Any]:
    return {"generationConfig": members}


def thinking(**members: Any) -> dict[str, Any]:
    return config(thinkingConfig=members)


def functions(*declarations: Any) -> dict[str, Any]:
    return {"tools": [{"functionDeclarations": list(declarations)}]}


def model_said(*parts: Any) -> dict[str, Any]:
    return {"role": "model", "parts": list(parts)}


def answered(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts)}


SCHEMA = {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}}
CASES: list[tuple[str, dict[str, Any], str]] = [
    (SECOND, {"foo": 1}, 'Unknown name "foo"'),
    (SECOND, config(foo=1), "Unknown name \"foo\" at 'generationConfig': Cannot find field."),
    (SECOND, config(audioTimestamp=True), 'Unknown name "audioTimestamp"'),
    (SECOND, config(seed=2**31), "(TYPE_INT32)"),
    (SECOND, config(temperature="hot"), "(TYPE_FLOAT)"),
    (
        SECOND,
        {"contents": [answered({"inlineData": {"mimeType": "image/png", "data": "%"}})]},
        "Base64 decoding failed",
    ),
    ("gemini-nine", {}, "models/gemini-nine is not found"),
    # settings
    (SECOND, config(temperature=3), "must be in the range [0, 2]"),
    (THIRD, config(candidateCount=2), "Multiple candidates is not enabled for this model"),
    (SECOND, config(presencePenalty=0.5), "Penalty is not enabled for this model"),
    (FIRST, config(maxOutputTokens=9000), "supported range is from 1 (inclusive) to 8193 (exclusive)"),
    (SECOND, config(stopSequences=["a"] * 6), "at most 5 stop sequences"),
    (SECOND, config(logprobs=2), "only with response_logprobs"),
    (SECOND, config(responseModalities=["AUDIO"]), "only supports text output"),
    (SECOND, config(responseLogprobs=True), "Logprobs is not enabled for this model"),
    (THIRD, config(responseLogprobs=True), "Logprobs is not enabled for this model"),
    # thinking
    (FIRST, thinking(thinkingBudget=1000), "Thinking is not supported for this model"),
    (SECOND, thinking(thinkingLevel="LOW"), "Thinking level LOW is not supported for this model"),
    (SECOND, thinking(thinkingBudget=30_000), "Please choose a value between 0 and 24576"),
    (PRO, thinking(thinkingBudget=0), "Budget 0 is invalid. This model only works in thinking mode."),
    (THIRD, thinking(thinkingLevel="MEDIUM"), "Thinking level MEDIUM is not supported"),
    (
        THIRD,
        thinking(thinkingLevel="LOW", thinkingBudget=100),
        "only set only one of thinking budget and thinking level",
    ),
    (FOURTH, thinking(thinkingBudget=100), "Thinking budget is not supported"),
    # tools and formats
    (SECOND, functions({"name": "0a"}), "Invalid function name. Must start with a letter or an underscore"),
    (SECOND, functions({"name": "a" * 65}), "maximum length of 64"),
    (SECOND, functions({"name": "a"}, {"name": "a"}), "Duplicate function declaration found: a"),
    (SECOND, functions({"name": "a", "parameters": {"type": "ARRAY"}}), "parameters.items: missing field"),
    (SECOND, functions({"name": "a", "parameters": {"type": "object"}}), "Invalid value at"),
    (SECOND, functions({"name": "a", "parameters": {**SCHEMA, "additionalProperties": False}}), "Cannot find field"),
    (SECOND, functions({"name": "a", "parametersJsonSchema": {"$ref": "#/$defs/b"}}), "reference to undefined schema"),
    (
        SECOND,
        functions({"name": "a", "parametersJsonSchema": {"$ref": "#/$defs/b", "title": "B", "$defs": {"b": {}}}}),
        "If a schema node has $ref set",
    ),
    (
        SECOND,
        {**functions({"name": "a"}), **config(responseMimeType="application/json")},
        "Function calling with a response",
    ),
    (SECOND, {"tools": [*TOOLS, {"googleSearch": {}}]}, "Tool use with function calling is unsupported"),
    (SECOND, config(responseSchema=SCHEMA), "only supported with response mime type"),
    (SECOND, {"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}}, "without function_declarations"),
    (
        SECOND,
        {"tools": TOOLS, "toolConfig": {"functionCallingConfig": {"mode": "AUTO", "allowedFunctionNames": ["look"]}}},
        "should only be set when mode is ANY",
    ),
    (SECOND, {"cachedContent": "cachedContents/1", "tools": TOOLS}, "CachedContent can not be used"),
    # contents
    (SECOND, {"contents": []}, "contents is not specified"),
    (SECOND, {"contents": [{"role": "assistant", "parts": [{"text": "a"}]}]}, "Please use a valid role: user, model."),
    (SECOND, {"contents": [{"role": "user", "parts": []}]}, "contents.parts must not be empty"),
    (SECOND, {"contents": [answered({"text": ""})]}, "required oneof field 'data' must have one initialized field"),
    (
        SECOND,
        {"contents": [answered({"inlineData": {"mimeType": "image/gif", "data": "AA=="}})]},
        "Unsupported MIME type",
    ),
    (
        SECOND,
        {"contents": [answered({"inlineData": {"mimeType": "application/json", "data": "AA=="}})]},
        "Unsupported MIME type: application/json",
    ),
    (NEWEST, {"contents": [USER, model_said({"text": "The"})]}, "Requests ending with a model turn are not supported"),
    (LITE, {"contents": [USER, model_said({"text": "The"})]}, "Requests ending with a model turn are not supported"),
    (SECOND, {"contents": [model_said(CALL), answered(RESPONSE)]}, "comes immediately after a user turn"),
    (SECOND, {"contents": [USER, answered(RESPONSE)]}, "comes immediately after a function call turn"),
    (
        SECOND,
        {"contents": [USER, model_said(CALL, CALL), answered(RESPONSE)]},
        "number of function response parts is equal",
    ),
    (
        SECOND,
        {"contents": [USER, model_said({**CALL, "thoughtSignature": "AAAA"}), answered(RESPONSE)]},
        "is not valid",
    ),
    (THIRD, {"contents": [USER, model_said(CALL), answered(RESPONSE)]}, "Function call is missing a thought_signature"),
    (
        SECOND,
        {
            "contents": [
                USER,
                model_said(CALL),
                answered(
                    {
                        "functionResponse": {
                            **RESPONSE["functionResponse"],
                            "parts": [{"inlineData": {"mimeType": "image/png"}}],
                        }
                    }
                ),
            ]
        },
        "Multimodal function response is not supported",
    ),
]


@pytest.mark.parametrize(("model", "body", "message"), CASES, ids=[f"{case[0]}: {case[2][:40]}" for case in CASES])
def test_a_request_is_refused(model: str, body: dict[str, Any], message: str) -> None:
    response = send_request(GenerateApi(), model, **body)
    assert response.status == 400
    assert message in response.refused


def test_a_key_is_required() -> None:
    assert "API key not valid" in send_request(GenerateApi(), key="other").refused


def test_only_issued_signatures_and_the_dummy_are_accepted() -> None:
    api = GenerateApi()
    question = {"role": "user", "parts": [{"text": "plan-parallel"}]}
    said = send_request(api, THIRD, contents=[question], tools=TOOLS).said["candidates"][0]["content"]
    calls = [part for part in said["parts"] if "functionCall" in part]
    assert ["thoughtSignature" in part for part in calls] == [True, False, False]
    contents = [question, said, answered(*[RESPONSE] * len(calls))]
    assert not send_request(api, THIRD, contents=contents, tools=TOOLS).refused
    calls[0]["thoughtSignature"] = DUMMY
    assert not send_request(api, THIRD, contents=contents, tools=TOOLS).refused
    del calls[0]["thoughtSignature"]
    calls[1]["thoughtSignature"] = DUMMY
    assert "missing a thought_signature" in send_request(api, THIRD, contents=contents, tools=TOOLS).refused


def test_older_models_continue_a_begun_answer() -> None:
    begun = [USER, model_said({"text": "The"})]
    assert not send_request(GenerateApi(), SECOND, contents=begun).refused
    assert not send_request(GenerateApi(), "gemini-3.5-flash", contents=begun).refused


def test_the_newest_models_ignore_sampling() -> None:
    body = config(temperature=0.2)
    assert "generationConfig.temperature" in send_request(GenerateApi(), NEWEST, **body).ignored
    assert not send_request(GenerateApi(), THIRD, **body).ignored


def test_only_the_current_turn_needs_signatures() -> None:
    contents = [USER, model_said(CALL), answered(RESPONSE), model_said({"text": "done"}), USER]
    assert not send_request(GenerateApi(), THIRD, contents=contents, tools=TOOLS).refused
