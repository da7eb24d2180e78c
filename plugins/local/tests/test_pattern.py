"""The regular expressions of schemas, against Python's own."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tornado_gate_local import pattern as engine
from tornado_gate_local.pattern import Unsupported, examples


def matches(pattern: str, text: str) -> bool:
    return engine.matches(pattern, text, lambda steps: None)


PATTERNS = [
    "abc",
    "^abc$",
    "a|b|cd",
    "^(a|bc)*$",
    "^[a-c]+x?$",
    "^[^a-c]{2,3}$",
    "\\d{2}",
    "^\\w+\\s\\W$",
    "^(?:a|(b))c{0,2}$",
    "^(?P<year>\\d+)-b*?$",
    "\\ba",
    "^\\x61\\u0062$",
    "^[\\d\\-a]$",
    "^[]a]+$",
    "",
]


@pytest.mark.parametrize("pattern", PATTERNS)
@settings(max_examples=60, deadline=None)
@given(text=st.text("abcdx12- ]!", max_size=8))
def test_it_matches_what_pythons_engine_matches(pattern, text):
    assert matches(pattern, text) == bool(re.search(pattern.replace("$", "\\Z"), text))


@pytest.mark.parametrize(
    "pattern",
    [
        "^[A-Z]{3}-\\d{4}$",
        "^(foo|ba[rz])+\\.x?$",
        "^#?[0-9a-fA-F]{6}$",
        "^[^\\d]+$",
        "^\\S+@\\S+\\.\\S+$",
        "^[\\u4e00-\\u9fff]+$",
    ],
)
@pytest.mark.parametrize("variant", [0, 1, 7])
def test_examples_match_their_pattern(pattern, variant):
    for example in examples(pattern, variant):
        assert re.search(pattern, example)


@pytest.mark.parametrize(
    "pattern", ["(?=a)", "(?<!a)b", "\\1", "\\pL", "(", "a)", "[a", "*a", "a{2000}", "a" * 501, "(" * 40, "\\", "\\u12"]
)
def test_what_it_does_not_know_is_unsupported(pattern):
    with pytest.raises(Unsupported):
        matches(pattern, "a")


def test_a_pattern_that_would_keep_a_backtracking_engine_busy_is_quick():
    assert not matches("^(a+)+$", "a" * 1_000 + "!")


def test_too_much_work_is_unsupported():
    with pytest.raises(Unsupported):
        matches("((((a?){100}){100}){100}){100}b", "a" * 1_000)


def test_an_example_that_gets_too_long_is_unsupported():
    with pytest.raises(Unsupported):
        list(examples("((a{100}){100}){100}", 0))


def test_a_search_tells_what_it_cost():
    spent: list[int] = []
    engine.matches("(a|b)*c", "ab" * 100, spent.append)
    with pytest.raises(Unsupported):
        engine.matches("((a?){1000}){1000}b", "a" * 1_000, spent.append)
    assert 0 < spent[0] < spent[1]
