"""Merge two sets of schema keywords: for `allOf`, and for keywords beside a `$ref`. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from tornado_gate_local.json_values import Json, Keywords, Schema, is_same, make_key

_NEVER = object()


def merge_keywords(ours: Keywords, theirs: Keywords) -> Keywords | None:
    """Keywords that require both sets; None when no value can be valid. Of two patterns only ours is kept."""
    result = dict(ours)
    for key, value in theirs.items():
        if key not in result:
            result[key] = value
            continue
        joined = _merge_keyword(key, result[key], value)
        if joined is _NEVER:
            return None
        result[key] = joined
    return result


def _merge_keyword(key: str, ours: Json, theirs: Json) -> Json:
    """The merged value of one keyword; `_NEVER` when no value can be valid. Without a rule for the keyword ours is kept."""
    return _JOIN[key](ours, theirs) if key in _JOIN else ours


def _merge_schemas(ours: Schema, theirs: Schema) -> Schema:
    return {"allOf": [ours, theirs]}


def _intersect_types(ours: list[str], theirs: list[str]) -> Json:
    """The types that both lists allow; number and integer have the integers in common."""
    allowed = set(theirs)
    common = [kind for kind in ours if kind in allowed]
    for one, other in ((ours, theirs), (theirs, ours)):
        if "integer" in one and "number" in other and not {"integer", "number"} & set(common):
            common.append("integer")
    return common or _NEVER


def _intersect_values(ours: list[Json], theirs: list[Json]) -> Json:
    keys = set(map(make_key, theirs))
    return [value for value in ours if make_key(value) in keys] or _NEVER


def _unite_names(ours: list[str], theirs: list[str]) -> list[str]:
    return list(dict.fromkeys([*ours, *theirs]))


def _unite_properties(ours: Mapping[str, Schema], theirs: Mapping[str, Schema]) -> dict[str, Schema]:
    shared = {name: _merge_schemas(ours[name], theirs[name]) for name in ours if name in theirs}
    return {**ours, **theirs, **shared}


def _merge_items(ours: list[Schema], theirs: list[Schema]) -> list[Schema]:
    shared = [_merge_schemas(one, other) for one, other in zip(ours, theirs, strict=False)]
    return [*shared, *ours[len(theirs) :], *theirs[len(ours) :]]


def _compute_common_multiple(ours: float, theirs: float) -> float:
    return math.lcm(ours, theirs) if isinstance(ours, int) and isinstance(theirs, int) else ours


_JOIN: dict[str, Callable[[Json, Json], Json]] = {
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "minContains"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
    **dict.fromkeys(("items", "contains", "additionalProperties", "propertyNames"), _merge_schemas),
    **dict.fromkeys(("properties", "patternProperties"), _unite_properties),
    "type": _intersect_types,
    "enum": _intersect_values,
    "const": lambda ours, theirs: ours if is_same(ours, theirs) else _NEVER,
    "required": _unite_names,
    "prefixItems": _merge_items,
    "multipleOf": _compute_common_multiple,
    "uniqueItems": lambda ours, theirs: ours or theirs,
    "not": lambda ours, theirs: {"anyOf": [ours, theirs]},
}
