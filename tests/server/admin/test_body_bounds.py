"""Bodies of the administration API: each value at its bound is accepted, and the next one is refused."""

from __future__ import annotations

from typing import Any

import pytest
from marshmallow import Schema

from tornado_gate.errors import InvalidField
from tornado_gate.server.admin.bodies import KeyChangeSchema, LimitOverrideSchema, RotationSchema, check_body

OVERRIDE = {"kind": "key", "subject": "k", "bound": "tokens_per_day", "until": "2h"}


def refuses(schema: type[Schema], body: dict[str, Any], field: str) -> bool:
    """Whether the body is refused. Checks that the error names the field."""
    try:
        check_body(schema, body)
    except InvalidField as error:
        assert error.param == field
        return True
    return False


@pytest.mark.parametrize("name", ["requests_per_minute", "tokens_per_minute", "concurrent_requests"])
def test_a_limit_is_at_least_one_or_null(name: str) -> None:
    field = f"limits.{name}"
    assert refuses(KeyChangeSchema, {"limits": {name: 0}}, field)
    assert not refuses(KeyChangeSchema, {"limits": {name: 1}}, field)
    assert not refuses(KeyChangeSchema, {"limits": {name: None}}, field)
    assert refuses(KeyChangeSchema, {"limits": {name: 1.5}}, field)


@pytest.mark.parametrize("name", ["tokens_per_day", "tokens_per_month"])
def test_a_budget_of_tokens_is_a_whole_number_of_at_least_one_or_null(name: str) -> None:
    field = f"budget.{name}"
    assert refuses(KeyChangeSchema, {"budget": {name: 0}}, field)
    assert not refuses(KeyChangeSchema, {"budget": {name: 1}}, field)
    assert not refuses(KeyChangeSchema, {"budget": {name: None}}, field)
    assert refuses(KeyChangeSchema, {"budget": {name: 1.5}}, field)
    assert not refuses(KeyChangeSchema, {"budget": {name: 10**13}}, field), "the largest amount is one of US dollars"


@pytest.mark.parametrize("name", ["usd_per_day", "usd_per_month"])
def test_a_budget_of_money_is_zero_to_a_trillion_us_dollars_or_null(name: str) -> None:
    field = f"budget.{name}"
    assert refuses(KeyChangeSchema, {"budget": {name: -0.01}}, field)
    assert not refuses(KeyChangeSchema, {"budget": {name: 0}}, field)
    assert not refuses(KeyChangeSchema, {"budget": {name: 0.5}}, field)
    assert not refuses(KeyChangeSchema, {"budget": {name: 10**12}}, field)
    assert refuses(KeyChangeSchema, {"budget": {name: 10**12 + 1}}, field)
    assert not refuses(KeyChangeSchema, {"budget": {name: None}}, field)


@pytest.mark.parametrize("name", ["value", "factor"])
def test_a_temporary_limit_is_zero_to_a_trillion_or_null(name: str) -> None:
    assert refuses(LimitOverrideSchema, {**OVERRIDE, name: -1}, name)
    assert not refuses(LimitOverrideSchema, {**OVERRIDE, name: 0}, name)
    assert not refuses(LimitOverrideSchema, {**OVERRIDE, name: 10**12}, name)
    assert refuses(LimitOverrideSchema, {**OVERRIDE, name: 10**12 + 1}, name)
    assert not refuses(LimitOverrideSchema, {**OVERRIDE, name: None}, name)


@pytest.mark.parametrize(("schema", "field"), [(KeyChangeSchema, "expires"), (RotationSchema, "overlap")])
def test_a_moment_is_not_negative_and_its_text_has_1_to_60_characters(schema: type[Schema], field: str) -> None:
    assert not refuses(schema, {field: 0}, field)
    assert refuses(schema, {field: -1}, field)
    assert not refuses(schema, {field: 0.0}, field)
    assert refuses(schema, {field: -0.5}, field)
    assert refuses(schema, {field: ""}, field)
    assert not refuses(schema, {field: "x" * 60}, field)
    assert refuses(schema, {field: "x" * 61}, field)


def test_null_means_never_for_the_end_of_a_key_and_nothing_for_an_overlap() -> None:
    assert not refuses(KeyChangeSchema, {"expires": None}, "expires")
    assert refuses(RotationSchema, {"overlap": None}, "overlap")
