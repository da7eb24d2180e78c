"""Read a JSON schema: its well-formed keywords, its references, and the alternatives that it allows.

Callers write the schemas: a keyword whose value has the wrong type is ignored, a reference that cannot be resolved
allows any value, and every traversal spends steps of one `StepBudget`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from urllib.parse import unquote

from tornado_gate.types.value import Value
from tornado_gate_local.json_merge import merge_keywords
from tornado_gate_local.json_values import Json, Keywords, Schema, make_key

MAX_ALTERNATIVE_DEPTH = 8  # references and compositions for one value
MAX_GROUPS = 24  # parts of an allOf that are merged; each is a level of recursion
MAX_BRANCHES = 100  # of one anyOf or oneOf that are tried
MEMBERS_PER_STEP = 100  # members of keywords that are copied in the time of a step
DEEP_LEVEL = 4  # from this nesting on, optional properties are left out
MAX_DEPTH = 24


class StepBudget:
    """The steps that are left for one request. A step takes about ten microseconds."""

    def __init__(self, steps: int = 2_500) -> None:
        self.steps = steps

    def spend(self, steps: int = 1) -> bool:
        """Subtract `steps`; False when the budget is used up."""
        self.steps -= steps
        return self.steps >= 0


class SchemaPlace(Value, frozen=True, kw_only=True):
    """The position in the generated value: property name, depth, and the references that contain it.

    `variant` selects another value than the first candidate.
    """

    name: str = ""
    depth: int = 0
    inside: frozenset[str] = frozenset()
    variant: int = 0


class FlatSchema(Value, frozen=True):
    """One alternative of a schema: keywords without composition, and the references that led to it."""

    keywords: Keywords
    references: frozenset[str] = frozenset()


def _is_number(value: Json) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _is_length(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_schema(value: Json) -> bool:
    return isinstance(value, (bool, Mapping))


def _is_schemas(value: Json) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_schema, value))


def _is_names(value: Json) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_types(value: Json) -> bool:
    return isinstance(value, str) or (_is_names(value) and bool(value))


def _is_properties(value: Json) -> bool:
    return isinstance(value, Mapping) and all(map(_is_schema, value.values()))


_WELL_FORMED: dict[str, Callable[[Json], bool]] = {
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _is_number),
    "multipleOf": lambda value: _is_number(value) and value > 0,
    **dict.fromkeys(
        ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains"), _is_length
    ),
    **dict.fromkeys(
        ("items", "contains", "additionalProperties", "propertyNames", "not", "if", "then", "else"), _is_schema
    ),
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), _is_schemas),
    **dict.fromkeys(("properties", "patternProperties"), _is_properties),
    **dict.fromkeys(("pattern", "format", "$ref"), lambda value: isinstance(value, str)),
    "required": _is_names,
    "type": _is_types,
    "enum": lambda value: isinstance(value, list) and bool(value),
    "examples": lambda value: isinstance(value, list),
    "uniqueItems": lambda value: isinstance(value, bool),
}


def read_keywords(schema: Mapping[str, Json]) -> Keywords:
    """The well-formed keywords of a schema; `type` is always a list of lower-case names."""
    keywords = {key: value for key, value in schema.items() if key not in _WELL_FORMED or _WELL_FORMED[key](value)}
    if "type" in keywords:
        types = [keywords["type"]] if isinstance(keywords["type"], str) else keywords["type"]
        keywords["type"] = [name.lower() for name in types]
    return keywords


_KINDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("object", ("properties", "required", "additionalProperties", "minProperties", "patternProperties")),
    ("array", ("items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains")),
    ("string", ("pattern", "minLength", "maxLength", "format")),
    ("number", ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")),
)


def list_types(words: Keywords) -> list[str]:
    """The JSON types that a value may have, null last; inferred from the other keywords when `type` is missing."""
    types = words.get("type")
    if types is None:
        types = [kind for kind, hints in _KINDS if any(hint in words for hint in hints)] or ["string"]
    return sorted(types, key=lambda kind: kind == "null")


class SchemaDocument:
    """A whole schema, in which local references are resolved."""

    def __init__(self, root: Schema, budget: StepBudget) -> None:
        self.root = root
        self.budget = budget
        self._read: dict[int, tuple[Schema, Keywords]] = {}  # keeps the schema alive, so that its id is not reused
        self._enum_keys: dict[int, frozenset[Hashable]] = {}

    def get_keywords(self, schema: Mapping[str, Json]) -> Keywords:
        """The result of `read_keywords`, computed once for each schema."""
        known = self._read.get(id(schema))
        if known is None:
            known = self._read[id(schema)] = (schema, read_keywords(schema))
        return known[1]

    def get_enum_keys(self, words: Keywords) -> frozenset[Hashable]:
        """The keys of the values in the `enum` of keywords from `get_keywords`, computed once."""
        known = self._enum_keys.get(id(words))
        if known is None:
            known = self._enum_keys[id(words)] = frozenset(map(make_key, words["enum"]))
        return known

    def find_target(self, reference: str) -> Schema:
        """The schema that a local reference points to; True, which allows any value, when it cannot be resolved."""
        if not reference.startswith("#"):
            return True
        target: Json = self.root
        for step in unquote(reference[1:]).split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(target, Mapping) and name in target:
                target = target[name]
            elif isinstance(target, list) and name.isdecimal() and int(name[:6]) < len(target):
                target = target[int(name)]
            else:
                return True
        return target

    def is_recursive(self, schema: Schema, inside: frozenset[str], depth: int = 0) -> bool:
        """Whether every alternative of `schema` leads back to one of the references in `inside`."""
        if not isinstance(schema, Mapping) or depth > MAX_ALTERNATIVE_DEPTH or not self.budget.spend():
            return False
        words = self.get_keywords(schema)
        if words.get("$ref") in inside:
            return True
        if any(self.is_recursive(part, inside, depth + 1) for part in words.get("allOf", ())):
            return True
        groups = [words[key] for key in ("anyOf", "oneOf") if key in words]
        return any(all(self.is_recursive(branch, inside, depth + 1) for branch in group) for group in groups)

    def iterate_flat(self, schema: Schema, place: SchemaPlace, depth: int = 0) -> Iterator[FlatSchema]:
        """The alternatives of `schema`, the best one first; none when no value can be valid."""
        if schema is False:
            return
        if not isinstance(schema, Mapping) or depth > MAX_ALTERNATIVE_DEPTH or not self.budget.spend():
            yield FlatSchema({})
            return
        words = self.get_keywords(schema)
        reference = words.get("$ref")
        groups: list[Sequence[Schema]] = [[self.find_target(reference)]] if reference is not None else []
        groups += [[part] for part in words.get("allOf", ())]
        groups += [self._order_branches(words[key], place) for key in ("anyOf", "oneOf") if key in words]
        if "if" in words:
            groups.append([{"allOf": [words["if"], words.get("then", True)]}, words.get("else", True)])
        own = FlatSchema(
            {key: value for key, value in words.items() if key not in _COMPOSITION},
            frozenset() if reference is None else frozenset({reference}),
        )
        yield from self._combine_groups(own, groups[:MAX_GROUPS], place, depth)

    def _combine_groups(
        self, so_far: FlatSchema, groups: Sequence[Sequence[Schema]], place: SchemaPlace, depth: int
    ) -> Iterator[FlatSchema]:
        if not groups:
            yield so_far
            return
        for branch in groups[0]:
            for flat in self.iterate_flat(branch, place, depth + 1):
                steps = 1 + (_count_members(so_far.keywords) + _count_members(flat.keywords)) // MEMBERS_PER_STEP
                joined = merge_keywords(so_far.keywords, flat.keywords) if self.budget.spend(steps) else so_far.keywords
                if joined is not None:
                    both = FlatSchema(joined, so_far.references | flat.references)
                    yield from self._combine_groups(both, groups[1:], place, depth)

    def _order_branches(self, branches: Sequence[Schema], place: SchemaPlace) -> list[Schema]:
        """Branches in order of preference: real values, then null (null first from `DEEP_LEVEL` on), then recursive ones."""

        def rank(branch: Schema) -> int:
            if self.is_recursive(branch, place.inside):
                return 3
            empty = isinstance(branch, Mapping) and branch.get("type") == "null"
            if place.depth >= DEEP_LEVEL:
                simple = isinstance(branch, Mapping) and branch.get("type") in _SCALARS
                return 0 if empty or simple else 1
            return 2 if empty else 0

        return sorted(branches[:MAX_BRANCHES], key=rank)


def _count_members(words: Keywords) -> int:
    """The number of members in keywords, of which a merge makes copies."""
    return len(words) + sum(len(value) for value in words.values() if isinstance(value, list | dict))


_COMPOSITION = frozenset({"$ref", "allOf", "anyOf", "oneOf", "if", "then", "else", "$defs", "definitions"})
_SCALARS = ("string", "number", "integer", "boolean", "null")
