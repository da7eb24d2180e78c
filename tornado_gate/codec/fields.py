"""Marshmallow fields and a schema for request bodies: values are not converted, unknown names are kept.

marshmallow's own Boolean accepts 1 and "true", its Float accepts "5". The gateway forwards bodies unchanged, so it must refuse
values that need conversion. `check` converts marshmallow's nested messages into one InvalidField with a path.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from marshmallow import INCLUDE, Schema, ValidationError, fields

from tornado_gate.codec.value_limits import are_left_to_upstream
from tornado_gate.errors import InvalidField

MAX_INTEGER = 2**63 - 1
MAX_TOKENS = 2**31 - 1
"""The largest limit of tokens in a request: vendors read 32 bits (google-genai: int32)."""


class BodySchema(Schema):
    """Base class of body schemas. Unknown names are kept, because an upstream may support them."""

    class Meta:
        unknown = INCLUDE

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._needed = {name for name, field in self.load_fields.items() if field.required}
        self._enough = {name: _find_sufficient_types(field) for name, field in self.load_fields.items()}
        self._checks = {
            name: field.function
            for name, field in self.load_fields.items()
            if type(field) is FunctionField and not field.validators
        }
        self._ranges = {
            name: _get_number_range(field)
            for name, field in self.load_fields.items()
            if isinstance(field, _Number) and not field.validators
        }
        self._by_fields_alone = not any(getattr(self, "_hooks", {"unknown": True}).values()) and not any(
            field.data_key or field.pre_load or field.post_load for field in self.load_fields.values()
        )

    def accepts(self, body: Mapping[str, Any]) -> bool:
        """Whether `body` is certainly valid. False means invalid or unknown: then call `validate`.

        This fast path checks only the fields that the body has and builds no error messages; marshmallow's `validate` visits
        every field of the schema and takes ten times as long. Almost all bodies are valid.
        """
        if not self._by_fields_alone:
            return False
        enough, checks, ranges = self._enough, self._checks, self._ranges
        try:
            for name, value in body.items():
                if name not in enough or type(value) in enough[name]:
                    continue
                if name in ranges:
                    types, least, most = ranges[name]
                    if type(value) in types and least <= value <= most:
                        continue
                if value is not None and name in checks:
                    checks[name](value)
                elif not _accepts(self.load_fields[name], value, name, body):
                    return False
        except (ValidationError, InvalidField):
            return False
        return self._needed <= body.keys()


def _find_sufficient_types(field: fields.Field[Any]) -> frozenset[type]:
    """The Python types whose values the field accepts without further checks."""
    if type(field).deserialize is not fields.Field.deserialize:
        return frozenset()
    types: set[type] = {type(None)} if field.allow_none else set()
    if not field.validators:
        if type(field) is Boolean:
            types.add(bool)
        elif type(field) is String and not field.choices and field.longest is None and not field.filled:
            types.add(str)
        elif type(field) is Object and field.schema is None:
            types.add(dict)
    return frozenset(types)


def _get_number_range(field: _Number) -> tuple[tuple[type, ...], float, float]:
    """Return (types, minimum, maximum): numbers of these types in this range need no further checks."""
    types: dict[type, tuple[type, ...]] = {Integer: (int,), Number: (int, float)}
    least = -MAX_INTEGER if field.least is None else field.least
    most = MAX_INTEGER if field.most is None else field.most
    return types.get(type(field), ()), least, most


def _accepts(field: fields.Field[Any], value: Any, name: str, body: Mapping[str, Any]) -> bool:
    """Whether the field accepts the value. Returns False or raises ValidationError if not."""
    if type(field).deserialize is not fields.Field.deserialize:
        field.deserialize(value, name, body)
        return True
    if value is None:
        return field.allow_none
    read = field._deserialize(value, name, body)
    for validator in field.validators:
        validator(read)
    return True


class String(fields.Field[str]):
    """A JSON string; `choices`, `filled` (not empty) and `longest` (characters) narrow it."""

    def __init__(
        self, *, choices: Sequence[str] = (), filled: bool = False, longest: int | None = None, **rest: Any
    ) -> None:
        super().__init__(**rest)
        self.choices = tuple(choices)
        self.filled = filled
        self.longest = longest

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **rest: Any) -> str:
        if not isinstance(value, str):
            raise ValidationError(f"must be a string, not {describe_type(value)}")
        if self.choices and value not in self.choices:
            _refuse_value(f"must be one of {format_choices(self.choices)}, not '{value[:50]}'")
        if self.filled and not value:
            raise ValidationError("must not be empty")
        if self.longest is not None and len(value) > self.longest:
            _refuse_value(f"has {len(value)} characters; at most {self.longest} are allowed")
        return value


class Boolean(fields.Field[bool]):
    """A JSON boolean: true or false, no other value."""

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **rest: Any) -> bool:
        if not isinstance(value, bool):
            raise ValidationError(f"must be true or false, not {describe_type(value)}")
        return value


class _Number(fields.Field[Any]):
    what = ""

    def __init__(self, *, least: float | None = None, most: float | None = None, **rest: Any) -> None:
        super().__init__(**rest)
        self.least, self.most = least, most

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **rest: Any) -> Any:
        self._check_type(value)
        if (self.least is not None and value < self.least) or (self.most is not None and value > self.most):
            _refuse_value(f"must be {self._format_range()}, not {value}")
        return value

    def _check_type(self, value: Any) -> None:
        raise ValidationError(f"must be {self.what}, not {describe_type(value)}")

    def _format_range(self) -> str:
        if self.most is None:
            return f"{self.least} or more"
        return f"{self.most} or less" if self.least is None else f"from {self.least} to {self.most}"


class Integer(_Number):
    """A JSON integer within 64 bits. true, 1.5, 5.0 and "5" are invalid."""

    what = "an integer"

    def _check_type(self, value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, int):
            super()._check_type(value)
        if abs(value) > MAX_INTEGER:
            raise ValidationError("must fit into 64 bits")


class Number(_Number):
    """A finite JSON number."""

    what = "a number"

    def _check_type(self, value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            super()._check_type(value)
        if isinstance(value, int) and abs(value) > MAX_INTEGER:
            raise ValidationError("must fit into 64 bits")
        if not math.isfinite(value):
            raise ValidationError("must be a finite number")


class Object(fields.Field[dict[str, Any]]):
    """A JSON object, kept unchanged; `schema` checks its members."""

    def __init__(self, schema: type[Schema] | None = None, **rest: Any) -> None:
        super().__init__(**rest)
        self.schema = schema
        self._ready: Schema | None = None

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **rest: Any) -> Any:
        if not isinstance(value, dict):
            raise ValidationError(f"must be an object, not {describe_type(value)}")
        if self.schema is not None:
            self._ready = self._ready or self.schema()
            if errors := _find_faults(self._ready, value):
                raise ValidationError(errors)
        return value


class Array(fields.Field[list[Any]]):
    """A JSON array of `item`s with a length from `least` to `most`."""

    def __init__(self, item: fields.Field[Any], *, least: int = 0, most: int | None = None, **rest: Any) -> None:
        super().__init__(**rest)
        self.item, self.least, self.most = item, least, most

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **rest: Any) -> Any:
        if not isinstance(value, list):
            raise ValidationError(f"must be an array, not {describe_type(value)}")
        if len(value) < self.least:
            raise ValidationError("must not be empty" if self.least == 1 else f"must have {self.least} items or more")
        if self.most is not None and len(value) > self.most:
            _refuse_value(f"has {len(value)} items; at most {self.most} are allowed")
        for index, item in enumerate(value):
            try:
                self.item.deserialize(item)
            except ValidationError as error:
                raise ValidationError({index: error.messages}) from None
        return value


class OneOf(fields.Field[Any]):
    """A value checked by the field for its Python type: ``OneOf(by_type={str: String(), list: Array(…)})``."""

    def __init__(self, *, by_type: Mapping[type, fields.Field[Any]], **rest: Any) -> None:
        super().__init__(**rest)
        self.by_type = by_type

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **rest: Any) -> Any:
        field = self.by_type.get(type(value))
        if field is None:
            allowed = " or ".join(_TYPE_NAMES[kind] for kind in self.by_type)
            raise ValidationError(f"must be {allowed}, not {describe_type(value)}")
        return field.deserialize(value)


class FunctionField(fields.Field[Any]):
    """A value checked by a function: for long arrays, where a schema for each item would be too slow.

    `function` raises InvalidField with a path below this field, or returns None.
    """

    def __init__(self, function: Callable[[Any], None], **rest: Any) -> None:
        super().__init__(**rest)
        self.function = function

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **rest: Any) -> Any:
        self.function(value)
        return value


_TYPE_NAMES: dict[type, str] = {
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    str: "a string",
    list: "an array",
    dict: "an object",
    type(None): "null",
}


def describe_type(value: Any) -> str:
    """The JSON type of a value with its article, for example "an array"."""
    return _TYPE_NAMES.get(type(value), type(value).__name__)


def format_choices(choices: Iterable[str]) -> str:
    """Return the choices as "'a', 'b' or 'c'"."""
    words = [f"'{choice}'" for choice in choices]
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _refuse_value(message: str) -> None:
    """Raise ValidationError for an unknown word or an exceeded limit, unless the upstream decides (`value_limits`)."""
    if not are_left_to_upstream():
        raise ValidationError(message)


def check(schema: Schema, body: Mapping[str, Any]) -> None:
    """Check `body`. Raises InvalidField for the first invalid field, in the order of the schema."""
    if isinstance(schema, BodySchema) and schema.accepts(body):
        return
    if errors := schema.validate(body):
        path, message = first_fault(errors)
        name = ".".join(map(str, path))
        raise InvalidField(name, f"'{name}' {message}.", code=_get_error_code(message))


def _find_faults(schema: Schema, body: Mapping[str, Any]) -> dict[Any, Any]:
    """Return marshmallow's errors for `body`, {} if it is valid. Calls the slow `validate` only if `accepts` is false."""
    return {} if isinstance(schema, BodySchema) and schema.accepts(body) else schema.validate(body)


def first_fault(errors: Any) -> tuple[list[str | int], str]:
    """Return (path, text) of the first leaf of marshmallow's nested messages."""
    path: list[str | int] = []
    while isinstance(errors, dict):
        key = next(iter(errors))
        if key != "_schema":
            path.append(key)
        errors = errors[key]
    message = errors[0] if isinstance(errors, list) else str(errors)
    if isinstance(message, dict):
        deeper, message = first_fault(message)
        path += deeper
    return path, _simplify_message(str(message))


def _simplify_message(message: str) -> str:
    """Replace marshmallow's standard messages by predicates such as "is missing"."""
    return {
        "Missing data for required field.": "is missing",
        "Field may not be null.": "must not be null",
    }.get(message, message)


def _get_error_code(message: str) -> str:
    return "missing_required_parameter" if message == "is missing" else "invalid_value"
