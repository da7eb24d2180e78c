"""Chats in each wire format, and a scripted vendor for each; `qa.conformance.schemas` holds the shapes of the answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.support import vendor_answers
from tests.support.upstream import Answer

KEY = "test-key-of-the-answers"
HEADERS = {
    "authorization": f"Bearer {KEY}",
    "x-stainless-lang": "python",  # the vendors' dialect
    "anthropic-version": "2023-06-01",
}
ASK = "What is the weather in Oslo?"
TOOL_SCHEMA = {"type": "object", "properties": {"at": {"type": "string"}}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One request, and the shapes of its whole answer or of each event of its stream. `upstream` is what a vendor answers."""

    name: str
    path: str
    shape: str
    body: Mapping[str, Any] | None = None
    method: str = "POST"
    streamed: bool = False
    status: int = 200
    files: Mapping[str, tuple[str, bytes, str]] = field(default_factory=dict, repr=False)
    headers: Mapping[str, str] = field(default_factory=lambda: HEADERS, repr=False)
    upstream: Answer | None = field(default=None, repr=False)


def read_events(text: str) -> list[str]:
    """The data of the events of a stream that have a schema: not the end mark, nor pings."""
    data = [line.removeprefix("data: ") for line in text.split("\n") if line.startswith("data: ")]
    return [one for one in data if one != "[DONE]" and not one.startswith(('{"type": "ping"', '{"type":"ping"'))]


VENDORS: Mapping[str, Callable[..., Answer]] = {
    "chat": vendor_answers.chat,
    "responses": vendor_answers.responses,
    "messages": vendor_answers.messages,
    "generate": vendor_answers.generate,
}
"""By the name of an upstream's route."""
CALLERS = (*VENDORS, "completions")
SHAPES = {
    "chat": ("chat", "chat chunk"),
    "completions": ("completion", "completion"),
    "responses": ("response", "response event"),
    "messages": ("message", "message event"),
    "generate": ("generated", "generated"),
}
"""By the caller's route: the shape of a whole answer, and of an event of its stream."""


def ask_chat(caller: str, model: str, *, streamed: bool, calls: bool = False, thinks: bool = False) -> Exchange:
    """A question by one of `CALLERS`, with a tool that has to be called when `calls`, and with reasoning when `thinks`."""
    stream: dict[str, Any] = {"stream": True} if streamed else {}
    path = {"chat": "chat/completions"}.get(caller, caller)
    path = f"/v1/{path}"
    function = {"name": "look", "parameters": TOOL_SCHEMA}
    body: dict[str, Any]
    match caller:
        case "chat" | "completions":
            body = {"messages": [{"role": "user", "content": ASK}]} if caller == "chat" else {"prompt": ASK}
            body |= stream | ({"stream_options": {"include_usage": True}} if streamed else {})
            body |= {"tools": [{"type": "function", "function": function}], "tool_choice": "required"} if calls else {}
            body |= {"reasoning_effort": "medium"} if thinks else {}
        case "responses":
            body = {"input": [{"role": "user", "content": ASK}], **stream}
            body |= (
                {"tools": [{"type": "function", "strict": False, **function}], "tool_choice": "required"}
                if calls
                else {}
            )
            body |= (
                {"reasoning": {"effort": "medium", "summary": "auto"}, "include": ["reasoning.encrypted_content"]}
                if thinks
                else {}
            )
        case "messages":
            body = {"max_tokens": 3000, "messages": [{"role": "user", "content": ASK}], **stream}
            tools = {"tools": [{"name": "look", "input_schema": TOOL_SCHEMA}], "tool_choice": {"type": "any"}}
            body |= tools if calls and not thinks else {}
            body |= {"thinking": {"type": "enabled", "budget_tokens": 2000}} if thinks else {}
        case _:
            body = {"contents": [{"role": "user", "parts": [{"text": ASK}]}]}
            mode = {"functionCallingConfig": {"mode": "ANY"}}
            body |= {"tools": [{"functionDeclarations": [function]}], "toolConfig": mode} if calls else {}
            thinking = {"includeThoughts": True, "thinkingBudget": 2000}
            body |= {"generationConfig": {"thinkingConfig": thinking}} if thinks else {}
            path = f"/v1beta/models/{model}:" + ("streamGenerateContent?alt=sse" if streamed else "generateContent")
    if caller != "generate":
        body["model"] = model
    what = " ".join(
        ["streamed" if streamed else "whole", *(["calls"] if calls else []), *(["thinking"] if thinks else [])]
    )
    name = f"{caller} of {model}, {what}"
    return Exchange(name=name, path=path, body=body, shape=SHAPES[caller][streamed], streamed=streamed)
