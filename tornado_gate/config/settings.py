"""Load the settings of a provider entry with the plugin's own marshmallow schema. For plugins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import marshmallow

from tornado_gate.codec import fields as strict
from tornado_gate.config.environment import EnvironmentText
from tornado_gate.config.faults import find_field, flatten_messages, list_allowed_keys
from tornado_gate.config.schema import make_key_index
from tornado_gate.config.values import boolean_of, integer_of, number_of, seconds_of
from tornado_gate.errors import ConfigError

_NUMBERS = (strict.Number, marshmallow.fields.Number)
_CONVERSIONS = (
    ((strict.Integer, marshmallow.fields.Integer), integer_of),
    (_NUMBERS, number_of),
    ((strict.Boolean, marshmallow.fields.Boolean), boolean_of),
)


def load_settings(schema: type[marshmallow.Schema], settings: Mapping[str, Any]) -> Any:
    """Return `settings` loaded with `schema`. Unknown keys are faults, with a suggestion.

    Text from the environment is converted to integers, numbers and booleans if the field requires them, and a duration such as
    ``5m`` to seconds for a number whose name ends with ``seconds``.
    Raises ConfigError with paths below the entry.
    """
    instance = schema()
    try:
        return instance.load(_convert_environment_text(dict(settings), instance), unknown=marshmallow.RAISE)
    except marshmallow.ValidationError as error:
        names = (*list_allowed_keys(instance), *getattr(settings, "core_keys", ()))
        raise ConfigError(list(flatten_messages(error.messages, make_key_index(), instance, top_names=names))) from None


def _convert_environment_text(value: Any, checker: object) -> Any:
    """Return `value` with text from the environment converted to the types that `checker`, a schema or field, requires."""
    if isinstance(value, dict):
        return {key: _convert_environment_text(item, find_field(checker, key)) for key, item in value.items()}
    if isinstance(value, list):
        return [_convert_environment_text(item, find_field(checker, index)) for index, item in enumerate(value)]
    if isinstance(value, str) and isinstance(checker, _NUMBERS) and str(checker.name).endswith("seconds"):
        value = seconds_of(value)
    if not isinstance(value, EnvironmentText) or isinstance(checker, (strict.String, marshmallow.fields.String)):
        return value  # stays an EnvironmentText, so that `repr` masks it
    for kinds, convert in _CONVERSIONS:
        if isinstance(checker, kinds):
            value = convert(value)
    return str(value) if isinstance(value, EnvironmentText) else value
