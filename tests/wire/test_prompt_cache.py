"""Cache markers between wire formats: where they go, how many, and what is reported."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornado_gate.testing import call_to, target_of
from tornado_gate.types import Call
from tornado_gate.wire.prompt_cache import CacheMarkers
from tornado_gate_anthropic.wire import messages as anthropic_messages
from tornado_gate_gemini.wire import generate
from tornado_gate_openai.wire import chat as openai_chat
from tornado_gate_openai.wire import responses

SHORT = {"type": "ephemeral"}
LONG = {"type": "ephemeral", "ttl": "1h"}
POINT = {"mode": "explicit"}


def call_for() -> Call:
    return call_to(model="m", target=target_of(upstream_model="up"))


def text(words: str, **members: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **members}


def chat_to_claude(body: dict[str, Any], **options: Any) -> tuple[dict[str, Any], list[str]]:
    call = call_for()
    request = openai_chat.parse_request({"model": "m", "max_tokens": 9, **body})
    return anthropic_messages.render_request(call, request, **options), call.losses


def user(*parts: dict[str, Any] | str, **members: Any) -> dict[str, Any]:
    return {"role": "user", "content": parts[0] if isinstance(parts[0], str) else list(parts), **members}


def tool(name: str, **members: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}, **members}


def test_markers_of_a_chat_arrive_where_the_caller_set_them() -> None:
    body, losses = chat_to_claude(
        {
            "messages": [
                {"role": "system", "content": [text("Rules"), text("More", cache_control=LONG)]},
                user(text("Look"), {"type": "image_url", "image_url": {"url": "https://e.example/a.png"},
                                    "cache_control": SHORT}),
            ],
            "tools": [tool("a"), tool("b", cache_control=LONG)],
        }
    )  # fmt: skip
    assert body["tools"] == [
        {"name": "a", "input_schema": {"type": "object"}},
        {"name": "b", "input_schema": {"type": "object"}, "cache_control": LONG},
    ]
    assert body["system"] == [text("Rules"), text("More", cache_control=LONG)]
    image = {"type": "image", "source": {"type": "url", "url": "https://e.example/a.png"}, "cache_control": SHORT}
    assert body["messages"] == [{"role": "user", "content": [text("Look"), image]}]
    assert losses == []


def test_a_marker_of_a_message_marks_its_last_block() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "a", "arguments": "{}"}}
    body, losses = chat_to_claude(
        {
            "messages": [
                {"role": "system", "content": "Rules", "cache_control": SHORT},
                user("Hi", cache_control=SHORT),
                {"role": "assistant", "content": "Hm", "tool_calls": [call], "cache_control": SHORT},
                {"role": "tool", "tool_call_id": "c1", "content": "blue", "cache_control": SHORT},
            ],
            "tools": [tool("a")],
        }
    )
    assert body["system"] == [text("Rules", cache_control=SHORT)]
    assert [turn["content"] for turn in body["messages"]] == [
        [text("Hi", cache_control=SHORT)],
        [text("Hm"), {"type": "tool_use", "id": "c1", "name": "a", "input": {}, "cache_control": SHORT}],
        [{"type": "tool_result", "tool_use_id": "c1", "content": "blue", "cache_control": SHORT}],
    ]
    assert losses == []


def test_markers_inside_a_function_or_a_tool_result_mark_the_whole_of_it() -> None:
    function = {"name": "a", "parameters": {"type": "object"}, "cache_control": SHORT}
    call = {"id": "c1", "type": "function", "function": {"name": "a", "arguments": "{}"}}
    body, losses = chat_to_claude(
        {
            "messages": [
                user("Hi"),
                {"role": "assistant", "tool_calls": [call | {"cache_control": SHORT}]},
                {"role": "tool", "tool_call_id": "c1", "content": [text("blue", cache_control=LONG), text("!")]},
            ],
            "tools": [{"type": "function", "function": function}],
        }
    )
    assert body["tools"][0]["cache_control"] == SHORT
    assert body["messages"][1]["content"][0]["cache_control"] == SHORT
    (result,) = body["messages"][2]["content"]
    assert result == {
        "type": "tool_result",
        "tool_use_id": "c1",
        "content": [text("blue"), text("!")],
        "cache_control": SHORT,
    }
    assert losses == ["messages.2.content.0.cache_control.ttl"]


def test_no_more_than_four_markers_are_sent_and_the_others_are_named() -> None:
    body, losses = chat_to_claude(
        {
            "messages": [
                {"role": "system", "content": [text("a", cache_control=SHORT), text("b", cache_control=SHORT)]},
                *(user(text(str(number), cache_control=SHORT)) for number in range(4)),
            ],
            "tools": [tool("a", cache_control=SHORT), tool("b", cache_control=SHORT)],
        }
    )
    assert ["cache_control" in each for each in body["tools"]] == [False, True]
    assert ["cache_control" in block for block in body["system"]] == [False, True]
    assert ["cache_control" in block for block in body["messages"][0]["content"]] == [False, False, True, True]
    assert sorted(losses) == [
        "messages.0.content.0.cache_control",
        "messages.1.content.0.cache_control",
        "messages.2.content.0.cache_control",
        "tools.0.cache_control",
    ]


def test_a_longer_lifetime_after_a_shorter_one_is_shortened() -> None:
    body, losses = chat_to_claude(
        {
            "messages": [
                {"role": "system", "content": [text("a", cache_control=LONG)]},
                user(text("b", cache_control={**SHORT, "ttl": "5m"}), text("c", cache_control=LONG)),
            ],
        }
    )
    assert body["system"] == [text("a", cache_control=LONG)]
    assert body["messages"][0]["content"] == [
        text("b", cache_control={**SHORT, "ttl": "5m"}),
        text("c", cache_control=SHORT),
    ]
    assert losses == ["messages.1.content.1.cache_control.ttl"]


@pytest.mark.parametrize(
    ("last", "lost"),
    [({}, []), ({"cache_control": LONG}, []), ({"cache_control": SHORT}, ["cache_control"])],
)
def test_the_top_level_marker_is_sent_unless_the_last_block_has_its_own(last: dict[str, Any], lost: list[str]) -> None:
    body, losses = chat_to_claude({"messages": [user(text("a", **last))], "cache_control": LONG})
    assert body.get("cache_control") == (None if last else LONG)
    assert losses == lost
    if last:
        assert body["messages"][0]["content"][0]["cache_control"] == last["cache_control"]


def test_what_cannot_be_a_marker_is_named() -> None:
    messages = [user(text(" ", cache_control=SHORT), text("Hi", cache_control={"type": "forever"}))]
    body, losses = chat_to_claude({"messages": messages, "cache_control": "yes"})
    assert body["messages"] == [{"role": "user", "content": [text("Hi")]}]
    assert "cache_control" not in body
    assert losses == [
        "messages.0.content.0.cache_control",
        "messages.0.content.1.cache_control",
        "cache_control",
    ]


def test_a_marker_on_text_that_is_not_sent_marks_the_block_before_it() -> None:
    body, losses = chat_to_claude({"messages": [user(text("Hi"), text(" ", cache_control=SHORT))]})
    assert body["messages"] == [{"role": "user", "content": [text("Hi", cache_control=SHORT)]}]
    assert losses == []


def test_openais_breakpoints_become_claudes_markers() -> None:
    call = call_for()
    points = [POINT, {**POINT, "ttl": "30m"}, {**POINT, "ttl": "12h"}]
    parts = [{"type": "input_text", "text": "a", "prompt_cache_breakpoint": point} for point in reversed(points)]
    hints = {"prompt_cache_key": "k", "prompt_cache_retention": "24h", "prompt_cache_options": {"ttl": "30m"}}
    body = {"model": "m", "input": [{"role": "user", "content": parts}], **hints}
    sent = anthropic_messages.render_request(call, responses.parse_request(body))
    assert [block["cache_control"] for block in sent["messages"][0]["content"]] == [LONG, SHORT, SHORT]
    assert not sent.keys() & hints.keys()
    assert set(call.losses) == hints.keys()


CLAUDES_BODY: dict[str, Any] = {
    "model": "m",
    "max_tokens": 9,
    "cache_control": SHORT,
    "system": [text("Rules", cache_control=LONG)],
    "tools": [{"name": "a", "input_schema": {"type": "object"}, "cache_control": LONG}],
    "messages": [
        user(text("Hi", cache_control=SHORT)),
        {"role": "assistant", "content": [text("Hm", cache_control=SHORT),
                                          {"type": "tool_use", "id": "t1", "name": "a", "input": {}}]},
        user({"type": "tool_result", "tool_use_id": "t1", "content": "blue", "cache_control": SHORT}),
    ],
}  # fmt: skip


UNSENT = {"messages.1.content.0.cache_control", "tools.0.cache_control", "cache_control"}
"""Markers without a breakpoint: of what the assistant said, of a tool, and of the request."""
ALL_MARKERS = UNSENT | {
    "system.0.cache_control",
    "messages.0.content.0.cache_control",
    "messages.2.content.0.cache_control",
}


def claude_to_chat(markers: CacheMarkers) -> tuple[dict[str, Any], set[str]]:
    call = call_for()
    body = openai_chat.render_request(call, anthropic_messages.parse_request(CLAUDES_BODY), cache_markers=markers)
    return body, set(call.losses)


def test_claudes_markers_become_openais_breakpoints() -> None:
    body, losses = claude_to_chat("breakpoints")
    assert losses == UNSENT
    assert [message["content"] for message in body["messages"]] == [
        [text("Rules", prompt_cache_breakpoint=POINT)],
        [text("Hi", prompt_cache_breakpoint=POINT)],
        [text("Hm")],
        [text("blue", prompt_cache_breakpoint=POINT)],
    ]
    assert "cache_control" not in str(body)


def test_claudes_markers_stay_what_they_are_for_an_upstream_that_serves_claude() -> None:
    body, losses = claude_to_chat("cache_control")
    assert losses == set()
    assert [message["content"] for message in body["messages"]] == [
        [text("Rules", cache_control=LONG)],
        [text("Hi", cache_control=SHORT)],
        [text("Hm", cache_control=SHORT)],
        [text("blue", cache_control=SHORT)],
    ]
    assert body["tools"][0]["cache_control"] == LONG
    assert body["cache_control"] == SHORT


def test_claudes_markers_are_reported_at_an_upstream_without_markers() -> None:
    body, losses = claude_to_chat("none")
    assert "cache" not in str(body)
    assert losses == ALL_MARKERS
    call = call_for()
    generate.render_request(call, anthropic_messages.parse_request(CLAUDES_BODY))
    assert set(call.losses) == ALL_MARKERS


def test_markers_become_breakpoints_of_responses() -> None:
    call = call_for()
    request = anthropic_messages.parse_request(CLAUDES_BODY)
    body = responses.render_request(call, request, cache_markers="breakpoints")
    marked = [
        {"type": "input_text", "text": words, "prompt_cache_breakpoint": POINT} for words in ("Rules", "Hi", "blue")
    ]
    assert [body["input"][0]["content"], body["input"][1]["content"]] == [marked[:1], marked[1:2]]
    assert body["input"][2]["content"] == "Hm"
    assert body["input"][4]["output"] == marked[2:]
    assert set(call.losses) == UNSENT
    chat = openai_chat.parse_request({"model": "m", "messages": [user("Hi", cache_control=LONG)]})
    body = responses.render_request(call, chat, cache_markers="breakpoints")
    assert body["input"][0]["content"] == marked[1:2]


def test_breakpoints_between_openais_formats_keep_their_lifetime() -> None:
    call = call_for()
    point = {**POINT, "ttl": "12h"}
    part = {"type": "input_text", "text": "a", "prompt_cache_breakpoint": point}
    request = responses.parse_request({"model": "m", "input": [{"role": "user", "content": [part]}]})
    body = openai_chat.render_request(call, request, cache_markers="breakpoints")
    assert body["messages"][0]["content"] == [text("a", prompt_cache_breakpoint=point)]
    assert call.losses == []
    assert openai_chat.render_request(call, request)["messages"][0]["content"] == [text("a")]
    assert call.losses == ["input.0.content.0.prompt_cache_breakpoint"]


# Markers that the gateway sets -------------------------------------------------------------------------------------------

CONVERSATION: dict[str, Any] = {
    "messages": [
        {"role": "system", "content": "Rules"},
        user("One"),
        {"role": "assistant", "content": "First"},
        user("Two"),
        {"role": "assistant", "content": "Second"},
        user(text("Three"), text("!")),
    ],
    "tools": [tool("a"), tool("b")],
}


def test_auto_marks_tools_system_and_the_last_two_user_turns() -> None:
    body, losses = chat_to_claude(CONVERSATION, auto_cache=True)
    assert ["cache_control" in each for each in body["tools"]] == [False, True]
    assert body["system"] == [text("Rules", cache_control=SHORT)]
    assert [turn["content"] for turn in body["messages"]] == [
        "One",
        "First",
        [text("Two", cache_control=SHORT)],
        "Second",
        [text("Three"), text("!", cache_control=SHORT)],
    ]
    assert losses == []


def test_the_next_request_of_a_conversation_marks_the_prefix_that_this_one_wrote() -> None:
    more = [{"role": "assistant", "content": "Third"}, user("Four")]
    body, _ = chat_to_claude({**CONVERSATION, "messages": [*CONVERSATION["messages"], *more]}, auto_cache=True)
    assert [number for number, turn in enumerate(body["messages"]) if "cache_control" in str(turn)] == [4, 6]


@pytest.mark.parametrize(
    "hints",
    [
        {"cache_control": SHORT},
        {"prompt_cache_options": {"mode": "explicit"}},
        {"messages": [{"role": "system", "content": "Rules", "cache_control": SHORT}, user("Hi")]},
    ],
)
def test_auto_adds_nothing_when_the_caller_decides(hints: dict[str, Any]) -> None:
    with_auto = chat_to_claude({**CONVERSATION, **hints}, auto_cache=True)
    assert with_auto == chat_to_claude({**CONVERSATION, **hints})


def test_auto_changes_no_request_in_claudes_own_format() -> None:
    request = anthropic_messages.parse_request({"model": "m", "max_tokens": 9, "messages": [user("Hi")]})
    body = anthropic_messages.render_request(call_for(), request, auto_cache=True)
    assert body["messages"] == [user("Hi")]


def test_a_marker_moves_with_a_system_message_that_becomes_a_user_turn() -> None:
    messages = [user("Hi"), {"role": "system", "content": "Now", "cache_control": SHORT}, user("Go")]
    call = call_for()
    request = openai_chat.parse_request({"model": "m", "max_tokens": 9, "messages": messages})
    (turn,) = anthropic_messages.render_request(call, request)["messages"]
    assert turn["content"][1] == text("<system>\nNow\n</system>", cache_control=SHORT)
    assert call.losses == ["messages.1.role"]


MARKERS = st.sampled_from(
    [{}, {}, {"cache_control": SHORT}, {"cache_control": LONG}, {"cache_control": {"ttl": "5m"} | SHORT}]
)
TEXTS = st.builds(lambda words, marker: text(words, **marker), st.sampled_from(["a", "b", " "]), MARKERS)


@st.composite
def marked_chats(draw: st.DrawFn) -> dict[str, Any]:
    """A chat with tools and tool calls, and markers wherever callers set them."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": draw(st.lists(TEXTS, min_size=1, max_size=3)), **draw(MARKERS)}
    ]
    for number in range(draw(st.integers(1, 4))):
        messages.append({"role": "user", "content": [text("Hi"), *draw(st.lists(TEXTS, max_size=2))], **draw(MARKERS)})
        call = {"id": f"c{number}", "type": "function", "function": {"name": "a", "arguments": "{}"}, **draw(MARKERS)}
        messages.append({"role": "assistant", "content": "So", "tool_calls": [call], **draw(MARKERS)})
        result = draw(st.one_of(st.just("blue"), st.lists(TEXTS, min_size=1, max_size=2)))
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": result, **draw(MARKERS)})
    return {"messages": messages, "tools": [tool(name, **draw(MARKERS)) for name in "ab"], **draw(MARKERS)}


@given(chat=marked_chats(), auto=st.booleans())
def test_every_body_keeps_the_vendors_rules(chat: dict[str, Any], auto: bool) -> None:
    body, losses = chat_to_claude(chat, auto_cache=auto)
    blocks = [block for turn in body["messages"] for block in turn["content"] if isinstance(block, dict)]
    system = body.get("system", [])
    holders = [*body["tools"], *(system if isinstance(system, list) else []), *blocks, body]
    markers = [holder["cache_control"] for holder in holders if "cache_control" in holder]
    assert len(markers) <= 4
    lifetimes = [marker.get("ttl", "5m") for marker in markers]
    assert lifetimes == sorted(lifetimes)  # "1h" before "5m"
    inside = [part for block in blocks for part in block.get("content") or () if isinstance(part, dict)]
    assert not any("cache_control" in part for part in inside)
    last = body["messages"][-1]["content"][-1]
    assert not ("cache_control" in body and isinstance(last, dict) and "cache_control" in last)
    assert all("cache_control" in name.split(".") for name in losses)
    if str(chat).count("cache_control"):
        assert markers or losses
