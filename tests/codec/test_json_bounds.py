"""The structure of a JSON text is measured exactly, in slices, before anything is parsed."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.variants import vary
from tornado_gate.codec import json_bounds
from tornado_gate.codec.json_body import (
    count_brackets,
    is_surely_below,
    load_and_measure_object,
    load_measured_object,
    load_object,
)
from tornado_gate.codec.json_bounds import CONTAINER_COST, NAME_COST, measure_json, measure_sparse_json
from tornado_gate.errors import RequestError, TooLarge

TEXT = st.text(alphabet=st.sampled_from('"\\{}[],: \u00e9😀aun/0') | st.characters(codec="utf-8"), max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=30,
)
OBJECTS = st.dictionaries(TEXT, JSON, max_size=6)
NO_LIMIT = 1 << 60


def count(value: Any) -> tuple[int, int]:
    """(names, cost) of a parsed value, by another way."""
    if not isinstance(value, dict | list):
        return 0, 0
    inside = [count(one) for one in (value.values() if isinstance(value, dict) else value)]
    names = len(value) if isinstance(value, dict) else 0
    cost = CONTAINER_COST + max(0, len(value) - 1) + NAME_COST * names
    return names + sum(one[0] for one in inside), cost + sum(one[1] for one in inside)


@pytest.mark.parametrize("slice_bytes", vary(7, 1, 2, 3, 1 << 16))
@given(value=OBJECTS, ascii_only=st.booleans(), indent=st.sampled_from([None, 1]))
@settings(max_examples=150)
def test_names_and_cost_are_exact_wherever_a_slice_ends(
    slice_bytes: int, value: dict[str, Any], ascii_only: bool, indent: int | None
) -> None:
    raw = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_bounds, "SLICE_BYTES", slice_bytes)
        measure = measure_json(raw, NO_LIMIT)
    assert (measure.names, measure.cost) == count(value)
    assert load_measured_object(raw, measure) == value == load_object(raw)


@pytest.mark.parametrize("batch", vary(2, 1, 5, 64))
@pytest.mark.parametrize("sparse_bytes", vary(20, 0))
@given(value=OBJECTS, ascii_only=st.booleans())
def test_a_search_from_quote_to_quote_counts_the_same(
    batch: int, sparse_bytes: int, value: dict[str, Any], ascii_only: bool
) -> None:
    raw = json.dumps(value, ensure_ascii=ascii_only).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_bounds, "BATCH_QUOTES", batch)
        patch.setattr(json_bounds, "SPARSE_BYTES", sparse_bytes)
        patch.setattr(json_bounds, "SLICE_BYTES", 30)
        measure = measure_json(raw, NO_LIMIT)
        sparse = measure_sparse_json(raw, NO_LIMIT)
    assert (measure.names, measure.cost) == count(value)
    assert sparse is None or sparse == measure


@pytest.mark.parametrize("backslashes", [1, 2, 63, 64, 65, 66, 127, 128, 200, 201])
def test_a_run_of_backslashes_of_any_length_is_read(backslashes: int) -> None:
    text = "\\" * (backslashes // 2) + '"' * (backslashes % 2)
    value = {"a": "x" * 70_000 + text, "b": ["{[,:", text]}
    raw = orjson.dumps(value)
    measure = measure_json(raw, NO_LIMIT)
    assert (measure.names, measure.cost) == count(value)


def test_a_text_of_long_strings_needs_no_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    long = {"messages": [{"role": "user", "content": 'He said: "yes"\n' + "x" * 100_000}] * 40}
    dense = {"messages": [{"role": "user", "content": "short"}] * 4000}
    assert measure_sparse_json(orjson.dumps(long), NO_LIMIT) == measure_json(orjson.dumps(long), NO_LIMIT)
    assert measure_sparse_json(orjson.dumps(dense), NO_LIMIT) is None
    with pytest.raises(TooLarge):
        measure_sparse_json(orjson.dumps(long), 100)


@given(value=OBJECTS, ascii_only=st.booleans(), indent=st.sampled_from([None, 1]))
def test_the_measure_of_a_parsed_value_is_that_of_its_text(
    value: dict[str, Any], ascii_only: bool, indent: int | None
) -> None:
    raw = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode()
    expected = measure_json(raw, NO_LIMIT)
    found, measure = load_and_measure_object(raw, NO_LIMIT)
    assert found == value
    assert (measure.names, measure.cost) == (expected.names, expected.cost)
    assert measure.parsed_bytes <= expected.parsed_bytes
    assert is_surely_below(raw, count_brackets(raw), len(raw) + CONTAINER_COST * len(raw))
    assert not is_surely_below(raw, count_brackets(raw), measure.cost - 1)


def test_what_the_text_has_too_many_of_is_refused_before_its_faults() -> None:
    raw = b'{"a":[' + b":" * 1000
    with pytest.raises(TooLarge):
        load_and_measure_object(raw, 1000)
    with pytest.raises(RequestError) as caught:
        load_and_measure_object(raw, 100_000)
    assert caught.value.code == "invalid_json"


def test_brackets_are_counted_in_strings_too() -> None:
    assert count_brackets(b'{"a":"[{]}","b":[[1],{}]}') == 6


@given(OBJECTS)
def test_the_limit_is_the_cost(value: dict[str, Any]) -> None:
    raw = orjson.dumps(value)
    cost = count(value)[1]
    assert measure_json(raw, cost).cost == cost
    with pytest.raises(TooLarge) as caught:
        measure_json(raw, cost - 1)
    assert caught.value.code == "too_many_values"
    assert f"{cost - 1} (limits.body_values)" in caught.value.message


@given(st.binary(max_size=200))
def test_no_bytes_crash_it(raw: bytes) -> None:
    measure = measure_json(raw, NO_LIMIT)
    try:
        load_measured_object(raw, measure)
    except RequestError as error:
        assert error.status == 400


@pytest.mark.parametrize(
    "raw",
    [
        b'{"model": "a", "model": "b"}',
        b'{"x": {"model": 1, "model": 2}}',
        b'{"\\u006dodel": "a", "model": "b"}',
        b'{"text": "\\":\\u003a", "model": 1, "model" : 2}',
    ],
)
def test_a_name_that_occurs_twice_is_refused(raw: bytes) -> None:
    with pytest.raises(RequestError) as caught:
        load_measured_object(raw, measure_json(raw, NO_LIMIT))
    assert caught.value.code == "duplicate_name"
    with pytest.raises(RequestError) as parsed:
        load_and_measure_object(raw, NO_LIMIT)
    assert (parsed.value.code, parsed.value.message) == (caught.value.code, caught.value.message)


@pytest.mark.parametrize(
    ("text", "width"),
    [("x", 1), ("\\n", 1), ("\u00e9", 2), ("中", 2), ("\\u4e2d", 2), ("😀", 4), ("\\ud83d\\ude00", 4)],
)
def test_the_estimate_covers_the_widest_character(text: str, width: int) -> None:
    raw = ('{"a":"' + "x" * 100_000 + text + '"}').encode()
    assert measure_json(raw, NO_LIMIT).parsed_bytes >= width * 100_000


LEGITIMATE: dict[str, Any] = {
    "a picture": {"messages": [{"role": "user", "content": [{"image_url": {"url": "A" * 1_000_000}}]}]},
    "many inputs": {"input": ["text"] * 2048},
    "tokens": {"input": [[12345] * 1000] * 300},
    "a long conversation": {
        "messages": [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "ok"}]},
        ]
        * 2500
    },
    "code": {"messages": [{"role": "user", "content": 'f({"a": [1, 2, 3], "b": {}}, [[]]);\n' * 50_000}]},
}


@pytest.mark.parametrize("body", LEGITIMATE.values(), ids=LEGITIMATE.keys())
def test_legitimate_bodies_are_far_below_the_default(body: dict[str, Any]) -> None:
    raw = orjson.dumps(body)
    assert load_measured_object(raw, measure_json(raw, 500_000)) == body
