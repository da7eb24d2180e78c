"""What is patched changes; every other byte stays."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.test_jsonbody import JSON
from tornado_gate.patch import REMOVE, patch_json

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
