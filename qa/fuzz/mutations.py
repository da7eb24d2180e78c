"""JSON values that are nearly right: a valid one in which a few places hold something else, or nothing."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

NASTY = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**30, 0.5, -0.0, 1e308, "", " ", "0", "1e5", "null", "\0", "\n",
    "\u2028", "é" * 3, "\U0001f600", "a" * 300, "../..", "data:,", "data:image/png;base64,", "http://127.0.0.1:1/x", "*",
    "{}", [], [[]], [None], {}, {"": None}, {"type": None}, {"type": "text"}, {"type": "text", "text": None}, [{}], ["a", 1],
)  # fmt: skip
JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**40), 2**70),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=6),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
VALUES = st.one_of(st.sampled_from(NASTY), JSON)


def list_places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values inside a JSON value, outermost first."""
    items: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for name, inner in items for place in ((*path, name), *list_places(inner, (*path, name)))]


@st.composite
def mutate(draw: st.DrawFn, value: Any) -> Any:
    """`value` with one to three changes: a place is replaced, removed, doubled, renamed, or exchanged with another."""
    changed = copy.deepcopy(value)
    for _ in range(draw(st.integers(1, 3))):
        places = list_places(changed)
        if not places:
            return copy.deepcopy(draw(VALUES))
        _change(draw, changed, draw(st.sampled_from(places)), places)
    return changed


def _change(draw: st.DrawFn, value: Any, place: tuple[Any, ...], places: list[tuple[Any, ...]]) -> None:
    *path, last = place
    holder = find(value, path)
    match draw(st.sampled_from(["replace", "replace", "remove", "double", "rename", "exchange"])):
        case "remove":
            del holder[last]
        case "double" if isinstance(holder, list):
            holder.insert(last, copy.deepcopy(holder[last]))
        case "rename" if isinstance(holder, dict):
            holder[draw(st.text(max_size=4))] = holder.pop(last)
        case "exchange":
            holder[last] = copy.deepcopy(find(value, draw(st.sampled_from(places))))
        case _:
            holder[last] = copy.deepcopy(draw(VALUES))


def find(value: Any, path: Any) -> Any:
    for name in path:
        value = value[name]
    return value
