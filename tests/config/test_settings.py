"""A plugin's own schema for the settings of its entries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from marshmallow import Schema, fields, validate

from tornado_gate.codec import fields as strict
from tornado_gate.config import load_settings
from tornado_gate.config.environment import EnvironmentText
from tornado_gate.errors import ConfigError


class InnerSchema(Schema):
    size = strict.Integer(least=1)


class SettingsSchema(Schema):
    organization = strict.String()
    retries = strict.Integer(least=0, load_default=2)
    ratio = strict.Number()
    strict_mode = strict.Boolean()
    region = fields.String(validate=validate.OneOf(["eu", "us"]))
    inner = fields.Nested(InnerSchema)
    several = fields.List(fields.Nested(InnerSchema))
    needed = strict.String(required=True)


def test_settings_are_loaded_with_their_defaults() -> None:
    assert load_settings(SettingsSchema, {"needed": "x"}) == {"needed": "x", "retries": 2}


FAULTS = [
    ({"retires": 1}, ("retires",), "unknown key; did you mean 'retries'?"),
    ({"retries": "1"}, ("retries",), "must be an integer, not a string"),
    ({"retries": -1}, ("retries",), "must be 0 or more, not -1"),
    ({"organization": None}, ("organization",), "has no value; give it one, or leave the key out"),
    ({"inner": {"sizes": 1}}, ("inner", "sizes"), "unknown key; did you mean 'size'?"),
    ({"inner": 5}, ("inner",), "must be a mapping"),
    ({"several": [{"size": 1}, {"sise": 1}]}, ("several", 1, "sise"), "unknown key; did you mean 'size'?"),
    ({"region": "asia"}, ("region",), "Must be one of: eu, us."),
    ({"retries": EnvironmentText("x")}, ("retries",), "must be an integer, not a string"),
]


@pytest.mark.parametrize(("settings", "path", "message"), FAULTS)
def test_fault_in_settings_has_its_path_below_the_entry(
    settings: Mapping[str, Any], path: tuple[str | int, ...], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings(SettingsSchema, {"needed": "x", **settings})
    assert caught.value.faults == [(path, message)]


def test_every_fault_in_settings_is_found() -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings(SettingsSchema, {"retires": 1, "ratio": "x"})
    assert {path for path, _ in caught.value.faults} == {("retires",), ("ratio",), ("needed",)}


def test_values_of_the_environment_take_the_type_that_the_schema_wants() -> None:
    settings = {"retries": "3", "ratio": "0.5", "strict_mode": "true", "needed": "secret"}
    loaded = load_settings(SettingsSchema, {key: EnvironmentText(value) for key, value in settings.items()})
    assert loaded == {"retries": 3, "ratio": 0.5, "strict_mode": True, "needed": "secret"}
    assert "secret" not in repr(loaded)


def test_values_of_the_environment_inside_other_settings_take_their_type_too() -> None:
    size = EnvironmentText("3")
    loaded = load_settings(SettingsSchema, {"needed": "x", "inner": {"size": size}, "several": [{"size": size}]})
    assert (loaded["inner"], loaded["several"]) == ({"size": 3}, [{"size": 3}])
