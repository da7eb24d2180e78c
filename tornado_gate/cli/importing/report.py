"""The report of an import: settings that are not carried, and remarks about others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tornado_gate.types.value import State, field

MOST_PLACES: Final = 5
LONGEST_PLACE: Final = 120


class Report(State):
    """The losses and notes of one import. Places with the same loss are listed together."""

    losses: dict[str, list[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def lose(self, where: str, text: str) -> None:
        """Add a setting that is not carried: its place in the source, the reason and what to do."""
        places = self.losses.setdefault(text, [])
        if where not in places:
            places.append(where)

    def note(self, text: str) -> None:
        """Add a remark for the reader about the configuration."""
        if text not in self.notes:
            self.notes.append(text)

    def format_lines(self) -> Iterator[str]:
        for text, places in self.losses.items():
            shown = [place[:LONGEST_PLACE] for place in places[:MOST_PLACES]]
            more = f" and {len(places) - MOST_PLACES} more" if len(places) > MOST_PLACES else ""
            yield _escape(f"not carried: {', '.join(shown)}{more}: {text}")
        for text in self.notes:
            yield _escape(f"note: {text}")


def _escape(text: str) -> str:
    """Escape unprintable characters of foreign names, so that a line stays one line."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)
