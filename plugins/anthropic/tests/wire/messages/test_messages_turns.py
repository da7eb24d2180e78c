"""Conversations of other formats, as turns that this format's vendor takes. Every trap has its test."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.anthropic.tests.wire.messages.foreign_requests import NEW, answer, calls, rendered, result, turns, use
from plugins.anthropic.tests.wire.messages.support import call_for, foreign, message
from tornado_gate.types import (
    Message,
    Text,
    ToolCall,
    VendorPart,
)
from tornado_gate_anthropic.wire.messages import ModelFeatures, render_request

# system


def test_system_messages_at_the_beginning_are_merged() -> None:
    body, losses = rendered(message("system", "A"), message("developer", "B"), message("user", "Hi"))
    assert body["system"] == [{"type": "text", "text": "A"}, {"type": "text", "text": "B"}]
    assert body["messages"] == [{"role": "user", "content": "Hi"}]
    assert losses == []


def test_one_system_message_is_a_string() -> None:
    assert rendered(message("system", "A"), message("user", "Hi"))[0]["system"] == "A"


LATE = (message("user", "Hi"), message("system", "Be brief."), message("assistant", "Yes."), message("user", "Go on."))


def test_a_later_system_message_keeps_its_place_where_the_model_takes_it() -> None:
    assert turns(*LATE, abilities=NEW) == [
        {"role": "user", "content": "Hi"},
        {"role": "system", "content": "Be brief."},
        {"role": "assistant", "content": "Yes."},
        {"role": "user", "content": "Go on."},
    ]


def test_a_later_system_message_is_a_users_words_elsewhere_and_its_role_is_lost() -> None:
    body, losses = rendered(*LATE)
    assert body["messages"][0] == {
        "role": "user",
        "content": [{"type": "text", "text": "Hi"}, {"type": "text", "text": "<system>\nBe brief.\n</system>"}],
    }
    assert [turn["role"] for turn in body["messages"]] == ["user", "assistant", "user"]
    assert losses == ["messages.1.role"]


def test_a_system_message_after_an_assistants_is_a_users_words_for_every_model() -> None:
    said = (message("user", "Hi"), message("assistant", "Yes."), message("system", "S"), message("user", "Go on."))
    body, losses = rendered(*said, abilities=NEW)
    assert [turn["role"] for turn in body["messages"]] == ["user", "assistant", "user"]
    assert losses == ["messages.2.role"]


# turns


def test_neighbours_of_one_role_are_one_turn() -> None:
    said = (message("user", "A"), message("user", "B"), message("assistant", "C"), message("assistant", "D"))
    assert turns(*said, message("user", "E")) == [
        {"role": "user", "content": [{"type": "text", "text": "A"}, {"type": "text", "text": "B"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "C"}, {"type": "text", "text": "D"}]},
        {"role": "user", "content": "E"},
    ]


def test_results_of_one_turn_stand_together_right_after_it_and_before_anything_else() -> None:
    said = (
        message("user", "Go"),
        calls("a", "b"),
        result("a", "1"),
        message("user", "Hurry."),
        result("b", "2"),
    )
    assert turns(*said)[1:] == [
        {"role": "assistant", "content": [use("a"), use("b")]},
        {"role": "user", "content": [answer("a", "1"), answer("b", "2"), {"type": "text", "text": "Hurry."}]},
    ]


def test_a_result_that_comes_late_goes_to_the_turn_that_called() -> None:
    said = (
        message("user", "Go"),
        calls("a", "b"),
        result("a", "1"),
        message("assistant", "One moment."),
        result("b", "2"),
        message("user", "Well?"),
    )
    assert turns(*said)[1:] == [
        {"role": "assistant", "content": [use("a"), use("b")]},
        {"role": "user", "content": [answer("a", "1"), answer("b", "2")]},
        {"role": "assistant", "content": "One moment."},
        {"role": "user", "content": "Well?"},
    ]


def test_a_result_before_which_a_system_message_stands_comes_right_after_its_call() -> None:
    said = (message("user", "Go"), calls("a"), message("system", "S"), result("a", "1"))
    body, _ = rendered(*said)
    assert body["messages"][2]["content"] == [
        answer("a", "1"),
        {"type": "text", "text": "<system>\nS\n</system>"},
    ]


def test_a_result_that_nobody_called_for_still_goes_up() -> None:
    said = (message("user", "Go"), result("x", "1"), message("assistant", "Ok"), result("y", "2"))
    assert [turn["role"] for turn in turns(*said)] == ["user", "assistant", "user"]


@given(
    st.lists(
        st.one_of(
            st.sampled_from(["user", "assistant", "system"]).map(lambda role: message(role, "x")),
            st.lists(st.sampled_from("abcd"), min_size=1, max_size=3, unique=True).map(lambda ids: calls(*ids)),
            st.sampled_from("abcd").map(lambda call_id: result(call_id, "1")),
        ),
        min_size=1,
        max_size=12,
    ),
    st.sampled_from([ModelFeatures(), NEW]),
)
def test_whatever_the_conversation_its_turns_are_well_formed(said: list[Message], abilities: ModelFeatures) -> None:
    turns = render_request(call_for(), foreign(*said), abilities=abilities)["messages"]
    roles = [turn["role"] for turn in turns]
    assert all(first != second for first, second in itertools.pairwise(roles))
    for place, turn in enumerate(turns):
        assert turn["content"]
        if turn["role"] == "system":
            assert place > 0
            assert roles[place - 1] == "user"
            assert roles[place + 1 :][:1] in ([], ["assistant"])
        kinds = [block["type"] for block in turn["content"]] if isinstance(turn["content"], list) else []
        results = kinds.count("tool_result")
        assert kinds[:results] == ["tool_result"] * results


@pytest.mark.parametrize("text", ["", " ", "\n\t"])
def test_no_text_block_is_empty(text: str) -> None:
    said = (message("user", "Hi", Text(text=text)), message("assistant", text), message("user", "Go on."))
    assert turns(*said) == [
        {"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "text", "text": "Go on."}]}
    ]


def test_an_assistant_that_only_calls_has_no_text_block() -> None:
    said = message("assistant", "", ToolCall(id="a", name="f", arguments=""))
    assert turns(message("user", "Hi"), said, result("a", "")) == [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [use("a")]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]},
    ]


def test_an_assistants_turn_that_is_to_be_continued_does_not_end_in_white_space() -> None:
    assert turns(message("user", "Hi"), message("assistant", "The answer is \n"))[1]["content"] == "The answer is"


def test_a_search_without_its_result_is_not_sent_back() -> None:
    """A paused turn leaves one; the vendor rejects it."""
    call = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
    result = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    for restored in ((call,), (call, result)):
        part = VendorPart(wire_format="openai-responses", value={"type": "web_search_call"}, restored=restored)
        said = Message(role="assistant", parts=(part, Text(text="So far")), plain=False)
        body, losses = rendered(message("user", "Hi"), said, message("user", "Go on."))
        assert (len(body["messages"][1]["content"]), losses) == (
            (3, []) if len(restored) == 2 else (1, ["messages.1.content.0"])
        ), body
