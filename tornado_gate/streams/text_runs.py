"""Runs of texts: events that arrive together are nearly all pieces of the same text.

Steps handle a run as a whole, so that no Python code runs for each of its events. Group the events of a batch with
``groupby(events, type)``, unless they are fewer than RUN_LENGTH: then a loop over them is cheaper.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final

import orjson

from tornado_gate.types.events import PartDelta

RUN_LENGTH: Final = 4
"""The minimum number of events that are grouped."""

_get_index: Final = attrgetter("index")
_get_data: Final = attrgetter("data")
_get_logprobs: Final = attrgetter("logprobs")
_TEXT: Final = frozenset({str})
_NONE: Final = frozenset({None})


def find_texts(deltas: Sequence[PartDelta]) -> tuple[Any, list[str]] | None:
    """Return the index and the texts of the deltas of one part, none of which is empty. Return None for any others or none."""
    if not deltas:
        return None
    texts: list[str] = [*map(_get_data, deltas)]
    index = deltas[0].index
    try:
        is_one = {*map(_get_index, deltas)} == {index}
    except TypeError:  # a plugin's index that cannot be a key
        return None
    return (index, texts) if is_one and _TEXT.issuperset(map(type, texts)) and all(texts) else None


def frame_texts(texts: list[str], before: bytes, after: bytes) -> bytes:
    """Return the frames of texts: each is a JSON string between `before` and `after`."""
    return before + (after + before).join(map(orjson.dumps, texts)) + after


def has_logprobs(deltas: Sequence[PartDelta]) -> bool:
    """Return whether a delta has log probabilities."""
    try:
        return not _NONE.issuperset(map(_get_logprobs, deltas))
    except TypeError:  # objects, which cannot be keys
        return True
