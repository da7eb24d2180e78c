"""Bodies that are no JSON object, or one that two parsers would read differently, are a clear 400."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornado_gate.errors import GateError, RequestError
from tornado_gate.jsonbody import MAX_DEPTH, load_object

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "empty"),
        (b"  \n", "empty"),
        (b"[1]", "must be a JSON object"),
        (b'"text"', "must be a JSON object"),
        (b"{", "not valid JSON"),
        (b'{"a": NaN}', "not valid JSON"),
        (b'{"a": Infinity}', "not valid JSON"),
        (b'{"a": 1e999}', "not valid JSON"),
        (b'{"a": 1} x', "not valid JSON"),
        (b'{"a": "\xff"}', "byte 7 is not UTF-8"),
        (b'{"a": "\\ud800"}', "not valid JSON"),
        (b"{'a': 1}", "not valid JSON"),
        (b'{"a": ' + b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1) + b"}", "levels deep"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "not valid JSON"),
    ],
)
def test_a_body_that_is_no_json_object_is_refused(raw: bytes, words: str) -> None:
    with pytest.raises(RequestError) as caught:
        load_object(raw)
    assert words in caught.value.message
    assert caught.value.status == 400
    assert caught.value.code == "invalid_json"


@pytest.mark.parametrize(
    "raw",
    [
        b'{"model": "a", "model": "b"}',
        b'{"x": {"model": 1, "model": 2}}',
        b'{"model" : "a", "model": "b"}',
        b'{"\\u006dodel": "a", "model": "b"}',
        b'{"text": "\\":", "model": 1, "model" : 2}',
    ],
)
def test_a_name_that_stands_twice_is_refused_by_name(raw: bytes) -> None:
    with pytest.raises(RequestError) as caught:
        load_object(raw)
    assert caught.value.param == "model"
    assert caught.value.code == "duplicate_name"


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=5), st.sampled_from([None, 1]), st.booleans())
def test_every_object_is_read_as_it_was_written(value: dict[str, object], indent: int | None, ascii_only: bool) -> None:
    raw = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    assert load_object(raw) == value


@given(st.binary(max_size=60))
def test_no_bytes_crash_it(raw: bytes) -> None:
    try:
        assert isinstance(load_object(raw), dict)
    except GateError as error:
        assert error.status == 400
