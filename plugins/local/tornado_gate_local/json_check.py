"""Does a value meet a schema? Enough of JSON Schema 2020-12 to choose between candidates; formats are not checked.

What cannot be decided within the budget, and patterns that our engine does not know, count as met.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tornado_gate_local import pattern
from tornado_gate_local.json_schema import DEEPEST, Document, Json, Keywords, Schema, same


class Checker:
    def __init__(self, document: Document) -> None:
        self.document = document
        self.budget = document.budget

    def valid(self, value: Json, schema: Schema, depth: int = 0) -> bool:
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, Mapping) or depth > 2 * DEEPEST or not self.budget.spend():
            return True
        words = self.document.keywords(schema)
        return (
            _listed(value, words)
            and _typed(value, words)
            and self._shaped(value, words, depth)
            and self._composed(value, words, depth)
        )

    def _shaped(self, value: Json, words: Keywords, depth: int) -> bool:
        if isinstance(value, str):
            self.budget.spend(1 + len(value) // 20 if "pattern" in words else 0)
            return _string_fits(value, words)
        if isinstance(value, Mapping):
            return self._object_fits(value, words, depth)
        if isinstance(value, list):
            return self._array_fits(value, words, depth)
        return isinstance(value, bool) or value is None or number_fits(value, words)

    def _composed(self, value: Json, words: Keywords, depth: int) -> bool:
        def meets(schema: Schema) -> bool:
            return self.valid(value, schema, depth + 1)

        if "$ref" in words and not meets(self.document.target(words["$ref"])):
            return False
        if not all(map(meets, words.get("allOf", ()))):
            return False
        if "anyOf" in words and not any(map(meets, words["anyOf"])):
            return False
        if "oneOf" in words and sum(map(meets, words["oneOf"])) != 1:
            return False
        if "not" in words and meets(words["not"]):
            return False
        if "if" not in words:
            return True
        return meets(words.get("then", True) if meets(words["if"]) else words.get("else", True))

    def _object_fits(self, value: Mapping[str, Json], words: Keywords, depth: int) -> bool:
        if not words.get("minProperties", 0) <= len(value) <= words.get("maxProperties", math.inf):
            return False
        if any(name not in value for name in words.get("required", ())):
            return False
        names = words.get("propertyNames", True)
        return all(
            self.valid(name, names, depth + 1)
            and all(self.valid(item, schema, depth + 1) for schema in property_schemas(name, words))
            for name, item in value.items()
        )

    def _array_fits(self, value: list[Json], words: Keywords, depth: int) -> bool:
        if not words.get("minItems", 0) <= len(value) <= words.get("maxItems", math.inf):
            return False
        prefix = words.get("prefixItems", [])
        rest = words.get("items", True)
        for index, item in enumerate(value):
            if not self.valid(item, prefix[index] if index < len(prefix) else rest, depth + 1):
                return False
        if "contains" in words:
            found = sum(self.valid(item, words["contains"], depth + 1) for item in value)
            if found < words.get("minContains", 1):
                return False
        return not words.get("uniqueItems") or distinct(value)


def property_schemas(name: str, words: Keywords) -> list[Schema]:
    """All schemas that the property `name` of an object must meet."""
    found = [words["properties"][name]] if name in words.get("properties", {}) else []
    found += [schema for key, schema in words.get("patternProperties", {}).items() if _matches(key, name, unknown=False)]
    return found or [words.get("additionalProperties", True)]


def distinct(values: list[Json]) -> bool:
    return not any(same(value, other) for index, value in enumerate(values) for other in values[:index])


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


def _string_fits(value: str, words: Keywords) -> bool:
    if not words.get("minLength", 0) <= len(value) <= words.get("maxLength", math.inf):
        return False
    return "pattern" not in words or _matches(words["pattern"], value, unknown=True)


def _matches(expression: str, value: str, unknown: bool) -> bool:
    try:
        return pattern.matches(expression, value)
    except pattern.Unsupported:
        return unknown


def _listed(value: Json, words: Keywords) -> bool:
    if "const" in words and not same(value, words["const"]):
        return False
    return "enum" not in words or any(same(value, each) for each in words["enum"])


def _typed(value: Json, words: Keywords) -> bool:
    return "type" not in words or any(_is_of_type(value, kind) for kind in words["type"])


def _is_of_type(value: Json, kind: str) -> bool:
    match kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return not isinstance(value, bool) and (isinstance(value, int) or (isinstance(value, float) and value.is_integer()))
        case "number":
            return isinstance(value, (int, float)) and not isinstance(value, bool)
        case "string":
            return isinstance(value, str)
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, Mapping)
        case _:
            return True
