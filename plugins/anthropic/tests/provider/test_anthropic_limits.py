"""What the vendor refuses whatever the model: too much to enforce, schemas of other drafts, ids twice, insecure addresses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

import tornado_gate_anthropic.provider as plugin
from tornado_gate.types import (
    Call,
    ChatRequest,
    File,
    Image,
    Link,
    Message,
    Opaque,
    Reasoning,
    ResponseFormat,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    replace,
)

MakeCall = Callable[..., Call]
MakeChat = Callable[..., ChatRequest]


def make_schema(names: Iterable[str], required: Iterable[str] = (), kind: Any = "string") -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": kind} for name in names}, "required": list(required)}


def make_names(count: int) -> list[str]:
    return [f"p{number:02}" for number in range(count)]


def test_more_than_twenty_strict_tools_lose_strict_from_the_last_on(call: MakeCall, chat: MakeChat) -> None:
    tools = tuple(Tool(name=name, parameters=make_schema(()), strict=True) for name in make_names(22))
    used = call(upstream_model="claude-opus-5-5")
    body = plugin.translate_request(used, chat(tools=tools)).json
    assert [tool.get("strict") for tool in body["tools"]] == [True] * 20 + [None] * 2
    assert [loss for loss in used.losses if loss.endswith("strict")] == ["tools.20.strict", "tools.21.strict"]


def test_more_optional_properties_than_can_be_enforced_become_required(call: MakeCall, chat: MakeChat) -> None:
    wanted = ResponseFormat(kind="json_schema", name="x", schema=make_schema(make_names(30), ["p29"]))
    used = call(upstream_model="claude-opus-5-5")
    body = plugin.translate_request(used, chat(response_format=wanted)).json
    assert body["output_config"]["format"]["schema"]["required"] == ["p29", *make_names(29)[24:]]
    assert "response_format.schema.required" in used.losses


def test_more_unions_than_can_be_enforced_leave_no_format(call: MakeCall, chat: MakeChat) -> None:
    schema = make_schema(make_names(17), make_names(17), ["string", "null"])
    used = call(upstream_model="claude-opus-5-5")
    body = plugin.translate_request(used, chat(response_format=ResponseFormat(kind="json_schema", schema=schema))).json
    assert "output_config" not in body
    assert "response_format" in used.losses


def test_a_format_takes_the_place_of_an_answer_to_be_continued(call: MakeCall, chat: MakeChat) -> None:
    messages = (*chat().messages, Message(role="assistant", parts=(Text(text="{"),)))
    wanted = ResponseFormat(kind="json_schema", schema=make_schema(()))
    used = call(upstream_model="claude-haiku-4-5")
    body = plugin.translate_request(used, replace(chat(response_format=wanted), messages=messages)).json
    assert body["messages"][-1]["role"] == "user"
    assert "messages.1" in used.losses


def test_opus_4_1_gets_neither_formats_nor_strict_tools(call: MakeCall, chat: MakeChat) -> None:
    used = call(upstream_model="claude-opus-4-1-20250805")
    request = chat(
        tools=(Tool(name="look", parameters=make_schema(()), strict=True),),
        response_format=ResponseFormat(kind="json_schema", schema=make_schema(())),
    )
    body = plugin.translate_request(used, request).json
    assert "output_config" not in body
    assert "strict" not in body["tools"][0]
    assert set(used.losses) == {"tools.0.strict", "response_format"}


@pytest.mark.parametrize(("model", "budget"), [("claude-haiku-4-5", 47_616), ("claude-opus-4-1", 16_000)])
def test_a_budget_leaves_room_for_the_answer_in_the_models_largest_one(
    call: MakeCall, chat: MakeChat, model: str, budget: int
) -> None:
    body = plugin.translate_request(call(upstream_model=model), chat(reasoning=Reasoning(effort="max"))).json
    assert body["thinking"] == {"type": "enabled", "budget_tokens": budget}
    assert body["max_tokens"] > budget


def test_calls_that_repeat_an_id_get_others_and_so_do_their_results(call: MakeCall, chat: MakeChat) -> None:
    look = ToolCall(id="call_1", name="look", arguments="{}")
    messages = (
        *chat().messages,
        Message(role="assistant", parts=(look, look)),
        Message(role="tool", parts=(ToolResult(call_id="call_1", parts=(Text(text="one"),)),)),
        Message(role="tool", parts=(ToolResult(call_id="call_1", parts=(Text(text="two"),)),)),
        Message(role="assistant", parts=(look,)),
        Message(role="tool", parts=(ToolResult(call_id="call_1", parts=(Text(text="three"),)),)),
    )
    used = call()
    turns = plugin.translate_request(used, replace(chat(), messages=messages)).json["messages"]
    assert [block["id"] for turn in turns[1::2] for block in turn["content"]] == ["call_1", "call_1-2", "call_1-3"]
    results = [block for turn in turns[2::2] for block in turn["content"]]
    assert [block["tool_use_id"] for block in results] == ["call_1", "call_1-2", "call_1-3"]
    assert [block["content"] for block in results] == ["one", "two", "three"]
    assert not used.losses


def test_a_tools_schema_of_an_older_draft_becomes_one_of_the_checked_draft(call: MakeCall, chat: MakeChat) -> None:
    schema = {
        "type": "object",
        "properties": {"at": {"type": "integer", "minimum": 1, "exclusiveMinimum": True, "maximum": "9"}},
    }
    used = call()
    body = plugin.translate_request(used, chat(tools=(Tool(name="look", parameters=schema),))).json
    assert body["tools"][0]["input_schema"]["properties"] == {"at": {"type": "integer", "exclusiveMinimum": 1}}
    assert used.losses == ["tools.0.parameters.properties.at.maximum"]


THOUGHT = Thinking(text="hm", signature=Opaque(issuer="ours", value="signature"))
BETA = "thinking-binding-controls-2026-08-01"


@pytest.mark.parametrize(
    ("model", "reasoning", "bound"),
    [
        ("claude-opus-5-5", None, True),
        ("claude-fable-5-1", Reasoning(effort="low"), True),
        ("claude-haiku-5-5", None, True),
        ("claude-haiku-5-5", Reasoning(effort="none"), False),
        ("claude-sonnet-5-5", Reasoning(effort="none"), False),
        ("claude-mythos-5-1", None, False),
        ("claude-opus-5", None, False),
        ("claude-opus-4-8", Reasoning(effort="low"), False),
        ("claude-haiku-4-5", None, False),
    ],
)
def test_thinking_that_no_longer_fits_its_conversation_is_ignored_not_rejected(
    call: MakeCall, chat: MakeChat, model: str, reasoning: Reasoning | None, bound: bool
) -> None:
    messages = (*chat().messages, Message(role="assistant", parts=(THOUGHT, Text(text="a"))), *chat().messages)
    request = replace(chat(reasoning=reasoning), messages=messages)
    outgoing = plugin.translate_request(call(upstream_model=model), request)
    thinking = outgoing.json.get("thinking") or {}
    assert thinking.get("block_binding") == ({"prefix_mismatch_behavior": "drop_block"} if bound else None)
    assert outgoing.headers.get("anthropic-beta") == (BETA if bound else None)
    first = plugin.translate_request(call(upstream_model=model), chat(reasoning=reasoning))
    assert "block_binding" not in (first.json.get("thinking") or {})


def test_a_configured_beta_stays_beside_the_one_of_the_request(call: MakeCall, chat: MakeChat) -> None:
    messages = (*chat().messages, Message(role="assistant", parts=(THOUGHT,)), *chat().messages)
    used = call(upstream_model="claude-opus-5-5", headers={"Anthropic-Beta": "fast-mode-2026-02-01"})
    outgoing = plugin.translate_request(used, replace(chat(), messages=messages))
    assert outgoing.headers["anthropic-beta"] == f"fast-mode-2026-02-01,{BETA}"


@dataclass
class Fetcher:
    """Answers every address with one picture."""

    asked: list[str]

    async def fetch(self, url: str, *, kinds: Collection[str], param: str) -> SimpleNamespace:
        self.asked.append(url)
        return SimpleNamespace(media_type="image/png", data=b"\x89PNG\r\n\x1a\n")


def test_files_at_insecure_addresses_are_sent_as_data(call: MakeCall, chat: MakeChat) -> None:
    fetcher = Fetcher([])
    used = replace(call(), fetcher=fetcher)
    parts = (
        Image(source=Link(url="http://a.example/1.png")),
        Image(source=Link(url="https://a.example/2.png")),
        File(source=Link(url="https://a.example/3.pdf")),
    )
    request = replace(chat(), messages=(Message(role="user", parts=parts),))
    pending: Any = plugin.translate_request(used, request)
    content = asyncio.run(pending).json["messages"][0]["content"]
    assert [block["source"]["type"] for block in content] == ["base64", "url", "url"]
    assert fetcher.asked == ["http://a.example/1.png"]


def test_thinking_that_cannot_be_switched_off_is_shown_to_a_caller_who_asks_for_it(
    call: MakeCall, chat: MakeChat
) -> None:
    request = chat(reasoning=Reasoning(budget_tokens=0, enabled=False, summary="auto"))
    body = plugin.translate_request(call(upstream_model="claude-opus-5-5"), request).json
    assert body["thinking"] == {"type": "adaptive", "display": "summarized"}
    assert body["output_config"] == {"effort": "low"}
