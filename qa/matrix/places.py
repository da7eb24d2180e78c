"""The places of the rows, and the members of the vendors' SDK types: tests compare the two."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from qa.matrix.media import MEDIA_WAYS
from qa.matrix.ways import WAYS, Way


def way(name: str) -> Way:
    return next(way for way in (*WAYS, *MEDIA_WAYS) if way.name == name)


def places(name: str) -> set[str]:
    """The places of all rows of a way, and the places inside their values."""
    rows = [row for group in way(name).groups for row in group.fields]
    return {path for row in rows for path in (*_above(row.place), *_inside(row.place, row.value))}


def _above(place: str) -> Iterator[str]:
    steps = place.split(".")
    yield from (".".join(steps[: length + 1]) for length in range(len(steps)))


def _inside(place: str, value: Any) -> Iterator[str]:
    yield place
    if isinstance(value, Mapping):
        for name, member in value.items():
            yield from _inside(f"{place}.{name}", member)
    elif isinstance(value, list):
        for member in value:
            yield from _inside(f"{place}[]", member)


def members(name: str, prefix: str = "") -> set[str]:
    """The tested members directly below `prefix`. In a form they are written ``svg[model]``."""
    below = [path.removeprefix(prefix) for path in places(name) if path.startswith(prefix)]
    return {path.split(".")[0].split("[")[0] for path in below}


def said(*types: Any) -> set[str]:
    """The member names of TypedDicts."""
    return {name for kind in types for name in kind.__annotations__}


def aliases(model: Any) -> set[str]:
    """The members of a google-genai model, by their names on the wire."""
    return {member.alias or name for name, member in model.model_fields.items()}
