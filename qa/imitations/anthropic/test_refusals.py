"""The imitation refuses what the vendor refuses, with the vendor's words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from qa.imitations.anthropic.api import KEY, MessagesApi
from qa.imitations.calling.server import Received, Response

USER = {"role": "user", "content": "Hello"}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "x"}
TOOL = {"name": "look", "input_schema": {"type": "object"}}
CLOSED = {"type": "object", "properties": {}, "additionalProperties": False}
OLD, BUDGETS, NEW, BOUND = "claude-3-5-haiku-20241022", "claude-haiku-4-5", "claude-opus-5", "claude-opus-5-5"


def send_request(api: MessagesApi, model: str = NEW, headers: Mapping[str, str] | None = None, **body: Any) -> Response:
    sent = {"model": model, "max_tokens": 4000, "messages": [USER], **body}
    given = {"x-api-key": KEY, "anthropic-version": "2023-06-01", "content-type": "application/json", **(headers or {})}
    return api.answer(Received("/v1/messages", given, json.dumps(sent).encode()))


def said(role: str, *blocks: Any) -> dict[str, Any]:
    return {"role": role, "content": list(blocks)}


CALLED = [USER, said("assistant", CALL)]
SCHEMA = {"type": "json_schema", "schema": CLOSED}
CASES: list[tuple[str, dict[str, Any], str]] = [
    (NEW, {"foo": 1}, "foo: Extra inputs are not permitted"),
    (NEW, {"betas": ["x"]}, "betas: Extra inputs are not permitted"),
    (NEW, {"messages": [said("user", {"type": "text", "text": "a", "x": 1})]}, "x: Extra inputs are not permitted"),
    (NEW, {"max_tokens": True}, "max_tokens: Input should be a valid integer"),
    (BUDGETS, {"max_tokens": 70_000}, "which is the maximum allowed number of output tokens"),
    ("claude-nine", {}, "model: claude-nine"),
    # thinking
    (NEW, {"thinking": {"type": "enabled", "budget_tokens": 2000}}, '"thinking.type.enabled" is not supported'),
    (BOUND, {"thinking": {"type": "disabled"}}, '"thinking.type.disabled" is not supported'),
    (NEW, {"thinking": {"type": "disabled"}, "output_config": {"effort": "max"}}, "not supported at effort"),
    ("claude-sonnet-5-5", {"thinking": {"type": "between_tools", "display": "omitted"}}, "Extra inputs"),
    (BUDGETS, {"thinking": {"type": "adaptive"}}, "adaptive thinking is not supported on this model"),
    (BUDGETS, {"thinking": {"type": "enabled", "budget_tokens": 4000}}, "`max_tokens` must be greater than"),
    (BUDGETS, {"thinking": {"type": "enabled", "budget_tokens": 100}}, "greater than or equal to 1024"),
    (BUDGETS, {"output_config": {"effort": "low"}}, "does not support the effort parameter"),
    ("claude-opus-4-6", {"output_config": {"effort": "xhigh"}}, "output_config.effort"),
    # sampling
    (BUDGETS, {"temperature": 0.5, "top_p": 0.5}, "cannot both be specified"),
    (OLD, {"temperature": 1.5}, "temperature: range: 0..1"),
    (NEW, {"temperature": 0.5}, "`temperature` is deprecated for this model."),
    (BUDGETS, {"thinking": {"type": "enabled", "budget_tokens": 2000}, "temperature": 0.5}, "may only be set to 1"),
    (BUDGETS, {"stop_sequences": ["\n"]}, "each stop sequence must contain non-whitespace"),
    (NEW, {"metadata": {"user_id": "a@b.example"}}, "appears to contain an email address"),
    # tools
    (NEW, {"tools": [{**TOOL, "name": "a.b"}]}, "should match pattern '^[a-zA-Z0-9_-]{1,128}$'"),
    (NEW, {"tools": [TOOL, TOOL]}, "Tool names must be unique"),
    (NEW, {"tools": [{**TOOL, "input_schema": {"type": "object", "anyOf": [{}]}}]}, "at the top level"),
    (NEW, {"tools": [{**TOOL, "input_schema": {"type": "object", "minProperties": "1"}}]}, "JSON schema is invalid"),
    (NEW, {"tools": [{**TOOL, "strict": True}]}, "'additionalProperties' must be explicitly set to false"),
    (NEW, {"tool_choice": {"type": "auto"}}, "only be specified while providing tools"),
    (NEW, {"tools": [TOOL], "tool_choice": {"type": "tool", "name": "x"}}, "not found in provided tools"),
    (NEW, {"tools": [TOOL], "tool_choice": {"type": "any"}}, "Thinking may not be enabled"),
    (BOUND, {"tools": [TOOL], "tool_choice": {"type": "any"}}, 'type "tool" and "any" are not supported'),
    # formats
    (OLD, {"output_config": {"format": SCHEMA}}, "structured outputs are not supported"),
    (
        NEW,
        {"output_config": {"format": {**SCHEMA, "schema": {**CLOSED, "minProperties": 1}}}},
        "property 'minProperties' is not supported",
    ),
    (BUDGETS, {"output_config": {"format": SCHEMA}, "messages": [USER, said("assistant")]}, "prefilling"),
    # messages
    (NEW, {"messages": []}, "at least one message is required"),
    (NEW, {"messages": [said("user", {"type": "text", "text": ""})]}, "must be non-empty"),
    (NEW, {"messages": [said("user", {"type": "text", "text": " "})]}, "non-whitespace text"),
    (NEW, {"messages": [{"role": "user", "content": []}]}, "all messages must have non-empty content"),
    (BUDGETS, {"messages": [USER, {"role": "assistant", "content": "a "}]}, "trailing whitespace"),
    (NEW, {"messages": [USER, {"role": "assistant", "content": "a"}]}, "does not support assistant message prefill"),
    (NEW, {"messages": [{"role": "system", "content": "a"}, USER]}, "use the top-level 'system' parameter"),
    ("claude-sonnet-5", {"messages": [USER, {"role": "system", "content": "a"}]}, "not supported on this model"),
    (NEW, {"messages": [USER, {"role": "system", "content": "a"}, USER]}, "must precede an assistant turn"),
    (NEW, {"messages": [said("user", CALL)]}, "not permitted in messages with the role 'user'"),
    (NEW, {"messages": [*CALLED, USER]}, "were found without `tool_result` blocks immediately after: toolu_1"),
    (NEW, {"messages": [*CALLED, said("user", {"type": "text", "text": "a"}, RESULT)]}, "immediately after"),
    (NEW, {"messages": [*CALLED, said("user", RESULT, RESULT)]}, "Found multiple `tool_result` blocks with id"),
    (NEW, {"messages": [USER, said("user", RESULT)]}, "unexpected `tool_use_id` found in `tool_result` blocks"),
    (NEW, {"messages": [USER, said("assistant", CALL, CALL), said("user", RESULT)]}, "ids must be unique"),
    (NEW, {"messages": [USER, said("assistant", {**CALL, "id": "a|b"}), said("user", RESULT)]}, "pattern"),
    (
        NEW,
        {"messages": [said("user", {"type": "image", "source": {"type": "url", "url": "http://a.example/b.png"}})]},
        "Only HTTPS URLs are supported",
    ),
    (
        NEW,
        {
            "messages": [
                said("user", {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "/9j/"}})
            ]
        },
        "does not match the provided media type image/png",
    ),
    (NEW, {"system": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}] * 5}, "A maximum of 4"),
]


@pytest.mark.parametrize(("model", "body", "message"), CASES, ids=[case[2][:50] for case in CASES])
def test_a_request_is_refused(model: str, body: dict[str, Any], message: str) -> None:
    response = send_request(MessagesApi(), model, **body)
    assert response.status == 400
    assert message in response.refused


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({"x-api-key": "other"}, "invalid x-api-key"),
        ({"anthropic-version": "2020-01-01"}, "is not a valid version"),
        ({"anthropic-beta": "made-up-2026-01-01"}, "Unexpected value(s) `made-up-2026-01-01`"),
    ],
)
def test_headers_are_checked(headers: dict[str, str], message: str) -> None:
    assert message in send_request(MessagesApi(), headers=headers).refused


def answer_with_thinking(api: MessagesApi, model: str = BOUND) -> list[dict[str, Any]]:
    """The conversation after an answer with two thoughts, a text and two calls."""
    first = {"role": "user", "content": "plan-interleaved"}
    thinking = {"type": "adaptive", "display": "summarized"}
    response = send_request(api, model, messages=[first], tools=[TOOL], thinking=thinking)
    content = response.said["content"]
    results = [{**RESULT, "tool_use_id": block["id"]} for block in content if block["type"] == "tool_use"]
    return [first, said("assistant", *content), said("user", *results)]


def test_thinking_comes_back_as_it_was() -> None:
    api = MessagesApi()
    assert not send_request(api, BOUND, messages=answer_with_thinking(api), tools=[TOOL]).refused


def test_thinking_of_another_origin_is_refused() -> None:
    api = MessagesApi()
    messages = answer_with_thinking(api)
    messages[1]["content"][0]["signature"] = "other"
    assert (
        "Invalid `signature` in `thinking` block" in send_request(api, BOUND, messages=messages, tools=[TOOL]).refused
    )


def test_changed_and_partial_thinking_is_refused() -> None:
    api = MessagesApi()
    messages = answer_with_thinking(api, NEW)
    changed = json.loads(json.dumps(messages))
    changed[1]["content"][0]["thinking"] = "Else."
    assert "cannot be modified" in send_request(api, NEW, messages=changed, tools=[TOOL]).refused
    del messages[1]["content"][0]
    assert "cannot be modified" in send_request(api, NEW, messages=messages, tools=[TOOL]).refused


def test_thinking_is_bound_to_what_stood_before_it() -> None:
    api = MessagesApi()
    messages = answer_with_thinking(api)
    other = {**TOOL, "description": "Else."}
    assert "bound to a different conversation" in send_request(api, BOUND, messages=messages, tools=[other]).refused
    assert not send_request(api, NEW, messages=messages, tools=[other]).refused  # a model that cannot read the block


def test_a_tool_loop_in_manual_mode_starts_with_thinking() -> None:
    thinking = {"type": "enabled", "budget_tokens": 2000}
    refused = send_request(
        MessagesApi(), BUDGETS, messages=[*CALLED, said("user", RESULT)], tools=[TOOL], thinking=thinking
    )
    assert "Expected `thinking` or `redacted_thinking`, but found `tool_use`" in refused.refused


def test_unbound_thinking_can_be_ignored_instead() -> None:
    api = MessagesApi()
    messages = answer_with_thinking(api)
    thinking = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    body: dict[str, Any] = {"messages": messages, "tools": [{**TOOL, "description": "Else."}], "thinking": thinking}
    assert "block_binding: Extra inputs are not permitted" in send_request(api, BOUND, **body).refused
    answered = send_request(api, BOUND, {"anthropic-beta": "thinking-binding-controls-2026-08-01"}, **body)
    assert [one["path"] for one in answered.said["input_transformations"]] == [
        "messages.1.content.0",
        "messages.1.content.2",
    ]
