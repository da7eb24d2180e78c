"""The kinds of fields. Each checks one JSON value and has the other declarations of it (`Declared`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeVar

import msgspec
from marshmallow import Schema, ValidationError, fields, missing

from tornado_gate.codec.value_limits import are_left_to_upstream
from tornado_gate.types.text_maps import Shape
from tornado_gate.types.value import Value, field

MAX_INTEGER = 2**63 - 1
MAX_TOKENS = 2**31 - 1
"""The largest limit of tokens in a request: vendors read 32 bits (google-genai: int32)."""
NO_EXAMPLE: Final = object()

_Value = TypeVar("_Value")


class Reference(Value, frozen=True, kw_only=True):
    """A member whose string is the id of an object of `kind` that an upstream keeps (`types/upstream_objects.py`).

    `is_id`: only strings for which it returns true; others name no object. `when` and `unless`: only in objects whose member
    has, or does not have, one of these words. `anywhere`: also in every object below the declared one, of whatever type,
    because vendors add types of parts.
    """

    kind: str
    is_id: Callable[[str], bool] | None = None
    when: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unless: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    anywhere: bool = False

    def is_in(self, value: Mapping[str, Any]) -> bool:
        """Return whether the member of `value` is a reference, if its string is an id."""
        return all(value.get(name) in words for name, words in self.when.items()) and not any(
            value.get(name) in words for name, words in self.unless.items()
        )


class ObjectIds(Value, frozen=True, kw_only=True):
    """Members that name objects of an upstream in each object at any depth, because vendors add types of parts and tools.

    `kinds` has the kinds of objects by the name of the member, whose value is an id or an array of ids. Nothing in a member
    of `opaque` is a reference. `shared` has the start of ids that a vendor gives to all accounts, by kind.
    """

    kinds: Mapping[str, str]
    opaque: frozenset[str] = frozenset()
    shared: Mapping[str, str] = field(default_factory=dict)

    def is_reference(self, kind: str, identity: Any) -> bool:
        """Return whether the value of a member names an object of one account."""
        if not isinstance(identity, str) or not identity:
            return False
        return kind not in self.shared or not identity.startswith(self.shared[kind])


class Declared(fields.Field[_Value]):
    """A field and the declarations of its member, besides the check.

    `text` is the shape of its strings for guards (`types/text_maps.py`), or a function that returns it; without one, the
    shape comes from the fields inside. `refers`: its string names an object of an upstream. `opaque`: nothing inside is a
    reference. `description` and `example` go into the API description; the matrix of fields tests the example, too.
    `keywords` are the JSON schema of a value that a function checks, as far as the kind of the field does not say it.
    """

    def __init__(
        self,
        *,
        text: Shape | Callable[[], Shape] | None = None,
        refers: Reference | None = None,
        opaque: bool = False,
        description: str = "",
        example: Any = NO_EXAMPLE,
        keywords: Mapping[str, Any] | None = None,
        **rest: Any,
    ) -> None:
        super().__init__(**rest)
        self.text, self.refers, self.opaque = text, refers, opaque
        self.description, self.example, self.keywords = description, example, keywords or {}


class String(Declared[str]):
    """A JSON string; `choices`, `filled` (not empty), `shortest` and `longest` (characters) narrow it."""

    def __init__(
        self,
        *,
        choices: Sequence[str] = (),
        filled: bool = False,
        shortest: int = 0,
        longest: int | None = None,
        **rest: Any,
    ) -> None:
        super().__init__(**rest)
        self.choices = tuple(choices)
        self.filled = filled
        self.shortest, self.longest = shortest, longest

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **rest: Any) -> str:
        if not isinstance(value, str):
            raise ValidationError(f"must be a string, not {describe_type(value)}")
        if self.choices and value not in self.choices:
            _refuse_value(f"must be one of {format_choices(self.choices)}, not '{value[:50]}'")
        if self.filled and not value:
            raise ValidationError("must not be empty")
        if self.shortest and not self.shortest <= len(value) <= (self.longest or len(value)):
            _refuse_value(f"must have {self.shortest} to {self.longest} characters")
        elif self.longest is not None and len(value) > self.longest:
            _refuse_value(f"has {len(value)} characters; at most {self.longest} are allowed")
        return value


class FormText(String):
    """A text field of a form that is sent at most once."""

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **rest: Any) -> str:
        if isinstance(value, list):
            raise ValidationError("must be sent only once")
        return super()._deserialize(value, attr, data, **rest)


class Boolean(Declared[bool]):
    """A JSON boolean: true or false, no other value."""

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **rest: Any) -> bool:
        if not isinstance(value, bool):
            raise ValidationError(f"must be true or false, not {describe_type(value)}")
        return value


class _Number(Declared[Any]):
    type_name = ""

    def __init__(self, *, least: float | None = None, most: float | None = None, **rest: Any) -> None:
        super().__init__(**rest)
        self.least, self.most = least, most

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **rest: Any) -> Any:
        self._check_type(value)
        if (self.least is not None and value < self.least) or (self.most is not None and value > self.most):
            _refuse_value(f"must be {self._format_range()}, not {value}")
        return value

    def _check_type(self, value: Any) -> None:
        raise ValidationError(f"must be {self.type_name}, not {describe_type(value)}")

    def _format_range(self) -> str:
        if self.most is None:
            return f"{self.least} or more"
        return f"{self.most} or less" if self.least is None else f"from {self.least} to {self.most}"


class Integer(_Number):
    """A JSON integer within 64 bits. true, 1.5, 5.0 and "5" are invalid."""

    type_name = "an integer"

    def _check_type(self, value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, int):
            super()._check_type(value)
        if abs(value) > MAX_INTEGER:
            raise ValidationError("must fit into 64 bits")


class Number(_Number):
    """A finite JSON number."""

    type_name = "a number"

    def _check_type(self, value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            super()._check_type(value)
        if isinstance(value, int) and abs(value) > MAX_INTEGER:
            raise ValidationError("must fit into 64 bits")
        if not math.isfinite(value):
            raise ValidationError("must be a finite number")


class Object(Declared[dict[str, Any]]):
    """A JSON object, kept unchanged; `schema` checks its members. A function returns a schema that contains itself."""

    def __init__(self, schema: type[Schema] | Callable[[], type[Schema]] | None = None, **rest: Any) -> None:
        super().__init__(**rest)
        self._schema = schema

    @property
    def schema(self) -> type[Schema] | None:
        """The schema of the members, if it is known."""
        return self._schema if self._schema is None or isinstance(self._schema, type) else self._schema()

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **rest: Any) -> Any:
        if not isinstance(value, dict):
            raise ValidationError(f"must be an object, not {describe_type(value)}")
        if self.schema is not None:
            raise_faults(get_schema(self.schema), value)
        return value


class Array(Declared[list[Any]]):
    """A JSON array of `item`s with a length from `least` to `most`.

    `are_plain` returns True for an array whose items are certainly valid and have no references, without a look at each.
    `plain_item` is a struct of msgspec for such items.
    """

    def __init__(
        self,
        item: fields.Field[Any],
        *,
        least: int = 0,
        most: int | None = None,
        are_plain: Callable[[list[Any]], bool] | None = None,
        plain_item: type[msgspec.Struct] | None = None,
        **rest: Any,
    ) -> None:
        super().__init__(**rest)
        self.item, self.least, self.most = item, least, most
        self.are_plain, self.plain_item = are_plain, plain_item

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **rest: Any) -> Any:
        if not isinstance(value, list):
            raise ValidationError(f"must be an array, not {describe_type(value)}")
        if len(value) < self.least:
            raise ValidationError("must not be empty" if self.least == 1 else f"must have {self.least} items or more")
        if self.most is not None and len(value) > self.most:
            _refuse_value(f"has {len(value)} items; at most {self.most} are allowed")
        for index, item in enumerate(value):
            try:
                if item is None and isinstance(self.item, Variants):
                    raise ValidationError("must be an object, not null")
                self.item.deserialize(item)
            except ValidationError as error:
                raise ValidationError({index: error.messages}) from None
        return value


class OneOf(Declared[Any]):
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


class FunctionField(Declared[Any]):
    """A value checked by a function: for long arrays, where a schema for each item would be too slow.

    `function` raises InvalidField with a path below this field, or returns None.
    """

    def __init__(self, function: Callable[[Any], None], **rest: Any) -> None:
        super().__init__(**rest)
        self.function = function

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **rest: Any) -> Any:
        self.function(value)
        return value


class Unchecked(Declared[Any]):
    """Any value. `inner` is the field whose texts and references it has, if the value has the right type."""

    def __init__(self, inner: Callable[[], fields.Field[Any]] | None = None, **rest: Any) -> None:
        super().__init__(allow_none=True, **rest)
        self.inner = inner


class File(Declared[Any]):
    """A file of a form. A text in its place is invalid. `needed`: each form has one; the format checks the files."""

    def __init__(self, *, needed: bool = False, **rest: Any) -> None:
        super().__init__(keywords={"type": "string", "format": "binary"}, **rest)
        self.needed = needed

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **rest: Any) -> Any:
        raise ValidationError("must be a file: its part of the form needs a filename")


class Variants(Declared[dict[str, Any]]):
    """An object whose member `name` chooses its schema from `by`. An object with another word is checked as `of`.

    `by` is a function, because schemas may contain themselves.

    All schemas are subclasses of `of`. Guards see a member of one variant in each variant, because an upstream may ignore
    the word; a variant that defines `texts` has its own members. `choose` is for objects whose word alone does not say
    which schema is theirs: it returns the key in `by`.
    """

    def __init__(
        self,
        of: type[Schema],
        by: Callable[[], Mapping[Any, type[Schema]]],
        *,
        name: str = "type",
        choose: Callable[[Mapping[str, Any]], Any] | None = None,
        **rest: Any,
    ) -> None:
        super().__init__(**rest)
        self.of, self.member, self._get_by, self.choose = of, name, by, choose

    @property
    def by(self) -> Mapping[Any, type[Schema]]:
        """The schemas by the word in the member `name`; None stands for an object without it."""
        return self._get_by()

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **rest: Any) -> Any:
        if not isinstance(value, dict):
            raise ValidationError(f"must be an object, not {describe_type(value)}")
        word = value.get(self.member) if self.choose is None else self.choose(value)
        known = word is None or isinstance(word, str)
        raise_faults(get_schema(self.by.get(word, self.of) if known else self.of), value)
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


@cache
def get_schema(kind: type[Schema]) -> Schema:
    """Return the instance of a schema that all fields share."""
    return kind()


def raise_faults(schema: Schema, body: Mapping[str, Any]) -> None:
    """Raise ValidationError for the first invalid member of `body`, in the order of the schema.

    The InvalidField of a FunctionField comes before errors of other fields, as with marshmallow's own `validate`.
    Takes one pass: an invalid body costs no more if its fault is deep. A schema with hooks of marshmallow is validated by it.
    """
    if not getattr(schema, "by_fields_alone", False):
        if errors := schema.validate(body):
            raise ValidationError(dict(errors))
        return
    for rule in getattr(schema, "object_rules", ()):
        rule(body)
    fault: ValidationError | None = None
    for name, declared in schema.load_fields.items():
        if fault is None or isinstance(declared, FunctionField):
            try:
                declared.deserialize(body.get(name, missing), name, body)
            except ValidationError as error:
                fault = fault or ValidationError({name: error.messages})
    if fault is not None:
        raise fault
