"""The positions of keys in the whole schema of conf, so that the fault for a misplaced key names its place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tornado_gate.config.faults import KnownNames, list_fields_by_key

MAX_PLACES = 3
MAX_DEPTH = 6


class KeyIndex:
    """All keys of a schema with the paths of the mappings that they belong to; "" is the top level of the file."""

    def __init__(self, schema: Any) -> None:
        self.places: dict[str, list[str]] = {}
        for key, parent in _list_keys(schema, ""):
            self.places.setdefault(key, []).append(parent)
        self._known = KnownNames(self.places)

    def describe_unknown_key(self, word: str, siblings: KnownNames) -> str:
        """Return ``unknown key``, with the intended key, the places where it belongs, or the keys that are allowed."""
        similar = siblings.find_similar(word)
        if word in self.places:
            meant = f" did you mean '{similar}'?" if similar else ""
            return f"unknown key;{meant} '{word}' belongs {self._format_places(word)}"
        if similar:
            return f"unknown key; did you mean '{similar}'?"
        elsewhere = self._known.find_similar(word)
        if elsewhere:
            return f"unknown key; did you mean '{elsewhere}', which belongs {self._format_places(elsewhere)}?"
        return siblings.describe_unknown("key", word)

    def _format_places(self, word: str) -> str:
        places = sorted(self.places[word], key=lambda parent: (parent.count("."), parent))
        more = " …" if len(places) > MAX_PLACES else ""
        return f"to {', '.join(parent or 'the top level' for parent in places[:MAX_PLACES])}{more}"


def _list_keys(checker: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield (key, path of the mapping that it belongs to). A name or number that the user chooses is NAME or N."""
    if path.count(".") > MAX_DEPTH:
        return
    item = getattr(checker, "item", None)
    if item is not None:
        yield from _list_keys(item, f"{path}.{'NAME' if hasattr(checker, 'check_name') else 'N'}")
    for key, field in list_fields_by_key(getattr(checker, "schema", checker)):
        yield key, path
        yield from _list_keys(field, f"{path}.{key}" if path else key)
