"""Check a value with the part of JSON Schema 2020-12 that selects between candidates; formats are not checked.

Checks that exceed the step budget, and patterns that RE2 does not support, count as valid.

`jsonschema` verifies this checker in the tests but does not replace it, because callers write the schemas: it
searches patterns with a backtracking engine, follows a `$schema` of any part to another dialect, raises for a keyword
of a wrong type and for ``"type": "STRING"``, formats a message for each failed check (10 ms for an enum of 2 MB), and
its work cannot be limited by a `StepBudget`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tornado_gate_local.json_schema import MAX_DEPTH, SchemaDocument, StepBudget
from tornado_gate_local.json_values import Json, Keywords, Schema, is_same, make_key


class SchemaChecker:
    def __init__(self, document: SchemaDocument) -> None:
        self.document = document
        self.budget = document.budget

    def is_valid(self, value: Json, schema: Schema, depth: int = 0) -> bool:
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, Mapping) or depth > 2 * MAX_DEPTH or not self.budget.spend():
            return True
        words = self.document.get_keywords(schema)
        return (
            self._is_listed(value, words)
            and _matches_type_word(value, words)
            and self._matches_type(value, words, depth)
            and self._matches_composition(value, words, depth)
        )

    def _is_listed(self, value: Json, words: Keywords) -> bool:
        if "const" in words and not is_same(value, words["const"]):
            return False
        return "enum" not in words or make_key(value) in self.document.get_enum_keys(words)

    def _matches_type(self, value: Json, words: Keywords, depth: int) -> bool:
        if isinstance(value, str):
            return self._string_fits(value, words)
        if isinstance(value, Mapping):
            return self._object_fits(value, words, depth)
        if isinstance(value, list):
            return self._array_fits(value, words, depth)
        return isinstance(value, bool) or value is None or number_fits(value, words)

    def _matches_composition(self, value: Json, words: Keywords, depth: int) -> bool:
        def meets(schema: Schema) -> bool:
            return self.is_valid(value, schema, depth + 1)

        return (
            ("$ref" not in words or meets(self.document.find_target(words["$ref"])))
            and all(map(meets, words.get("allOf", ())))
            and ("anyOf" not in words or any(map(meets, words["anyOf"])))
            and ("oneOf" not in words or sum(map(meets, words["oneOf"])) == 1)
            and ("not" not in words or not meets(words["not"]))
            and ("if" not in words or meets(words.get("then" if meets(words["if"]) else "else", True)))
        )

    def _string_fits(self, value: str, words: Keywords) -> bool:
        if not words.get("minLength", 0) <= len(value) <= words.get("maxLength", math.inf):
            return False
        return "pattern" not in words or _matches(words["pattern"], value, self.budget, unsupported=True)

    def _object_fits(self, value: Mapping[str, Json], words: Keywords, depth: int) -> bool:
        if not words.get("minProperties", 0) <= len(value) <= words.get("maxProperties", math.inf):
            return False
        if any(name not in value for name in words.get("required", ())):
            return False
        names = words.get("propertyNames", True)
        return all(
            self.is_valid(name, names, depth + 1)
            and all(
                self.is_valid(item, schema, depth + 1) for schema in list_property_schemas(name, words, self.budget)
            )
            for name, item in value.items()
        )

    def _array_fits(self, value: list[Json], words: Keywords, depth: int) -> bool:
        if not words.get("minItems", 0) <= len(value) <= words.get("maxItems", math.inf):
            return False
        prefix = words.get("prefixItems", [])
        rest = words.get("items", True)
        for index, item in enumerate(value):
            if not self.is_valid(item, prefix[index] if index < len(prefix) else rest, depth + 1):
                return False
        if "contains" in words:
            count = sum(self.is_valid(item, words["contains"], depth + 1) for item in value)
            if count < words.get("minContains", 1):
                return False
        return not words.get("uniqueItems") or has_distinct_items(value)


def list_property_schemas(name: str, words: Keywords, budget: StepBudget) -> list[Schema]:
    """All schemas for which the property `name` of an object must be valid."""
    schemas = [words["properties"][name]] if name in words.get("properties", {}) else []
    patterned = words.get("patternProperties", {})
    schemas += [schema for key, schema in patterned.items() if _matches(key, name, budget, unsupported=False)]
    return schemas or [words.get("additionalProperties", True)]


def has_distinct_items(values: list[Json]) -> bool:
    return len(set(map(make_key, values))) == len(values)


def number_fits(value: float, words: Keywords) -> bool:
    if not words.get("minimum", -math.inf) <= value <= words.get("maximum", math.inf):
        return False
    if not words.get("exclusiveMinimum", -math.inf) < value < words.get("exclusiveMaximum", math.inf):
        return False
    step = words.get("multipleOf")
    return step is None or _is_multiple(value, step)


def _is_multiple(value: float, step: float) -> bool:
    if isinstance(value, int) and isinstance(step, int):
        return value % step == 0
    try:
        return (value / step).is_integer()
    except OverflowError:
        return False


def _matches(expression: str, text: str, budget: StepBudget, *, unsupported: bool) -> bool:
    """Whether the text matches; returns `unsupported` for an unsupported pattern and when the budget is used up."""
    from tornado_gate_local import pattern

    try:
        return pattern.matches(expression, text, budget.spend) if budget.spend() else unsupported
    except pattern.UnsupportedPattern:
        return unsupported


def _matches_type_word(value: Json, words: Keywords) -> bool:
    return "type" not in words or any(_is_of_type(value, kind) for kind in words["type"])


_PYTHON_TYPES: dict[str, type | tuple[type, ...]] = {
    "null": type(None),
    "boolean": bool,
    "integer": (int, float),
    "number": (int, float),
    "string": str,
    "array": list,
    "object": Mapping,
}


def _is_of_type(value: Json, kind: str) -> bool:
    """JSON types: true is not a number, 1.0 is an integer; any value is of an unknown type."""
    if isinstance(value, bool):
        return kind == "boolean" or kind not in _PYTHON_TYPES
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _PYTHON_TYPES.get(kind, object))
