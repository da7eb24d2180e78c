"""Marshmallow fields for conf. Only text from the environment is converted; other values must have the right type.

Messages state the allowed values and do not show values from the environment. Containers return their valid
items as `valid_data`, so that later checks find all other faults in the same pass.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from marshmallow import Schema, ValidationError, fields

from tornado_gate.codec.durations import parse_duration
from tornado_gate.codec.fields import MAX_INTEGER, format_choices
from tornado_gate.codec.fields import describe_type as json_named
from tornado_gate.codec.secret_words import quote_value
from tornado_gate.config.environment import EnvironmentText
from tornado_gate.config.model import Secret

DAY_SECONDS = 86_400
LONGEST_PATH = 1024
LONGEST_FILE_NAME = 255

_INTEGER = re.compile(r"[+-]?[0-9]{1,30}")
_NUMBER = re.compile(r"[+-]?([0-9]++\.?[0-9]*+|\.[0-9]++)([eE][+-]?[0-9]{1,3})?")
_BOOLEAN_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def describe_type(value: Any) -> str:
    """Return the type of a value in YAML's terms, with its article, such as "a mapping"."""
    if isinstance(value, EnvironmentText):
        return "the value from the environment" if value else "an empty value from the environment"
    return {list: "a list", dict: "a mapping", type(None): "an empty value"}.get(type(value)) or json_named(value)


def integer_of(value: Any) -> Any:
    """Convert text from the environment to an integer if possible; return other values unchanged."""
    if isinstance(value, EnvironmentText) and _INTEGER.fullmatch(value.strip()):
        return int(value)
    return value


def number_of(value: Any) -> Any:
    """Convert text from the environment to a number if possible; return other values unchanged."""
    converted = integer_of(value)
    if isinstance(converted, EnvironmentText) and _NUMBER.fullmatch(converted.strip()):
        return float(converted)
    return converted


def seconds_of(value: Any) -> Any:
    """Convert a duration such as ``5m``, and a number from the environment, to seconds; return other values unchanged."""
    converted = number_of(value)
    if isinstance(converted, str):
        with suppress(ValueError):
            return parse_duration(converted)
    return converted


def boolean_of(value: Any) -> Any:
    """Convert text from the environment to a boolean, in any YAML spelling; return other values unchanged."""
    return _BOOLEAN_WORDS.get(value.strip().lower(), value) if isinstance(value, EnvironmentText) else value


def check_file_path(folder: str) -> None:
    """Check the path of a folder or file."""
    if not folder.isprintable():
        raise ValidationError("must be a path without control characters")
    if len(folder) > LONGEST_PATH or any(len(name.encode()) > LONGEST_FILE_NAME for name in folder.split("/")):
        raise ValidationError(f"must be a path of up to {LONGEST_PATH} characters, {LONGEST_FILE_NAME} in each name")
    if folder.startswith("~"):
        raise ValidationError("must be a path; for the home folder write ${HOME}, not ~")


class String(fields.Field[Any]):
    """A string, not empty unless `empty` is true; `choices` restricts the values."""

    def __init__(self, *, choices: Sequence[str] = (), empty: bool = False, **rest: Any) -> None:
        super().__init__(**rest)
        self.choices = tuple(choices)
        self.empty = empty

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **rest: Any) -> Any:
        if isinstance(value, bool):
            raise ValidationError(
                "must be a string, not true or false (YAML reads yes, no, on and off as those); put quotes around it"
            )
        if isinstance(value, (int, float)):
            raise ValidationError(f"must be a string, not {describe_type(value)}; put quotes around it")
        if not isinstance(value, str):
            raise ValidationError(f"must be a string, not {describe_type(value)}")
        if not value and not self.empty:
            raise ValidationError("must not be empty")
        if self.choices and value not in self.choices:
            shown = describe_type(value) if isinstance(value, EnvironmentText) else quote_value(value)
            raise ValidationError(f"must be {format_choices(self.choices)}, not {shown}")
        return str(value)


class SecretString(String):
    """A string that becomes a `Secret`."""

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **rest: Any) -> Secret:
        return Secret(super()._deserialize(value, attr, data, **rest))


class Boolean(fields.Field[Any]):
    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **rest: Any) -> bool:
        converted = boolean_of(value)
        if isinstance(converted, bool):
            return converted
        raise ValidationError(f"must be true or false, not {describe_type(value)}")


class Integer(fields.Field[Any]):
    """An integer from `least` to `most`, both included."""

    def __init__(self, *, least: int, most: int = MAX_INTEGER, **rest: Any) -> None:
        super().__init__(**rest)
        self.least, self.most = least, most

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **rest: Any) -> int:
        converted = integer_of(value)
        if isinstance(converted, bool) or not isinstance(converted, int):
            raise ValidationError(f"must be an integer, not {describe_type(value)}")
        if self.least <= converted <= self.most:
            return converted
        allowed = f"{self.least} or more" if self.most == MAX_INTEGER else f"from {self.least} to {self.most}"
        raise ValidationError(f"must be {allowed}, not {_format_value(value)}")


class Seconds(fields.Field[Any]):
    """Seconds above 0 (with `zero`: 0 or more), up to `most`: one day by default. A number, or a text such as ``5m``."""

    def __init__(self, *, zero: bool = False, most: int = DAY_SECONDS, **rest: Any) -> None:
        super().__init__(**rest)
        self.zero = zero
        self.most = most

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **rest: Any) -> float:
        converted = seconds_of(value)
        if isinstance(converted, bool) or not isinstance(converted, (int, float)):
            raise ValidationError(f"must be a number of seconds, or a duration such as 5m, not {describe_type(value)}")
        if 0 < converted <= self.most or (self.zero and converted == 0):
            return float(converted)
        allowed = f"from 0 to {self.most}" if self.zero else f"more than 0 and at most {self.most}"
        raise ValidationError(f"must be {allowed} seconds, not {_format_value(value)}")


class Number(fields.Field[Any]):
    """A finite number of `least` or more."""

    def __init__(self, *, least: float, **rest: Any) -> None:
        super().__init__(**rest)
        self.least = least

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **rest: Any) -> float:
        converted = number_of(value)
        if isinstance(converted, bool) or not isinstance(converted, (int, float)):
            raise ValidationError(f"must be a number, not {describe_type(value)}")
        if not self.least <= converted < math.inf:
            raise ValidationError(f"must be {self.least:g} or more, not {_format_value(value)}")
        return float(converted)


def _format_value(value: Any) -> str:
    if isinstance(value, EnvironmentText):
        return describe_type(value)
    if isinstance(value, str):
        return quote_value(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "infinite or NaN"
    return str(value) if isinstance(value, float) or abs(value) <= MAX_INTEGER else "a number above 64 bits"


class _ContainerField(fields.Field[Any]):
    """Base class of fields that contain others. A key without a value (``providers:``) is an empty container."""

    kind: type
    type_name: str

    def deserialize(
        self, value: Any, attr: str | None = None, data: Mapping[str, Any] | None = None, **rest: Any
    ) -> Any:
        return super().deserialize(self.kind() if value is None else value, attr, data, **rest)

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **rest: Any) -> Any:
        if not isinstance(value, self.kind):
            raise ValidationError(f"must be {self.type_name}, not {describe_type(value)}", valid_data=self.kind())
        return self._load_items(value)

    def _load_items(self, value: Any) -> Any:
        raise AssertionError("subclasses implement this")


class Section(_ContainerField):
    """A mapping with the keys of `schema`; the message for other types shows `example`."""

    kind, type_name = dict, "a mapping"

    def __init__(self, schema: type[Schema], *, example: str = "", **rest: Any) -> None:
        super().__init__(**rest)
        self.schema = schema()
        if example:
            self.type_name = f"a mapping such as {example}"

    def _load_items(self, value: Any) -> Any:
        return self.schema.load(value)


class Table(_ContainerField):
    """A mapping of names to `item`s; `check_name` raises ValidationError for an invalid name."""

    kind, type_name = dict, "a mapping"

    def __init__(self, item: fields.Field[Any], *, check_name: Callable[[str], None], **rest: Any) -> None:
        super().__init__(**rest)
        self.item = item
        self.check_name = check_name

    def _load_items(self, value: Any) -> Any:
        sound, faults = _load_entries(value.items(), self._load_entry)
        if faults:
            raise ValidationError(faults, valid_data=sound)
        return sound

    def _load_entry(self, name: str, value: Any) -> Any:
        self.check_name(name)
        return self.item.deserialize(value)


class List(_ContainerField):
    """A list of `item`s. With `least` 1 an empty list and a key without a value are invalid; the message shows `hint`."""

    kind, type_name = list, "a list"

    def __init__(self, item: fields.Field[Any], *, least: int = 0, hint: str = "", **rest: Any) -> None:
        super().__init__(**rest)
        self.item, self.least, self.hint = item, least, hint

    def _load_items(self, value: Any) -> Any:
        if len(value) < self.least:
            raise ValidationError(f"must not be empty; {self.hint}", valid_data=[])
        sound, faults = _load_entries(enumerate(value), lambda index, item: self.item.deserialize(item))
        if faults:
            raise ValidationError(faults, valid_data=list(sound.values()))
        return list(sound.values())


def _load_entries(
    entries: Iterable[tuple[Any, Any]], load: Callable[[Any, Any], Any]
) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """Load every entry. Returns (values by key, faults by key); a faulty entry's value is its valid part or None."""
    sound: dict[Any, Any] = {}
    faults: dict[Any, Any] = {}
    for key, value in entries:
        try:
            sound[key] = load(key, value)
        except ValidationError as error:
            faults[key] = error.messages
            sound[key] = error.valid_data
    return sound, faults
