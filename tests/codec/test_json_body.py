"""Bodies that are no JSON object, or one that two parsers would read differently, are a clear 400."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornado_gate.codec import json_body
from tornado_gate.codec.json_body import MAX_DEPTH, load_object
from tornado_gate.errors import GateError, RequestError

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
        (b"[1]", "is valid JSON but not an object"),
        (b'"text"', "is valid JSON but not an object"),
        (b"{", "not valid JSON"),
        (b'{"a": NaN}', "not valid JSON"),
        (b'{"a": Infinity}', "not valid JSON"),
        (b'{"a": 1e999}', "not valid JSON"),
        (b'{"a": 1} x', "not valid JSON"),
        (b'{"a": "\xff"}', "byte 7 is not UTF-8"),
        (b'{"a": "\\ud800"}', "not valid JSON"),
        (b"{'a': 1}", "not valid JSON"),
        (b'{"a": ' + b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1) + b"}", "maximum JSON nesting"),
        (b'{"a": ' + b"[" * 20_000 + b"]" * 20_000 + b"}", "not valid JSON"),
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


@pytest.mark.parametrize("padding", [b"", b"x" * 10_000])
@pytest.mark.parametrize(("brackets", "inner"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_depth_counts_and_breadth_does_not(brackets: bytes, inner: bytes, padding: bytes) -> None:
    def nested(depth: int) -> bytes:
        wide = b",".join([b"[{}]"] * MAX_DEPTH)
        deep = brackets * depth + (b"1" if brackets != b"[" else b"") + inner * depth
        return b'{"p":"%b","w":[%b],"d":%b}' % (padding, wide, deep)

    assert load_object(nested(MAX_DEPTH - 1))
    with pytest.raises(RequestError, match="maximum JSON nesting"):
        load_object(nested(MAX_DEPTH))


@pytest.mark.parametrize(("brackets", "inner"), [(b"[", b"]"), (b'{"":', b"}")])
def test_depth_counts_in_the_shortest_of_bodies_too(brackets: bytes, inner: bytes) -> None:
    def nested(depth: int) -> bytes:
        return b'{"":%b%b%b}' % (brackets * depth, b"" if brackets == b"[" else b"1", inner * depth)

    assert load_object(nested(MAX_DEPTH - 1))
    with pytest.raises(RequestError, match="maximum JSON nesting"):
        load_object(nested(MAX_DEPTH))


class Pairs(list[tuple[str, Any]]):
    """An object as it is written: names may stand twice."""


NAMES = st.sampled_from(["a", "b", ":", '":', "é"])
WRITTEN = st.recursive(
    st.none() | st.integers(0, 9) | st.sampled_from(["", ":", '":', '" :', "a:b", "\\u003a", "<"]),
    lambda inner: st.lists(inner, max_size=3) | st.lists(st.tuples(NAMES, inner), max_size=3).map(Pairs),
    max_leaves=10,
)


def text_of(value: Any, space: str, escapes: bool) -> str:
    if isinstance(value, Pairs):
        members = (
            f"{text_of(name, '', escapes)}{space}:{space}{text_of(item, space, escapes)}" for name, item in value
        )
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(text_of(item, space, escapes) for item in value) + "]"
    text = json.dumps(value)
    return text.replace(":", "\\u003A") if escapes else text


def has_twice(value: Any) -> bool:
    inner = [item for _, item in value] if isinstance(value, Pairs) else value if isinstance(value, list) else []
    twice = isinstance(value, Pairs) and len(dict(value)) != len(value)
    return twice or any(map(has_twice, inner))


@given(st.lists(st.tuples(NAMES, WRITTEN), max_size=4).map(Pairs), st.sampled_from(["", " ", "\n\t"]), st.booleans())
def test_whatever_stands_twice_is_found_and_nothing_else(value: Pairs, space: str, escapes: bool) -> None:
    raw = text_of(value, space, escapes).encode()
    try:
        load_object(raw)
    except RequestError as error:
        assert error.code == "duplicate_name"
        assert has_twice(value)
    else:
        assert not has_twice(value)


def test_an_escaped_colon_hides_no_duplicate() -> None:
    with pytest.raises(RequestError) as caught:
        load_object(b'{"model": "\\u003a", "model": "b", "x": "\\u003A"}')
    assert caught.value.param == "model"


@pytest.mark.parametrize("unit", [b"[]", b'{"":0}', b'{"a":0,"a":1}'])
def test_a_longer_text_is_measured_before_it_is_parsed(unit: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Form fields and messages may have a megabyte: 300,000 objects."""

    def parsed(_raw: bytes) -> None:
        raise AssertionError("the text was parsed")

    monkeypatch.setattr(json_body, "_parse_object", parsed)
    with pytest.raises(RequestError) as caught:
        load_object(b'{"x":[' + b",".join([unit] * 50_000) + b"]}")
    assert caught.value.code == "too_many_values"
