"""Measure how many async iterators are nested in a stream."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Iterator
from typing import Any

from tornado_gate.types import UpstreamResponse


def nested(items: AsyncIterator[Any]) -> list[str]:
    """The type names of `items` and of the iterators that it reads from, outermost first; the longest chain if there are several.

    Searches the places where an async iterator keeps its source: its attributes, the object of a bound method, the
    frame of a generator and the closure of a function.
    """
    return _nested(items, set())


def _nested(items: Any, seen: set[int]) -> list[str]:
    seen.add(id(items))
    ways = [_nested(one, seen) for member in _members(items) for one in _iterators(member) if id(one) not in seen]
    return [getattr(items, "__qualname__", type(items).__name__), *max(ways, key=len, default=[])]


def _members(items: Any) -> Iterator[Any]:
    if inspect.isasyncgen(items):
        yield from (items.ag_frame.f_locals.values() if items.ag_frame is not None else ())
        return
    for kind in type(items).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            yield getattr(items, name, None)
    yield from getattr(items, "__dict__", {}).values()


def _iterators(member: Any) -> Iterator[Any]:
    """The async iterators that `member` is, or reaches without another object between them."""
    if hasattr(member, "__anext__"):
        yield member
    elif isinstance(member, UpstreamResponse):
        yield member.chunks
    elif inspect.ismethod(member):
        yield from _iterators(member.__self__)
    elif inspect.isfunction(member):
        for cell in member.__closure__ or ():
            yield from _iterators(cell.cell_contents)
