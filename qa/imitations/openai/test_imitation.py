"""The imitation itself: it refuses what the vendor refuses, in the vendor's words, and answers in the vendor's shapes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from qa.imitations.openai.models import load_rows
from qa.imitations.openai.scenarios import samples
from qa.imitations.openai.turns import PIXEL
from qa.imitations.openai.vendor import OpenAI
from tests.support.imitation_server import ImitationServer, Request

CHAT = "/v1/chat/completions"
RESPONSES = "/v1/responses"
USER = {"role": "user", "content": "Hi"}
CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
ASSISTANT = {"role": "assistant", "content": None, "tool_calls": [CALL]}
ITEM_CALL = {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}"}
ITEM_OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "x"}
ENCRYPTED = {"include": ["reasoning.encrypted_content"], "store": False}


def send_request(vendor: OpenAI, path: str, body: dict[str, Any]) -> tuple[int, Any]:
    request = Request("POST", path, {"authorization": "Bearer key"}, json.dumps(body).encode())
    answer = vendor(request)
    return answer.status, json.loads(b"".join(answer.chunks))


def function(name: str = "f", parameters: Any = None, **members: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": parameters or samples.CITY, **members}}


def tool(name: str = "f", parameters: Any = None, **members: Any) -> dict[str, Any]:
    return {"type": "function", "name": name, "parameters": parameters or samples.CITY, "strict": False, **members}


def content(*parts: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": list(parts)}]}


def schema_format(schema: Any, strict: bool = True) -> dict[str, Any]:
    return {"type": "json_schema", "name": "form", "schema": schema, "strict": strict}


@pytest.mark.parametrize(
    ("model", "body", "message"),
    [
        ("gpt-4o", {"messages": []}, "Invalid 'messages': empty array"),
        ("gpt-4o", {"messages": [{"role": "assistant", "content": None}, USER]}, "expected a string, got null"),
        ("gpt-4o", {"messages": [USER, ASSISTANT, USER]}, "did not have response messages: call_1"),
        (
            "gpt-4o",
            {"messages": [USER, {"role": "tool", "tool_call_id": "x", "content": "y"}]},
            "must be a response to",
        ),
        ("gpt-4o", {"messages": [{**USER, "name": "a b"}]}, "Invalid 'messages[0].name': string does not match"),
        ("gpt-4o", {"messages": [{**USER, "mood": "x"}]}, "Unknown parameter: 'messages[0].mood'"),
        ("gpt-4o", {"messages": [{"role": "user", "content": []}]}, "Invalid 'messages[0].content': empty array"),
        ("gpt-4o", content({"type": "file", "file": {"file_data": "x"}}), "'messages[0].content[0].file.filename'"),
        ("gpt-4o", content({"type": "image_url", "image_url": {"url": "nowhere"}}), "Expected a valid URL"),
        (
            "gpt-4o",
            content({"type": "image_url", "image_url": {"url": f"data:image/bmp;base64,{PIXEL}"}}),
            "unsupported image",
        ),
        (
            "gpt-4o",
            content({"type": "input_audio", "input_audio": {"data": samples.WAV, "format": "wav"}}),
            "only supported by certain models",
        ),
        ("gpt-4o", {"tools": []}, "Invalid 'tools': empty array"),
        ("gpt-4o", {"tools": [function("x" * 65)]}, "Invalid 'tools[0].function.name': string too long"),
        (
            "gpt-4o",
            {"tools": [function()], "tool_choice": function("g") | {"function": {"name": "g"}}},
            "tool 'g' is not",
        ),
        ("gpt-4o", {"tools": [function(parameters={"type": "array"})]}, "got 'type: \"array\"'"),
        ("gpt-4o", {"tools": [function(parameters={"type": "object"})]}, "object schema missing properties"),
        (
            "gpt-4o",
            {"tools": [function(parameters=samples.CLOSED | {"maxProperties": 1}, strict=True)]},
            "not permitted",
        ),
        ("gpt-4o", {"tools": [{"type": "custom", "custom": {"name": "c"}}]}, "Custom tools are not supported"),
        ("gpt-4o", {"tool_choice": "auto"}, "'tool_choice' is only allowed when 'tools' are specified"),
        ("gpt-4o", {"stream_options": {"include_usage": True}}, "only allowed when 'stream' is enabled"),
        ("gpt-4o", {"modalities": ["audio"], "audio": {"format": "wav", "voice": "alloy"}}, "Invalid value: 'audio'"),
        ("gpt-4o", {"verbosity": "low"}, "'verbosity' does not support 'low'"),
        ("gpt-4o", {"max_completion_tokens": 20000}, "max_tokens is too large: 20000"),
        ("gpt-4o", {"temperature": 3}, "Expected a value <= 2"),
        ("gpt-4o", {"temperature": "hot"}, "Invalid type for 'temperature': expected a decimal"),
        ("gpt-4o", {"metadata": {str(n): "x" for n in range(17)}, "store": True}, "too many properties"),
        ("gpt-4o", {"metadata": {"a": "x" * 513}, "store": True}, "Invalid 'metadata.a': string too long"),
        ("gpt-4o", {"top_logprobs": 3}, "only allowed when 'logprobs' is true"),
        ("gpt-5", {"prediction": {"type": "content", "content": "x"}}, "Unsupported parameter: 'prediction'"),
        ("o3", {"tools": [function()], "parallel_tool_calls": True}, "Unsupported parameter: 'parallel_tool_calls'"),
        ("gpt-5", {"logit_bias": {"1": 5}}, "Unsupported parameter: 'logit_bias'"),
        ("gpt-5.6-sol", {"reasoning_effort": "max"}, "'reasoning_effort' does not support 'max'"),
        ("gpt-5-pro", {}, "only supported in v1/responses"),
        ("gpt-0", {}, "The model `gpt-0` does not exist"),
    ],
)
def test_chat_completions_refuse(model: str, body: dict[str, Any], message: str) -> None:
    status, answer = send_request(OpenAI(), CHAT, {"model": model, "messages": [USER], **body})
    assert status in (400, 404)
    assert message in answer["error"]["message"]


@pytest.mark.parametrize(
    ("model", "body", "message"),
    [
        ("gpt-4o", {"input": []}, 'One of "input" or "previous_response_id"'),
        ("gpt-4o", {"input": ""}, 'One of "input" or "previous_response_id"'),
        ("gpt-4o", {"messages": [USER]}, "Unknown parameter: 'messages'"),
        ("gpt-4o", {"previous_response_id": "resp_x"}, "Previous response with id 'resp_x' not found"),
        ("gpt-4o", {"include": ["everything"]}, "Invalid value: 'everything'"),
        ("gpt-4o", {"truncation": "some"}, "Invalid value: 'some'"),
        ("gpt-4o", {"tool_choice": "required"}, "Tool choice 'required' must be specified with 'tools'"),
        (
            "gpt-4o",
            {"text": {"format": {"type": "json_object"}}, "instructions": "json"},
            "must contain the word 'json'",
        ),
        ("gpt-4o", {"text": {"format": schema_format(samples.CITY)}}, "'additionalProperties' is required"),
        ("gpt-4o", {"text": {"format": schema_format(samples.nest(12))}}, "maximum nesting depth"),
        ("gpt-4o", {"text": {"format": schema_format(samples.make_wide(1001))}}, "at most 1000 enum values"),
        ("gpt-4o", {"tools": [tool(strict=None)]}, "'additionalProperties' is required"),
        (
            "gpt-4o",
            {"input": [USER, ITEM_OUTPUT | {"type": "custom_tool_call_output"}]},
            "No tool call found for custom",
        ),
        ("gpt-4o", {"input": [USER, ITEM_CALL | {"id": "call_9"}, ITEM_OUTPUT]}, "an ID that begins with 'fc'"),
        ("gpt-4o", {"input": [USER, ITEM_CALL | {"call_id": "c" * 65}]}, "Invalid 'input[1].call_id': string too long"),
        ("gpt-4o", {"input": [USER, ITEM_CALL | {"name": "a.b"}]}, "Invalid 'input[1].name': string does not match"),
        (
            "gpt-5",
            {"input": [USER, {"type": "reasoning", "summary": [], "encrypted_content": "gAAAfalse"}]},
            "The encrypted content gAAA...alse could not be verified",
        ),
        ("gpt-5", {"top_logprobs": 2}, "Unsupported parameter: 'top_logprobs'"),
        ("gpt-5", {"include": ["message.output_text.logprobs"]}, "logprobs are not supported with reasoning models"),
        ("gpt-4o", {"reasoning": {"summary": "auto"}}, "Unsupported parameter: 'reasoning.summary'"),
    ],
)
def test_responses_refuse(model: str, body: dict[str, Any], message: str) -> None:
    status, answer = send_request(OpenAI(), RESPONSES, {"model": model, "input": "Hi", **body})
    assert status in (400, 404)
    assert message in answer["error"]["message"]


def test_reasoning_needs_what_followed_it_and_the_reverse() -> None:
    vendor = OpenAI()
    body = {"model": "gpt-5", "input": "Hi", "tools": [tool()], **ENCRYPTED}
    reasoning, call = send_request(vendor, RESPONSES, body)[1]["output"]
    other = send_request(vendor, RESPONSES, body)[1]["output"][0]
    output = {"type": "function_call_output", "call_id": call["call_id"], "output": "x"}
    alone = send_request(vendor, RESPONSES, {**body, "input": [USER, reasoning, USER]})
    assert "was provided without its required following item" in alone[1]["error"]["message"]
    parted = send_request(vendor, RESPONSES, {**body, "input": [USER, other, call, output]})
    assert "was provided without its required 'reasoning' item" in parted[1]["error"]["message"]
    assert send_request(vendor, RESPONSES, {**body, "input": [USER, reasoning, call, output]})[0] == 200


def test_an_id_that_the_vendor_has_not_issued_is_not_found_even_on_a_whole_item() -> None:
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]}
    status, answer = send_request(
        OpenAI(), RESPONSES, {"model": "gpt-5", "input": [USER, {**said, "id": "msg_1"}, USER]}
    )
    assert (status, "Item with id 'msg_1' not found" in answer["error"]["message"]) == (404, True)
    assert send_request(OpenAI(), RESPONSES, {"model": "gpt-5", "input": [USER, said, USER]})[0] == 200


def test_every_fact_about_a_model_has_a_source() -> None:
    assert all(len(row["source"]) > 20 for row in load_rows())


@pytest.fixture
def client() -> Iterator[openai.OpenAI]:
    server = ImitationServer(OpenAI())
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="key", max_retries=0, timeout=20) as client:
        yield client
    server.stop()


def test_the_vendors_sdk_reads_the_streams(client: openai.OpenAI) -> None:
    with client.responses.stream(
        model="gpt-5.4", input="both", reasoning={"effort": "low", "summary": "auto"}
    ) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()
    assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")
    assert [item.type for item in final.output] == ["reasoning", "message"]
    with client.chat.completions.stream(model="gpt-4o", messages=[{"role": "user", "content": "cite"}]) as chats:
        whole = chats.get_final_completion()
    assert (whole.choices[0].message.content or "").startswith("Answer ")


def test_the_vendors_sdk_gets_the_vendors_error(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model="gpt-5", input="Hi", temperature=0.5)
    assert (caught.value.param, caught.value.code) == ("temperature", "unsupported_parameter")
