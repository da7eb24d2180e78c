"""What is sent to each Gemini, and what is reported as lost: translated requests, by the facts in models.yaml."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest
from gemini_calls import JSON, answer, call_for, translate_request

import tornado_gate_gemini.provider as plugin
from tornado_gate import ProviderEntry
from tornado_gate.errors import ConfigError
from tornado_gate.streams.events import collect
from tornado_gate.testing import chat
from tornado_gate.types import ChatResult, Message, Reasoning, ResponseFormat, Text, Tool, ToolCall, ToolResult
from tornado_gate.types.value import replace


@pytest.mark.parametrize(
    ("model", "given", "config", "lost"),
    [
        # levels
        ("gemini-3-pro-preview", {"reasoning": Reasoning(effort="minimal")}, {"thinkingLevel": "LOW"}, ["reasoning"]),
        ("gemini-3-pro-preview", {"reasoning": Reasoning(effort="medium")}, {"thinkingLevel": "LOW"}, ["reasoning"]),
        ("gemini-3-flash-preview", {"reasoning": Reasoning(effort="minimal")}, {"thinkingLevel": "MINIMAL"}, []),
        (
            "gemini-3-flash-preview",
            {"reasoning": Reasoning(effort="none")},
            {"thinkingLevel": "MINIMAL"},
            ["reasoning"],
        ),
        ("gemini-3.1-pro-preview", {"reasoning": Reasoning(effort="medium")}, {"thinkingLevel": "MEDIUM"}, []),
        ("gemini-3.8-flash", {"reasoning": Reasoning(effort="minimal")}, {"thinkingLevel": "LOW"}, ["reasoning"]),
        ("gemini-9-new", {"reasoning": Reasoning(enabled=False)}, {"thinkingLevel": "LOW"}, ["reasoning"]),
        ("gemini-9-new", {"reasoning": Reasoning(effort="max")}, {"thinkingLevel": "HIGH"}, ["reasoning"]),
        ("gemini-3-pro-preview", {"reasoning": Reasoning(budget_tokens=9000)}, {"thinkingLevel": "LOW"}, []),
        ("gemini-3.1-pro-preview", {"reasoning": Reasoning(budget_tokens=9000)}, {"thinkingLevel": "MEDIUM"}, []),
        # budgets
        ("gemini-2.5-pro", {"reasoning": Reasoning(effort="none")}, {"thinkingBudget": 128}, ["reasoning"]),
        ("gemini-2.5-pro", {"reasoning": Reasoning(budget_tokens=64)}, {"thinkingBudget": 128}, []),
        (
            "gemini-2.5-pro",
            {"reasoning": Reasoning(budget_tokens=40_000)},
            {"thinkingBudget": 32_768},
            ["reasoning.budget_tokens"],
        ),
        ("gemini-2.5-pro", {"reasoning": Reasoning(enabled=True)}, {"thinkingBudget": -1}, []),
        ("gemini-2.5-flash", {"reasoning": Reasoning(effort="none")}, {"thinkingBudget": 0}, []),
        ("gemini-2.5-flash", {"reasoning": Reasoning(effort="max")}, {"thinkingBudget": 24_576}, ["reasoning"]),
        (
            "gemini-2.5-flash",
            {"reasoning": Reasoning(budget_tokens=32_768)},
            {"thinkingBudget": 24_576},
            ["reasoning.budget_tokens"],
        ),
        ("gemini-2.5-flash-lite", {"reasoning": Reasoning(budget_tokens=100)}, {"thinkingBudget": 512}, []),
        ("gemini-2.0-flash", {"reasoning": Reasoning(effort="high")}, None, ["reasoning"]),
        ("gemini-2.0-flash", {"reasoning": Reasoning(effort="none")}, None, []),
    ],
)
def test_thinking_is_within_the_bounds_of_the_model(
    model: str, given: dict[str, Any], config: dict[str, Any] | None, lost: list[str]
) -> None:
    call = call_for(model)
    body = translate_request(chat(**given), call).json
    assert body.get("generationConfig") == (None if config is None else {"thinkingConfig": config})
    assert call.losses == lost


@pytest.mark.parametrize(
    ("model", "given", "config", "lost"),
    [
        ("gemini-3-flash", {"n": 2}, {}, ["n"]),
        ("gemini-3-flash", {"n": 1}, {"candidateCount": 1}, []),
        ("gemini-2.5-flash", {"n": 3}, {"candidateCount": 3}, []),
        ("gemini-2.5-flash", {"n": 9}, {"candidateCount": 8}, ["n"]),
        ("gemini-2.5-flash-image", {"n": 2}, {}, ["n"]),
        ("gemini-3-flash", {"presence_penalty": 0.5, "frequency_penalty": 0}, {}, ["presence_penalty"]),
        ("gemini-2.0-flash", {"presence_penalty": 0.5}, {"presencePenalty": 0.5}, []),
        ("gemini-3-flash", {"stop": tuple("abcdef")}, {"stopSequences": list("abcde")}, ["stop.5"]),
        ("gemini-3-flash", {"max_tokens": 70_000}, {"maxOutputTokens": 65_536}, ["max_tokens"]),
    ],
)
def test_a_request_that_the_model_cannot_take_is_cut(
    model: str, given: dict[str, Any], config: dict[str, Any], lost: list[str]
) -> None:
    call = call_for(model)
    assert translate_request(chat(**given), call).json.get("generationConfig", {}) == config
    assert call.losses == lost


TREE = {
    "type": "object",
    "properties": {"kind": {"$ref": "#/$defs/kind", "title": "Kind"}, "next": {"$ref": "#"}},
    "$defs": {"kind": {"type": "string"}},
}


def test_schemas_have_no_references() -> None:
    call = call_for()
    request = chat(
        tools=(Tool(name="f", parameters=TREE),), response_format=ResponseFormat(kind="json_schema", schema=TREE)
    )
    body = translate_request(request, call).json
    declared = body["tools"][0]["functionDeclarations"][0]["parametersJsonSchema"]
    assert declared == body["generationConfig"]["responseJsonSchema"]
    assert declared["properties"]["kind"] == {"type": "string", "title": "Kind"}
    assert b"$" not in orjson.dumps(declared)
    cut = "properties.next.properties.next.properties.next.$ref"
    assert call.losses == [f"tools.0.parameters.{cut}", f"response_format.schema.{cut}"]


def test_a_response_is_never_without_its_call() -> None:
    call = call_for()
    messages = (
        Message(role="user", parts=(Text(text="Hi"),)),
        Message(role="assistant", parts=(ToolCall(id="c", name="f", arguments='{"a": '),)),
        Message(role="tool", parts=(ToolResult(call_id="c", parts=(Text(text="bad JSON"),), is_error=True),)),
    )
    contents = translate_request(chat(messages=messages), call).json["contents"]
    assert contents[1]["parts"][0]["functionCall"] == {"id": "c", "name": "f", "args": {"input": '{"a": '}}
    assert contents[2]["parts"][0]["functionResponse"]["id"] == "c"
    assert call.losses == ["messages.1.content.0"]


def test_a_later_system_message_is_no_silent_first_one() -> None:
    call = call_for()
    messages = (
        Message(role="system", parts=(Text(text="a"),)),
        Message(role="user", parts=(Text(text="Hi"),)),
        Message(role="system", parts=(Text(text="b"),)),
    )
    assert translate_request(chat(messages=messages), call).json["systemInstruction"] == {
        "parts": [{"text": "a"}, {"text": "b"}]
    }
    assert call.losses == ["messages.2.role"]


@pytest.mark.parametrize("name", ["1st", "n" * 65, "a b"])
def test_a_tool_name_that_the_vendor_rejects_comes_back_as_the_caller_wrote_it(name: str) -> None:
    call, request = call_for(), chat(tools=(Tool(name=name), Tool(name="mcp.a:b")))
    declared = translate_request(request, call).json["tools"][0]["functionDeclarations"]
    assert declared[1]["name"] == "mcp.a:b"
    accepted = declared[0]["name"]
    assert (accepted[0].isalpha() or accepted[0] == "_", len(accepted) <= 64, call.losses) == (True, True, [])
    part = {"functionCall": {"id": "c", "name": accepted, "args": {}}}
    body = {"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}]}

    async def read() -> ChatResult:
        return await collect(plugin.translate_response(call, request, answer([orjson.dumps(body)], JSON)))

    result = asyncio.run(read())
    (said,) = result.choices[0].parts
    assert isinstance(said, ToolCall)
    assert said.name == name


def test_conf_refines_what_is_known() -> None:
    call = call_for("gemini-9-new", model_rules={"gemini-9*": {"efforts": ["minimal", "low"], "most_candidates": 4}})
    body = translate_request(chat(n=4, reasoning=Reasoning(effort="minimal")), call).json
    assert body["generationConfig"] == {"candidateCount": 4, "thinkingConfig": {"thinkingLevel": "MINIMAL"}}
    with pytest.raises(ConfigError) as caught:
        plugin.configure(ProviderEntry(name="g", settings={"model_rules": {"x": {"levels": []}}}))
    assert caught.value.faults[0][0] == ("model_rules", "x", "levels")


def test_a_request_in_the_vendors_own_format_is_not_changed() -> None:
    call = call_for("gemini-3-pro-preview")
    request = chat(
        wire_format="gemini-generate",
        n=2,
        presence_penalty=0.5,
        reasoning=Reasoning(enabled=False),
        tools=(Tool(name="1"),),
    )
    body = translate_request(request, call).json
    assert body["generationConfig"] == {
        "candidateCount": 2,
        "presencePenalty": 0.5,
        "thinkingConfig": {"thinkingBudget": 0},
    }
    assert body["tools"] == [{"functionDeclarations": [{"name": "1"}]}]
    assert call.losses == []


@pytest.mark.parametrize(
    ("model", "lost"),
    [
        ("gemini-2.0-flash", []),
        ("gemini-2.5-flash", ["logprobs", "top_logprobs"]),
        ("gemini-3.5-flash", ["logprobs", "top_logprobs"]),
        ("gemini-flash-latest", ["logprobs", "top_logprobs"]),
        ("my-own-model", []),
    ],
)
def test_log_probabilities_are_sent_to_models_that_have_them_and_to_unknown_ones(model: str, lost: list[str]) -> None:
    call = call_for(model)
    config = translate_request(chat("Hi", logprobs=True, top_logprobs=2), call).json.get("generationConfig", {})
    assert call.losses == lost
    assert (config.get("responseLogprobs"), config.get("logprobs")) == ((None, None) if lost else (True, 2))


@pytest.mark.parametrize(
    ("model", "continues"),
    [
        ("gemini-2.5-flash", True),
        ("gemini-3.5-flash", True),
        ("gemini-3.5-flash-lite", False),
        ("gemini-3.6-flash", False),
        ("gemini-4-neon", False),
        ("gemma-4", True),
    ],
)
def test_a_begun_answer_is_continued_or_reported(model: str, continues: bool) -> None:
    call = call_for(model)
    begun = Message(role="assistant", parts=(Text(text="The sky is"),))
    request = chat("Hi")
    contents = translate_request(replace(request, messages=(*request.messages, begun)), call).json["contents"]
    assert (contents[-1]["role"], call.losses) == (("model", []) if continues else ("user", ["messages.1"]))
    assert contents[1] == {"role": "model", "parts": [{"text": "The sky is"}]}


@pytest.mark.parametrize(("model", "lost"), [("gemini-3.5-flash", []), ("gemini-3.8-flash", ["temperature", "top_k"])])
def test_sampling_that_the_vendor_ignores_is_reported(model: str, lost: list[str]) -> None:
    call = call_for(model)
    translate_request(chat("Hi", temperature=0.2, top_p=1, top_k=4), call)
    assert call.losses == lost
