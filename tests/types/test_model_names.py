"""The canonical form of a model's name, and the globs that match it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from tornado_gate.config.globs import matches_model
from tornado_gate.types.model_names import canonicalize_name, is_plain_name


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("gpt-p", "gpt-p"), ("GPT-P", "gpt-p"), ("models/gpt-p", "gpt-p"), ("/Models//GPT-P/", "gpt-p"),
        ("publishers/google/models/Gemini-X", "gemini-x"), ("projects/p/locations/l/publishers/google/models/g", "g"),
        ("openai/gpt-p", "openai/gpt-p"), ("tunedModels/gpt-p", "tunedmodels/gpt-p"), ("models/a/b", "a/b"),
        ("ｇｐｔ-p", "gpt-p"), ("models", "models"), ("", ""), ("/", ""), ("projects/p", "projects/p"),
    ],
)  # fmt: skip
def test_spellings_of_one_model_have_one_form(name: str, canonical: str) -> None:
    assert canonicalize_name(name) == canonical


@given(name=some.text(max_size=40))
def test_a_canonical_form_is_found_again_in_other_spellings(name: str) -> None:
    canonical = canonicalize_name(name)
    assert not canonical or canonicalize_name(f"models/{canonical}") == canonicalize_name(canonical)
    assert matches_model((name,), name)


@pytest.mark.parametrize(
    ("glob", "name", "matches"),
    [
        ("gpt-*", "GPT-x", True), ("GPT-*", "gpt-x", True), ("gpt-*", "models/GPT-x", True), ("models/gpt-*", "gpt-x", True),
        ("models/*", "models/gpt-x", True), ("models/*", "Models/gpt-x", True), ("*", "models/gpt-x", True),
        ("models/*", "gpt-x", False), ("gpt-*", "openai/gpt-x", False), ("openai/*", "OpenAI/gpt-x", True),
    ],
)  # fmt: skip
def test_a_glob_matches_every_spelling(glob: str, name: str, matches: bool) -> None:
    assert matches_model((glob,), name) is matches


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("gpt-p", True), ("openai/gpt-4o:free", True), ("ft:gpt-4o:org::id", True), ("arn:aws:b:u:1:m/x@2", True), ("模型", True),
        ("gpt p", False), ("gpt-p\n", False), ("gpt-\u200bp", False), ("a/../b", False), ("a%2Fb", False), ("a\u3000b", False),
    ],
)  # fmt: skip
def test_a_name_that_an_upstream_may_read_otherwise_is_not_plain(name: str, plain: bool) -> None:
    assert is_plain_name(name) is plain
