"""What is patched changes; every other byte stays."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.codec.test_json_body import JSON
from tornado_gate.codec import json_edit
from tornado_gate.codec.json_edit import REMOVE, append_member, patch_json

OBJECTS = st.dictionaries(st.text(max_size=5), JSON, max_size=5)


@pytest.mark.parametrize(
    ("raw", "changes", "expected"),
    [
        (b'{"model": "a", "x":1.0}', {"model": "b"}, b'{"model": "b", "x":1.0}'),
        (b'{"x":1e5,"model":"a"}', {"model": "b", "stream": True}, b'{"x":1e5,"model":"b","stream":true}'),
        (b'{ "x" : {"model":"q\\"}"} , "model": "a"}', {"model": "b"}, b'{ "x" : {"model":"q\\"}"} , "model": "b"}'),
        (b'{"a":1,"b":[1,{"c":"]"}]}', {"a": REMOVE}, b'{"b":[1,{"c":"]"}]}'),
        (b'{"a":1,"b":2}', {"b": REMOVE}, b'{"a":1}'),
        (b'{"a":1}', {"a": REMOVE}, b"{}"),
        (b"{}", {"a": 1}, b'{"a":1}'),
        (b'{"a":1}', {"b": REMOVE}, b'{"a":1}'),
        (b'{"a":1}\n', {"a": 2}, b'{"a":2}\n'),
    ],
)
def test_only_what_is_named_changes(raw: bytes, changes: dict[str, object], expected: bytes) -> None:
    assert patch_json(raw, changes) == expected


@given(OBJECTS, st.text(max_size=5), JSON, st.sampled_from([None, 2]))
def test_the_patched_text_means_the_patched_object(
    value: dict[str, object], name: str, new: object, indent: int
) -> None:
    raw = json.dumps(value, indent=indent).encode()
    assert json.loads(patch_json(raw, {name: new})) == {**value, name: new}


@given(OBJECTS, st.text(max_size=5), st.sampled_from([None, 2]))
def test_a_removed_member_is_gone_and_nothing_else(value: dict[str, object], name: str, indent: int) -> None:
    raw = json.dumps(value, indent=indent).encode()
    patched = json.loads(patch_json(raw, {name: REMOVE}))
    assert patched == {key: inner for key, inner in value.items() if key != name}


@given(OBJECTS, st.sampled_from([None, 2]))
def test_a_patch_of_nothing_changes_no_byte(value: dict[str, object], indent: int) -> None:
    raw = json.dumps(value, indent=indent).encode()
    assert patch_json(raw, {}) == raw


@given(OBJECTS, st.sampled_from([None, 2]), st.sampled_from(["", " ", "\n"]))
def test_an_appended_member_stands_where_a_patch_adds_it(value: dict[str, object], indent: int, end: str) -> None:
    raw = (json.dumps(value, indent=indent) + end).encode()
    expected = patch_json(raw, {"stream_options": {"include_usage": True}})
    found = append_member(raw, b'"stream_options"', b'{"include_usage":true}')
    assert found == (expected if value else None)


@pytest.mark.parametrize("raw", [b"{}", b'{"a":{"x":1}}', b'{"a":"\\"x\\"","b":"x"}', b'{"x":1}', b'{"b":"x"}'])
def test_a_member_whose_name_may_be_there_is_not_appended(raw: bytes) -> None:
    assert append_member(raw, b'"x"', b"1") is None


NAMES = st.sampled_from(["model", "stream_options", "a", "mod", "x-y", "é", '"model"', "\\u0061"])
WORDS = NAMES | st.sampled_from(['say "model": "x"', '\\"model\\"', "model", '{"model":1}', "é\n\t\x01", "\\", ""])
TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-2, 2) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
CHANGES = st.dictionaries(NAMES, st.just(REMOVE) | TREES, max_size=3)


def spelled(value: object, indent: int | None, ascii_only: bool, letter: str) -> bytes:
    """`value` as JSON, with one letter written as its number wherever it stands."""
    separators = None if indent else (",", ":") if ascii_only else (" , ", "\t: ")
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only, separators=separators)
    escaped = re.sub(r"(?<![\\a-z0-9])" + letter, lambda match: f"\\u{ord(match[0]):04x}", text) if letter else text
    return escaped.encode()


@given(
    st.dictionaries(NAMES, TREES, max_size=5),
    CHANGES,
    st.sampled_from([None, 2]),
    st.booleans(),
    st.sampled_from(["", "", "m", "o", "a"]),
    st.sampled_from([2, 3, 7, json_edit.WINDOW_BYTES]),
    st.sampled_from([0, 12, 40, json_edit.EDGE_BYTES]),
)
def test_what_is_known_of_a_body_changes_no_byte_of_the_result(
    value: dict[str, object],
    changes: dict[str, object],
    indent: int | None,
    ascii_only: bool,
    letter: str,
    window: int,
    edge: int,
) -> None:
    raw = spelled(value, indent, ascii_only, letter)
    if json.loads(raw) != value:  # a letter that begins a word of JSON's own, or that follows a backslash
        raw = spelled(value, indent, ascii_only, "")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_edit, "WINDOW_BYTES", window)
        patch.setattr(json_edit, "EDGE_BYTES", edge)
        patched = patch_json(raw, changes, value)
        assert patched == patch_json(raw, changes)
    kept = {name: inner for name, inner in {**value, **changes}.items() if inner is not REMOVE}
    assert json.loads(patched) == kept


@pytest.mark.parametrize(
    "raw",
    [
        b'{"messages":[{"model":"deeper"}],"\\u006dodel":"old"}',
        b'{"messages":[{"content":"model"}],"model":"old"}',
        b'{"messages":[{"content":"my \\"model\\": \\"old\\""}],"model":"old"}',
        b'{"messages":[{"my \\"model":"x"}],"model":"old"}',
        b'{"model" :\n"old","model2":"model"}',
        b'{"other":"\\u00e9","model":"old"}',
        b'{"x\\"model":"x","model":"old","y\\"model":"y"}',
        b'{"x":{"model":"x"},"model":"old","y":{"model":"y"}}',
    ],
)
@pytest.mark.parametrize("edge", [10, 30, 1024])
def test_the_model_is_replaced_at_the_top_and_nowhere_else(
    raw: bytes, edge: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_edit, "EDGE_BYTES", edge)
    body = json.loads(raw)
    patched = patch_json(raw, {"model": "new"}, body)
    assert json.loads(patched) == {**body, "model": "new"}
    assert patched.count(b'"new"') == 1


def test_a_name_that_the_body_is_wrongly_said_to_lack_does_not_come_to_stand_twice() -> None:
    raw = b'{"model":"a","stream_options":{}}'
    assert patch_json(raw, {"stream_options": None}, {"model": "a"}) == b'{"model":"a","stream_options":null}'
    assert patch_json(raw, {"stream_options": REMOVE}, {"model": "a"}) == b'{"model":"a"}'


def test_a_long_body_is_not_walked_for_its_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def walked(raw: bytes) -> None:
        raise AssertionError("the text was walked")

    monkeypatch.setattr(json_edit, "_iterate_members", walked)
    body = {"messages": [{"role": "user", "content": 'a \\ "quoted" {text}\n'}] * 100, "model": "a", "stream": True}
    changes = {"model": "b", "stream_options": {"include_usage": True}}
    assert json.loads(patch_json(json.dumps(body).encode(), changes, body)) == {**body, **changes}


@pytest.mark.parametrize("first", [True, False])
def test_a_model_near_an_end_of_a_long_body_is_found_without_a_search(
    first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_edit, "find_in_slices", None)
    messages = [{"role": "user", "content": 'of a "model": "x"', "model": "inner"}] * 100
    body = {"model": "a", "messages": messages} if first else {"messages": messages, "model": "a", "stream": True}
    raw = json.dumps(body, indent=1).encode()
    assert json.loads(patch_json(raw, {"model": "b"}, body)) == {**body, "model": "b"}
