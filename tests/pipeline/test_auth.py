"""A key is found in every form, and may do what it may do."""

from __future__ import annotations

import fnmatch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornado_gate.accounts.permissions import check_model, may_use_model
from tornado_gate.errors import AuthenticationFailed, GateError, NotAllowed
from tornado_gate.pipeline import auth
from tornado_gate.types import Caller


@pytest.mark.parametrize(
    ("headers", "query"),
    [
        ({"authorization": "Bearer k"}, []),
        ({"authorization": "bearer   k "}, []),
        ({"x-api-key": "k"}, []),
        ({"x-goog-api-key": " k"}, []),
        ({}, ["k"]),
        ({"authorization": "Bearer k", "x-api-key": "k"}, ["k", "k"]),
        ({"authorization": "Basic abc", "x-api-key": "k"}, []),
    ],
)
def test_a_key_is_found_in_every_form(headers: dict[str, str], query: list[str]) -> None:
    assert auth.find_key(headers, query) == "k"


@pytest.mark.parametrize(
    ("headers", "query", "code"),
    [
        ({}, [], "missing_api_key"),
        ({"authorization": "Bearer "}, [], "missing_api_key"),
        ({"authorization": "k"}, [], "missing_api_key"),
        ({"authorization": "Bearer a", "x-api-key": "b"}, [], "ambiguous_api_key"),
        ({"x-api-key": "b"}, ["c"], "ambiguous_api_key"),
        ({}, ["b", "c"], "ambiguous_api_key"),
        ({"x-api-key": "x" * 10_000}, [], "invalid_api_key"),
    ],
)
def test_no_key_or_two_are_refused(headers: dict[str, str], query: list[str], code: str) -> None:
    with pytest.raises(AuthenticationFailed) as caught:
        auth.find_key(headers, query)
    assert (caught.value.status, caught.value.code) == (401, code)


@given(st.text(), st.text(), st.lists(st.text(), max_size=2))
def test_no_header_crashes_it(bearer: str, header: str, query: list[str]) -> None:
    try:
        assert auth.find_key({"authorization": bearer, "x-api-key": header}, query)
    except GateError as error:
        assert error.status == 401


def test_globs_narrow_the_models_of_a_key() -> None:
    caller = Caller(id="k", account="a", models=("local-*", "exact"))
    assert may_use_model(caller, "local-chat")
    assert may_use_model(caller, "exact")
    assert not may_use_model(caller, "exactly")
    assert not may_use_model(caller, "a-local-chat")
    with pytest.raises(NotAllowed):
        check_model(caller, "gpt-4o")


def test_only_a_star_is_special_in_a_glob() -> None:
    caller = Caller(id="k", account="a", models=("a[b].c", "x?"))
    assert may_use_model(caller, "a[b].c")
    assert not may_use_model(caller, "abxc")
    assert not may_use_model(caller, "xy")


def test_operations_narrow_a_key_but_models_may_always_be_listed() -> None:
    narrow = Caller(id="k", account="k", operations=("chat",))
    assert auth.filter_operations(narrow, ("chat", "images")) == ("chat",)
    assert auth.filter_operations(narrow, ("models",)) == ("models",)
    assert auth.filter_operations(Caller(id="k", account="k"), ("images", "speech")) == ("images", "speech")
    with pytest.raises(NotAllowed):
        auth.filter_operations(narrow, ("embeddings", "images"))


@given(st.text("ab*", max_size=8), st.text("ab", max_size=8))
def test_a_glob_matches_what_fnmatch_matches(pattern: str, name: str) -> None:
    caller = Caller(id="k", account="a", models=(pattern,))
    assert may_use_model(caller, name) == fnmatch.fnmatchcase(name, pattern)


def test_a_long_name_against_many_stars_is_no_work() -> None:
    caller = Caller(id="k", account="a", models=("*a" * 50 + "*b",))
    assert not may_use_model(caller, "a" * 1_000_000)
