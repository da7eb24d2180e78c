"""The regular expressions of schemas, against Python's own."""

from __future__ import annotations

import re
import time
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tornado_gate_local import pattern as engine
from tornado_gate_local.json_schema import StepBudget
from tornado_gate_local.pattern import MAX_TEXT_LENGTH, SpendSteps, UnsupportedPattern, iterate_examples


def free(steps: int) -> bool:
    return True


def matches(pattern: str, text: str, spend: SpendSteps = free) -> bool:
    return engine.matches(pattern, text, spend)


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
    "^(?:x*y?)*-$",
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
        "^[^a-z-]{200}$",
        "^(?P<year>\\d{4})(-|/)?$",
    ],
)
@pytest.mark.parametrize("variant", [0, 1, 7])
def test_examples_match_their_pattern(pattern, variant):
    for example in iterate_examples(pattern, variant, free):
        assert re.search(pattern, example)


@pytest.mark.parametrize(
    "pattern",
    ["(?=a)", "(?<!a)b", "\\1", "(", "a)", "[a", "*a", "a{2000}", "(a+)+{1000}", "a" * 501, "(" * 40, "\\", "\\u12"],
)
def test_what_it_does_not_know_is_unsupported(pattern):
    with pytest.raises(UnsupportedPattern):
        matches(pattern, "a")
    with pytest.raises(UnsupportedPattern):
        list(iterate_examples(pattern, 0, free))


def test_a_pattern_that_would_keep_a_backtracking_engine_busy_is_quick():
    assert not matches("^(a+)+$", "a" * 1_000 + "!")


@pytest.mark.parametrize(
    "pattern",
    [
        "((((a?){100}){100}){100}){100}b",
        "((a{100}){100}){100}",
        "((((([a-z]*)*)*)*)*)*",
        "\\pL{1000}",
        "[\u0001-\uffff]" * 90,
        "[\\u0001-\\uffff]{900}",
        f"({'abc' * 150}){{900}}",
        "(" * 240 + "a*" + ")*" * 240,
    ],
)
def test_a_hostile_pattern_costs_bounded_time_and_memory(pattern):
    budget = StepBudget()
    started = time.thread_time()
    with suppress(UnsupportedPattern):
        matches(pattern, "a" * 1_000, budget.spend)
    with suppress(UnsupportedPattern):
        assert all(len(example) <= MAX_TEXT_LENGTH for example in iterate_examples(pattern, 0, budget.spend))
    assert time.thread_time() - started < 1  # at most about 0.05 on an idle machine


def test_an_example_that_gets_too_long_is_unsupported():
    with pytest.raises(UnsupportedPattern):
        list(iterate_examples("(a{900}){1}(b{900})(c{900})", 0, free))


def test_examples_end_when_the_budget_is_spent():
    budget = StepBudget(steps=20)
    with pytest.raises(UnsupportedPattern):
        list(iterate_examples("^[a-z]+-[a-z]+$", 0, budget.spend))
    assert budget.steps < 0


def test_a_search_tells_what_it_cost():
    small, large = StepBudget(), StepBudget()
    engine.matches("(a|b)*c", "ab" * 100, small.spend)
    engine.matches("(a?b?){99}c", "a" * 1_000, large.spend)
    assert large.steps < small.steps < StepBudget().steps
