"""An unknown member of any object in a request is reported by the caller's path when the upstream has another format."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import pytest

from tornado_gate.testing import call_to, target_of
from tornado_gate_anthropic.wire import messages
from tornado_gate_gemini.wire import generate
from tornado_gate_local.losses import report_drops
from tornado_gate_openai.wire import chat, responses

Path = tuple[str | int, ...]
CACHE = {"type": "ephemeral"}
CALLER_DATA = frozenset({"parameters", "schema", "input_schema", "input"})
"""Names of objects of the caller's own, with any member."""

MESSAGES: dict[str, Any] = {
    "model": "m",
    "max_tokens": 9,
    "system": [{"type": "text", "text": "s", "cache_control": CACHE}],
    "metadata": {"user_id": "u"},
    "thinking": {"type": "enabled", "budget_tokens": 2000},
    "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": {"type": "object"}}},
    "tool_choice": {"type": "auto"},
    "cache_control": CACHE,
    "tools": [
        {"name": "f", "input_schema": {"type": "object"}, "cache_control": CACHE},
        {"type": "web_search_20250305", "name": "web_search", "user_location": {"type": "approximate", "city": "P"}},
    ],
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "a", "cache_control": CACHE},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
                {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}},
                {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "x"}]},
            ],
        },
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "b"}, {"type": "tool_use", "id": "t", "name": "f", "input": {}}],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "t",
                    "content": [{"type": "text", "text": "x"}, {"type": "tool_reference", "tool_name": "f"}],
                }
            ],
        },
    ],
}
CHAT: dict[str, Any] = {
    "model": "m",
    "stream": True,
    "stream_options": {"include_usage": True},
    "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}},
    "tool_choice": {"type": "function", "function": {"name": "f"}},
    "web_search_options": {"user_location": {"type": "approximate", "approximate": {"city": "P"}}},
    "prediction": {"type": "content", "content": "x"},
    "tools": [
        {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}, "cache_control": CACHE},
        {"type": "function", "function": {"name": "g", "cache_control": CACHE}},
    ],
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "a", "cache_control": CACHE},
                {"type": "image_url", "image_url": {"url": "https://pictures.example/a.png"}},
                {"type": "file", "file": {"file_data": "data:text/plain;base64,eA==", "filename": "a"}},
            ],
        },
        {
            "role": "assistant",
            "content": "b",
            "tool_calls": [{"id": "t", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "t", "content": [{"type": "text", "text": "x"}]},
    ],
}
RESPONSES: dict[str, Any] = {
    "model": "m",
    "input": [
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "a"},
                {"type": "input_image", "image_url": "https://pictures.example/a.png"},
            ],
        },
        {"type": "function_call", "call_id": "t", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "t", "output": [{"type": "input_text", "text": "x"}]},
    ],
    "tools": [
        {"type": "function", "name": "f", "parameters": {}},
        {
            "type": "web_search",
            "user_location": {"type": "approximate", "city": "P"},
            "filters": {"allowed_domains": ["pages.example"]},
        },
    ],
    "tool_choice": {"type": "web_search"},
    "text": {"verbosity": "low", "format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}},
    "reasoning": {"effort": "low"},
    "stream": True,
    "stream_options": {"include_obfuscation": False},
}
PARSERS: dict[str, tuple[Callable[[Any], Any], dict[str, Any]]] = {
    "messages": (messages.parse_request, MESSAGES),
    "chat": (chat.parse_request, CHAT),
    "responses": (responses.parse_request, RESPONSES),
}
RENDERERS: dict[str, Callable[..., Any]] = {
    "messages": messages.render_request,
    "chat": chat.render_request,
    "responses": responses.render_request,
    "gemini": generate.render_request,
    "local": report_drops,
}


def walk_objects(value: Any, path: Path = ()) -> Iterator[Path]:
    """The path of each object of a wire format."""
    if isinstance(value, dict):
        yield path
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, member in pairs:
        if not (name in CALLER_DATA and isinstance(member, dict)):
            yield from walk_objects(member, (*path, name))


def find_losses(source: str, target: str, body: dict[str, Any], **options: Any) -> list[str]:
    call = call_to(model="m", target=target_of(upstream_model="up"))
    RENDERERS[target](call, PARSERS[source][0](body), **options)
    return call.losses


def find_losses_of_an_odd_member(source: str, target: str, path: Path) -> list[str]:
    body = deepcopy(PARSERS[source][1])
    holder = body
    for step in path:
        holder = holder[step]  # type: ignore[index]
    holder["odd"] = {"a": 1}
    return find_losses(source, target, body)


@pytest.mark.parametrize(
    ("source", "target"), [(source, target) for source in PARSERS for target in RENDERERS if source != target]
)
def test_an_unknown_member_is_reported_with_its_object_or_by_its_own_path(source: str, target: str) -> None:
    for path in walk_objects(PARSERS[source][1]):
        odd = ".".join(map(str, (*path, "odd")))
        losses = find_losses_of_an_odd_member(source, target, path)
        assert any(odd == loss or odd.startswith(f"{loss}.") for loss in losses), (odd, losses)


@pytest.mark.parametrize("member", [{"ttl": "2h"}, {"scope": "global"}])
@pytest.mark.parametrize(
    ("target", "options"),
    [("messages", {}), ("chat", {"cache_markers": "cache_control"}), ("chat", {"cache_markers": "breakpoints"})],
)
def test_what_a_sent_marker_cannot_say_is_reported(
    target: str, options: dict[str, Any], member: dict[str, Any]
) -> None:
    source = "chat" if target == "messages" else "messages"
    parts = [{"type": "text", "text": "a", "cache_control": CACHE | member}]
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": parts}]}
    assert find_losses(source, target, body, **options) == [f"messages.0.content.0.cache_control.{next(iter(member))}"]
