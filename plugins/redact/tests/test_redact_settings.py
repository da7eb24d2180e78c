"""The settings of the guard, its lookahead, and the marks that it makes."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tornado_gate import PluginEntry
from tornado_gate.errors import ConfigError
from tornado_gate.testing import call_to
from tornado_gate.types import GuardedText, Replace
from tornado_gate_redact import Redact
from tornado_gate_redact.marks import Marks, make_pattern


def configure(**given: Any) -> Redact:
    return Redact().configure_plugin(PluginEntry(name="redact", settings=given))


@pytest.mark.parametrize(
    ("given", "place", "fault"),
    [
        ({"kinds": ["mail"]}, "kinds.0", "email"),
        ({"kinds": []}, "kinds", "patterns"),
        ({"sides": []}, "sides", "1"),
        ({"mark": "{name}"}, "mark", "{kind} and {number}"),
        ({"mark": '"'}, "mark", "JSON"),
        ({"mark": "***", "restore": True}, "mark", "{number}"),
        ({"restore": True, "sides": ["response"]}, "restore", "request"),
        ({"patterns": {"email": "x"}}, "patterns.email", "detector"),
        ({"patterns": {"Badge": "x"}}, "patterns.Badge", "lower-case"),
        ({"patterns": {"badge": "("}}, "patterns.badge", "RE2"),
        ({"patterns": {"badge": "(?<=a)b"}}, "patterns.badge", "look-around"),
        ({"patterns": {"badge": "B[0-9]+"}}, "patterns.badge", "limit what repeats"),
        ({"marks": "x"}, "marks", "mark"),
    ],
)
def test_faults_say_where_they_are_and_what_is_allowed(given: dict[str, Any], place: str, fault: str) -> None:
    with pytest.raises(ConfigError) as raised:
        configure(**given)
    faults = {".".join(map(str, path)): message for path, message in raised.value.faults}
    assert any(name.startswith(place) and fault in message for name, message in faults.items()), faults


def test_a_stream_holds_back_the_longest_value_of_the_answers() -> None:
    assert configure().guard_options().lookahead == 254
    assert configure(kinds=["card"]).guard_options().lookahead == 38
    assert configure(kinds=["card"], patterns={"badge": "B[0-9]{3,90}"}).guard_options().lookahead == 91
    request_only = configure(sides=["request"]).guard_options()
    assert (request_only.lookahead, request_only.reads) == (0, frozenset({"request"}))
    restoring = configure(sides=["request"], restore=True).guard_options()
    assert restoring.reads == {"request", "response"}
    assert 40 < restoring.lookahead < 100


def text_of(text: str, **rest: Any) -> GuardedText:
    return GuardedText(kind="user", path="p", text=text, **rest)


def replace(text: str, decision: Any) -> str:
    for span in sorted(
        decision.spans if isinstance(decision, Replace) else (), reverse=True, key=lambda span: span.start
    ):
        text = text[: span.start] + span.replacement + text[span.end :]
    return text


def test_equal_values_have_equal_marks_and_marks_of_the_caller_are_not_used() -> None:
    guard, call = configure(restore=True), call_to()
    text = "[EMAIL_1]: ann@example.com, ben@example.com, ann@example.com"
    sent = replace(text, guard.review_request(call, [text_of(text)]))
    assert sent == "[EMAIL_1]: [EMAIL_2], [EMAIL_3], [EMAIL_2]"
    assert replace(sent, guard.review_response(call, [text_of(sent)])) == text
    other = call_to()
    assert guard.review_response(other, [text_of(sent)]) is None


def test_a_value_that_would_break_the_arguments_of_a_tool_is_not_restored_there() -> None:
    guard, call = configure(patterns={"quoted": '"a[a-z]{2}"'}, restore=True), call_to()
    text = 'say "abc" and ann@example.com'
    sent = replace(text, guard.review_request(call, [text_of(text)]))
    assert sent == "say [QUOTED_1] and [EMAIL_1]"
    arguments = GuardedText(kind="tool_call", path="p", text='{"say": "[QUOTED_1] [EMAIL_1]"}')
    assert replace(arguments.text, guard.review_response(call, [arguments])) == '{"say": "[QUOTED_1] ann@example.com"}'


def test_what_was_sent_is_left_alone() -> None:
    text = text_of("ann@example.com and ben@example.com", sent=15, is_complete=False)
    (span,) = configure().review_response(call_to(), [text]).spans  # type: ignore[union-attr]
    assert span.start == 20


VALUES = st.lists(st.from_regex(r"[a-z]{1,6}@[a-z]{1,6}\.example", fullmatch=True), max_size=6)


@settings(max_examples=60)
@given(VALUES, st.lists(st.integers(1, 8), max_size=3))
def test_what_is_replaced_comes_back(values: list[str], used: list[int]) -> None:
    guard, call = configure(restore=True), call_to()
    text = " , ".join([*values, *(f"[EMAIL_{number}]" for number in used)])
    sent = replace(text, guard.review_request(call, [text_of(text)]))
    assert not any(value in sent for value in values)
    assert replace(sent, guard.review_response(call, [text_of(sent)])) == text


def test_a_pattern_of_marks_finds_marks_only() -> None:
    marks = Marks("[{kind}_{number}]")
    pattern = make_pattern("[{kind}_{number}]")
    assert pattern.fullmatch(marks.find("own_kind", "x"))
    assert pattern.search("[EMAIL_] [email_1] EMAIL_1") is None
    assert re.fullmatch(make_pattern("***"), "***")
