"""The canonical form of a model's name, for comparisons. Upstreams receive names as they were written.

Upstreams match names without regard to case. Google's upstreams accept a resource path: ``models/NAME`` and
``publishers/google/models/NAME`` are NAME (source: google-genai 2.9, `_transformers.t_model`). Keys, guards, prices, limits,
circuits and tables of features therefore compare canonical forms, so that no spelling escapes one of them.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import Final

MAX_CACHED_NAMES: Final = 8192
"""Callers choose the names that match a wildcard."""
_COLLECTION: Final = "models"
_RESOURCE_ROOTS: Final = frozenset({_COLLECTION, "publishers", "projects"})
_UNSAFE: Final = frozenset(" %?#\\")
"""Characters that an upstream may remove, decode, or read as the end of the name in an address."""


def fold_name(name: str) -> str:
    """Return the name without differences of case and of Unicode's compatible characters."""
    return unicodedata.normalize("NFKC", name).casefold()


def strip_resource_path(name: str) -> str:
    """Return the name without the path of its resource and without empty segments; its case is kept."""
    if "/" not in name:
        return name
    segments = [segment for segment in name.split("/") if segment]
    folded = [segment.casefold() for segment in segments[:-1]]
    if folded and folded[0] in _RESOURCE_ROOTS and _COLLECTION in folded:
        return segments[-1] if folded[-1] == _COLLECTION else "/".join(segments[folded.index(_COLLECTION) + 1 :])
    return "/".join(segments)


@lru_cache(MAX_CACHED_NAMES)
def canonicalize_name(name: str) -> str:
    """Return the canonical form of a model's name."""
    return strip_resource_path(fold_name(name))


@lru_cache(MAX_CACHED_NAMES)
def canonicalize_glob(glob: str) -> str:
    """Return the canonical form of a glob of names. A glob for all names below a path, such as ``models/*``, keeps the path."""
    stripped = canonicalize_name(glob)
    return fold_name(glob) if not stripped.strip("*/") else stripped


def is_plain_name(name: str) -> bool:
    """Return whether every upstream reads a name as it is written: no spaces, control characters, escapes or ``..``."""
    return all(_is_plain(text) for text in {name, unicodedata.normalize("NFKC", name)})


def _is_plain(name: str) -> bool:
    return name.isprintable() and _UNSAFE.isdisjoint(name) and not {".", ".."}.intersection(name.split("/"))
