"""A large JSON text is parsed in pieces: the value is the parser's own, also at every place where a text is divided."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tornado_gate.codec import large_json
from tornado_gate.codec.large_json import dump_json, load_json, load_text

TEXTS = st.text(alphabet=st.sampled_from('a"\\/é€😀\n\t\x1f u0dD8'), max_size=40)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(TEXTS, inner, max_size=6),
    max_leaves=20,
)


@pytest.fixture(scope="module", autouse=True)
def short_pieces() -> Any:
    """Texts of a few bytes are divided."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large_json, "WHOLE_BYTES", 3)
        patch.setattr(large_json, "SLICE_BYTES", 13)
        patch.setattr(large_json, "BATCH_ITEMS", 3)
        yield


@given(value=VALUES, escaped=st.booleans(), spaced=st.booleans())
@settings(max_examples=300, deadline=None)
def test_the_value_is_that_of_the_parser(value: Any, escaped: bool, spaced: bool) -> None:
    raw = json.dumps(value, ensure_ascii=escaped, indent=1 if spaced else None).encode()
    assert load_json(raw) == orjson.loads(raw)
    assert load_json(b" \n" * 40 + raw + b"\n") == orjson.loads(raw)


@pytest.mark.parametrize(
    "unit", ["\\\\", "\\u00e4", "\\ud83d\\ude00", "é", "😀", '\\"', "x", "\\\\u0041", "\\ud83d\\ude00x"]
)
def test_no_slice_divides_a_character_or_an_escape(unit: str) -> None:
    for before in range(30):
        raw = ('"' + "a" * before + unit * 30 + '"').encode()
        assert load_json(raw) == orjson.loads(raw)


LONG_TEXTS = TEXTS | st.text(alphabet=st.sampled_from('a"\\\\é😀'), min_size=10, max_size=200)
"""Strings above and below the length from which they are parsed apart."""


@given(
    value=st.recursive(
        st.none() | st.integers(-9, 9) | LONG_TEXTS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(LONG_TEXTS, inner, max_size=3),
        max_leaves=8,
    ),
    escaped=st.booleans(),
    fault=st.none() | st.integers(0, 600),
)
@settings(max_examples=300, deadline=None)
def test_long_strings_are_parsed_apart_and_return_to_their_places(value: Any, escaped: bool, fault: int | None) -> None:
    raw = json.dumps(value, ensure_ascii=escaped).encode()
    if fault is not None:
        raw = raw[:fault] + raw[fault + 1 :]
    try:
        expected: Any = orjson.loads(raw)
    except orjson.JSONDecodeError:
        expected = orjson.JSONDecodeError
    for whole in (20, 400):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(large_json, "WHOLE_BYTES", whole)
            try:
                found: Any = load_json(raw)
            except orjson.JSONDecodeError:
                found = orjson.JSONDecodeError
        assert found == expected


def test_a_text_of_one_long_string_is_not_divided_by_msgspec(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search for its quotes takes a tenth of the time."""
    monkeypatch.setattr(large_json, "_load", None)
    value = {"messages": [{"role": "user", "content": "x" * 100 + '"' + "\\" * 9 + "x" * 100}], "n": 1}
    monkeypatch.setattr(large_json, "WHOLE_BYTES", 200)
    assert load_json(orjson.dumps(value)) == value


@given(raw=st.binary(max_size=60) | st.text(alphabet='{}[]",:\\u0dtrue1 ', max_size=60).map(str.encode))
@settings(max_examples=500, deadline=None)
def test_what_the_parser_refuses_is_refused(raw: bytes) -> None:
    try:
        expected: Any = orjson.loads(raw)
    except orjson.JSONDecodeError:
        expected = orjson.JSONDecodeError
    try:
        found: Any = load_json(raw)
    except orjson.JSONDecodeError:
        found = orjson.JSONDecodeError
    assert found == expected


@pytest.mark.parametrize(
    "raw",
    [
        *(
            b'"aaaaaaaaaaaaaaaaaa\\ud800"',
            b'"aaaaaaaaaaaaaaaaaa\x01"',
            b'"aaaaaaaaaaaaaaaaaaaaa\xff"',
            b'"aaaaaaaaaaaaaaaaaa',
        ),
        *(
            b'{"a": [1, 2, 3, 4, 5,]}',
            b'{"aaaaaaaaaaaaaa": 1',
            b'{"aaaaaaaaaaaaaaa\xff": 1}',
            b"[1 2 3 4 5 6 7 8]",
            b'{"a": nan, "b": 2}',
            b"x" * 60,
            b"",
        ),
        *(b"[" * 100_000 + b"]" * 100_000, b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
    ],
)
def test_an_invalid_text_is_refused_wherever_the_fault_is(raw: bytes) -> None:
    with pytest.raises(orjson.JSONDecodeError):
        load_json(raw)


def test_no_call_of_the_parser_gets_a_long_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the lengths of real use. A call keeps all other threads waiting."""
    monkeypatch.setattr(large_json, "WHOLE_BYTES", 2 * 1024 * 1024)
    monkeypatch.setattr(large_json, "SLICE_BYTES", 1024 * 1024)
    lengths: list[int] = []

    def loads(text: bytes | memoryview) -> Any:
        lengths.append(len(text))
        return orjson.loads(text)

    raw = orjson.dumps({"long": "x" * 20_000_000, "many": ["y" * 1000] * 10_000, "nested": {"long": ["z" * 5_000_000]}})
    monkeypatch.setattr(large_json, "orjson", SimpleNamespace(loads=loads, JSONDecodeError=orjson.JSONDecodeError))
    value = load_json(raw)
    assert (len(value["long"]), len(value["many"]), len(value["nested"]["long"][0])) == (20_000_000, 10_000, 5_000_000)
    assert max(lengths) <= 2 * 1024 * 1024


@given(value=VALUES, escaped=st.booleans())
@settings(max_examples=100, deadline=None)
def test_a_text_and_a_value_go_both_ways(value: Any, escaped: bool) -> None:
    text = json.dumps(value, ensure_ascii=escaped)
    assert load_text(text) == orjson.loads(text)
    assert dump_json(value) == orjson.dumps(value)


def test_half_a_character_is_no_json_of_any_length() -> None:
    for text in ('"\ud800"', '{"a": "' + "x" * 50 + '\ud800"}'):
        with pytest.raises(orjson.JSONDecodeError):
            load_text(text)
