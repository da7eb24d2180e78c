"""Generate a value for a JSON schema: valid, deterministic, and with words and numbers of a text in it.

Supports local ``$ref``, ``allOf anyOf oneOf not if/then/else``, ``const enum default examples``, types and their
bounds. Does not support ``$anchor``, ``$dynamicRef``, ``unevaluated*``, ``dependent*``. Candidates are generated and
checked, the best one first; when none is valid within the step budget, the first candidate is returned. Strings and
arrays are limited, so a `minLength` of a million is not satisfied. docs/contributing/decisions/0009-own-values-for-schemas.md has
the libraries that were tried instead.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Literal

from tornado_gate.types.value import replace
from tornado_gate_local.hints import TextHints, iterate_strings
from tornado_gate_local.json_check import SchemaChecker, has_distinct_items, list_property_schemas
from tornado_gate_local.json_schema import (
    DEEP_LEVEL,
    MAX_DEPTH,
    FlatSchema,
    SchemaDocument,
    SchemaPlace,
    StepBudget,
    list_types,
)
from tornado_gate_local.json_values import Json, Keywords, Schema, make_key

MAX_ITEMS = 100
MAX_CHOICES = 1_000  # members of an enum that are tried
MAX_ALTERNATIVES = 12
MAX_VARIANTS = 3

FillPolicy = Literal["all", "mentioned"]


def fill(schema: Schema, text: str, *, optional: FillPolicy = "all", budget: StepBudget | None = None) -> Json:
    """A JSON value for `schema`, with words and numbers of `text`.

    Optional properties are filled always ("all"), or only when the text mentions them ("mentioned").
    """
    filler = _SchemaFiller(schema, TextHints(text), budget or StepBudget(), optional)
    value, _ = filler.find_value(schema, SchemaPlace(inside=frozenset({"#"})))
    return value


class _SchemaFiller:
    def __init__(self, root: Schema, hints: TextHints, budget: StepBudget, optional: FillPolicy) -> None:
        self.document = SchemaDocument(root, budget)
        self.checker = SchemaChecker(self.document)
        self.hints = hints
        self.budget = budget
        self.optional = optional
        self.unused = list(hints.numbers)  # each number is used once, so that "add 3 and 5" fills a and b

    def find_value(self, schema: Schema, place: SchemaPlace) -> tuple[Json, bool]:
        """A value, and whether it is valid."""
        nearest: list[Json] = []
        if place.depth > MAX_DEPTH or not self.budget.spend():
            return _make_smallest(schema), False
        for flat in islice(self.document.iterate_flat(schema, place), MAX_ALTERNATIVES):
            for variant in range(place.variant, place.variant + MAX_VARIANTS):
                for candidate in islice(self.iterate_candidates(flat, replace(place, variant=variant)), MAX_CHOICES):
                    if self.checker.is_valid(candidate, schema):
                        self._use(candidate)
                        return candidate, True
                    nearest = nearest or [candidate]
                    if self.budget.steps < 0:
                        return nearest[0], False
        return (nearest[0] if nearest else _make_smallest(schema)), False

    def _use(self, value: Json) -> None:
        if isinstance(value, (int, float)) and not isinstance(value, bool) and value in self.unused:
            self.unused.remove(value)

    def iterate_candidates(self, flat: FlatSchema, place: SchemaPlace) -> Iterator[Json]:
        words = flat.keywords
        if "const" in words:
            yield words["const"]
        elif "enum" in words:
            yield from self._iterate_listed(words["enum"], place.variant)
        else:
            if place.variant == 0 and "default" in words:
                yield words["default"]
            if place.variant < len(words.get("examples", ())):
                yield words["examples"][place.variant]
            inner = replace(place, inside=place.inside | flat.references)
            for kind in list_types(words):
                yield from self._iterate_of_type(kind, words, inner)

    def _iterate_listed(self, values: list[Json], variant: int) -> Iterator[Json]:
        values = values[:MAX_CHOICES]
        self.budget.spend(len(values) // 20)
        mentioned = [value for value in values if self.hints.mentions_value(value)]
        keys = set(map(make_key, mentioned))
        ordered = mentioned + [value for value in values if make_key(value) not in keys] if mentioned else values
        turn = variant % len(ordered)
        yield from ordered[turn:]
        yield from ordered[:turn]

    def _iterate_of_type(self, kind: str, words: Keywords, place: SchemaPlace) -> Iterator[Json]:
        match kind:
            case "object":
                yield self._make_object(words, place)
            case "array":
                yield self._make_array(words, place)
            case "integer" | "number":
                yield from self._iterate_numbers(words, kind == "integer", place)
            case "boolean":
                yield self.hints.has_yes() == (place.variant % 2 == 0)
            case "null":
                yield None
            case _:
                yield from iterate_strings(words, self.hints, place, self.budget)

    def _make_object(self, words: Keywords, place: SchemaPlace) -> dict[str, Json]:
        required = words.get("required", [])
        least, most = words.get("minProperties", 0), words.get("maxProperties", math.inf)
        properties: Mapping[str, Schema] = words.get("properties", {})
        result: dict[str, Json] = {}
        missing = set(required)
        for name in dict.fromkeys([*properties, *required]):
            if self.budget.steps < 0:
                break
            needed = name in missing
            room = len(result) + len(missing) < most or needed
            if not needed and not (room and self._is_wanted(name, words, place, len(result) + len(missing) < least)):
                continue
            missing.discard(name)
            value, valid = self._make_member(name, words, place)
            if needed or valid:
                result[name] = value
        self._pad_object(result, words, place)
        return result

    def _make_member(self, name: str, words: Keywords, place: SchemaPlace) -> tuple[Json, bool]:
        schemas = list_property_schemas(name, words, self.budget)
        schema = schemas[0] if len(schemas) == 1 else {"allOf": schemas}
        return self.find_value(schema, replace(place, name=name, depth=place.depth + 1))

    def _is_wanted(self, name: str, words: Keywords, place: SchemaPlace, short: bool) -> bool:
        """Whether to fill an optional property; `short` is true when the object needs more members."""
        schema = words["properties"][name]
        if short:
            return True
        if place.depth >= DEEP_LEVEL or self.document.is_recursive(schema, place.inside):
            return False
        if self.optional == "all" or self.hints.mentions_property(name):
            return True
        choices = schema.get("enum") if isinstance(schema, Mapping) else None
        return isinstance(choices, list) and any(map(self.hints.mentions_value, choices[:MAX_CHOICES]))

    def _pad_object(self, result: dict[str, Json], words: Keywords, place: SchemaPlace) -> None:
        """Add generated members until there are `minProperties`."""
        for number in range(min(words.get("minProperties", 0), MAX_ITEMS)):
            if len(result) >= words["minProperties"]:
                return
            names = replace(place, name="", variant=number, depth=place.depth + 1)
            invented = words.get("propertyNames")
            name = f"key{number + 1}" if invented is None else self.find_value(invented, names)[0]
            if isinstance(name, str) and name not in result:
                value, valid = self._make_member(name, words, place)
                if valid:
                    result[name] = value

    def _make_array(self, words: Keywords, place: SchemaPlace) -> list[Json]:
        prefix = words.get("prefixItems", [])
        rest = words.get("items", True)
        least = max(words.get("minItems", 0), 1 if "contains" in words else 0)
        count = min(max(least, self._choose_length(prefix, rest, place)), words.get("maxItems", MAX_ITEMS), MAX_ITEMS)
        result: list[Json] = []
        for index in range(count):
            schema = prefix[index] if index < len(prefix) else rest
            if "contains" in words and index < max(1, words.get("minContains", 1)):
                schema = {"allOf": [schema, words["contains"]]}
            inner = replace(place, depth=place.depth + 1, variant=place.variant + index)
            item, valid = self._make_item(schema, result, inner, words)
            if index >= least and not valid:
                break
            result.append(item)
        return result

    def _choose_length(self, prefix: list[Schema], rest: Schema, place: SchemaPlace) -> int:
        """The number of items when the schema leaves it open."""
        if prefix:
            return len(prefix)
        if place.depth >= DEEP_LEVEL or rest is False or self.document.is_recursive(rest, place.inside):
            return 0
        return 2

    def _make_item(self, schema: Schema, before: list[Json], place: SchemaPlace, words: Keywords) -> tuple[Json, bool]:
        """An item; with `uniqueItems` one that differs from those before it."""
        item = self.find_value(schema, place)
        attempts = len(before) + 5 if words.get("uniqueItems") else 0
        for variant in range(attempts):
            if has_distinct_items([*before, item[0]]):
                return item
            item = self.find_value(schema, replace(place, variant=variant))
        return item if not attempts or has_distinct_items([*before, item[0]]) else (item[0], False)

    def _iterate_numbers(self, words: Keywords, whole: bool, place: SchemaPlace) -> Iterator[int | float]:
        yield from self.unused[place.variant : place.variant + 20]
        low = max(words.get("minimum", -math.inf), words.get("exclusiveMinimum", -math.inf))
        high = min(words.get("maximum", math.inf), words.get("exclusiveMaximum", math.inf))
        step = words.get("multipleOf", 1 if whole else None)
        for guess in _iterate_guesses(low, high, place.variant):
            yield from _snap_to_step(guess, step, whole, place.variant)


def _iterate_guesses(low: float, high: float, variant: int) -> Iterator[float]:
    """Numbers between the bounds, the simplest first."""
    yield variant + 1
    if math.isfinite(low):
        yield low + variant
        yield low + 1 + variant
        yield low + abs(low) + 1
    if math.isfinite(high):
        yield high - variant
        yield high - 1 - variant
        yield high - abs(high) - 1
    if math.isfinite(low) and math.isfinite(high):
        yield low + (high - low) * (variant + 1) / (variant + 2)
    yield 0


def _snap_to_step(guess: float, step: float | None, whole: bool, variant: int) -> Iterator[int | float]:
    """The guess itself, or the nearest multiples of `step`; whole numbers as int."""
    if not math.isfinite(guess):
        return
    if step is None:
        yield guess
        return
    if not math.isfinite(guess / step):
        return
    first = math.ceil(guess / step)
    for factor in (first, first + variant, first - 1, first - 1 - variant, *range(first + 1, first + 12)):
        value = factor * step
        if not whole or value == int(value):
            yield int(value) if whole else value


def _make_smallest(schema: Schema) -> Json:
    """A minimal value of the right type, for when the step budget is used up."""
    if not isinstance(schema, Mapping):
        return None
    for key in ("enum", "examples"):
        if isinstance(schema.get(key), list) and schema[key]:
            return schema[key][0]
    kind = schema.get("type")
    empty: dict[str, Json] = {"string": "", "integer": 0, "number": 0, "boolean": False, "array": [], "object": {}}
    return schema.get("const", empty.get(kind) if isinstance(kind, str) else None)
