"""Globs of conf, in which only ``*`` is special: it matches any text, including an empty one. Used for names of models
and keys.

Names of models are compared in their canonical form (`types/model_names.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from tornado_gate.types.model_names import MAX_CACHED_NAMES, canonicalize_glob, canonicalize_name, fold_name


def matches_glob(pattern: str, name: str) -> bool:
    """Return whether a glob matches the whole `name`. Takes linear time for every input."""
    first, *rest = pattern.split("*")
    if not rest:
        return name == pattern
    last = rest.pop()
    if len(name) < len(first) + len(last) or not name.startswith(first) or not name.endswith(last):
        return False
    position, end = len(first), len(name) - len(last)
    for piece in rest:
        position = name.find(piece, position, end)
        if position < 0:
            return False
        position += len(piece)
    return True


def matches_any(patterns: Iterable[str], name: str) -> bool:
    """Return whether one of the globs matches the whole `name`."""
    return any(matches_glob(pattern, name) for pattern in patterns)


@lru_cache(MAX_CACHED_NAMES)
def matches_model(globs: tuple[str, ...], model: str) -> bool:
    """Return whether one of the globs matches the name of a model, in any spelling."""
    canonical, folded = canonicalize_name(model), fold_name(model)
    return any(
        matches_glob(canonicalize_glob(glob), canonical) or matches_glob(fold_name(glob), folded) for glob in globs
    )


def globs_overlap(first: str, second: str) -> bool:
    """Return whether a model's name exists that both globs match."""
    first, second = canonicalize_glob(first), canonicalize_glob(second)
    if "*" not in second:
        return matches_glob(first, second)
    if "*" not in first:
        return matches_glob(second, first)
    # If the fixed ends agree, both match this name: the longer head, all texts between the stars of both globs, the longer
    # tail.
    heads = sorted((first.partition("*")[0], second.partition("*")[0]), key=len)
    tails = sorted((first.rpartition("*")[2], second.rpartition("*")[2]), key=len)
    return heads[1].startswith(heads[0]) and tails[1].endswith(tails[0])


def covers_glob(outer: str, inner: str) -> bool:
    """Return whether `outer` matches every model's name that `inner` matches: only a ``*`` of `outer` can match one of
    `inner`.
    """
    return matches_glob(canonicalize_glob(outer), canonicalize_glob(inner))


def intersect_globs(some: Iterable[str], others: Iterable[str]) -> tuple[str, ...]:
    """Return globs for the names that both lists match, as far as one of two globs covers the other. An empty list
    matches all names.

    Two globs that overlap otherwise, such as ``a*`` and ``*b``, contribute no names. If no glob is left, the result is
    one glob that matches no name.
    """
    some, others = tuple(some), tuple(others)
    if not some or not others:
        return some or others
    common = [glob for glob in some if any(covers_glob(other, glob) for other in others)]
    common += [other for other in others if any(covers_glob(glob, other) for glob in some)]
    return tuple(dict.fromkeys(common)) or ("",)
