"""The JSON in a text of a model without JSON mode, for any cut of the text into pieces."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornado_gate_anthropic.wire.json_mode import JsonReader

words = st.text(max_size=6) | st.sampled_from(['"', "\\", "}", "]", "{", '\\"', "```"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
containers = st.dictionaries(words, values, max_size=3) | st.lists(values, max_size=3)


def read(text: str, size: int) -> str:
    reader = JsonReader()
    pieces = [reader.feed(text[start : start + size]) for start in range(0, len(text), size)]
    return "".join(pieces) + reader.finish()


@given(
    containers,
    st.sampled_from(["", "```json\n", "```\n", " \n"]),
    st.sampled_from(["", "\n```", " Done {}."]),
    st.integers(1, 9),
)
def test_the_value_remains_of_what_is_around_it(value: Any, before: str, after: str, size: int) -> None:
    assert json.loads(read(before + json.dumps(value) + after, size)) == value


@pytest.mark.parametrize("size", [1, 3, 99])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('As asked [in JSON]: {"a": 1}', '{"a": 1}'),
        ('{"a": "}\\"{"} and {"b": 2}', '{"a": "}\\"{"}'),
        ("No JSON here.", "No JSON here."),
        ("", ""),
        ('{"cut": [1, ', '{"cut": [1, '),
        ("x" * 5000 + '{"a": 1}', "x" * 5000 + '{"a": 1}'),
    ],
)
def test_the_first_value_counts(text: str, expected: str, size: int) -> None:
    assert read(text, size) == expected
