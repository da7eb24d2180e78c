"""The text maps of all routes: none is missing, and no string of a body passes unseen except at the places listed here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import tornado_gate_anthropic.format
import tornado_gate_gemini.format
import tornado_gate_openai.format
from qa.matrix import media, ways
from qa.matrix.fields import Attached
from qa.matrix.walk import door
from tornado_gate.guards.text_walks import COMMON_WORDS, find_texts

FORMATS: Final = (tornado_gate_openai.format, tornado_gate_anthropic.format, tornado_gate_gemini.format)
OPAQUE_PLACES: Final = Path(__file__).parent / "opaque_places.txt"
"""One line for each place of a request whose strings are no texts, such as pictures. A new line means that guards no longer see
a member."""


def test_every_route_with_texts_has_a_map() -> None:
    missing = [
        f"{route.method} {route.path}"
        for plugin in FORMATS
        for route in plugin.routes()
        if route.texts is None and route.operation != "models"
    ]
    assert not missing, f"add a text map to the routes {missing}"


def test_the_maps_say_what_a_route_needs() -> None:
    for plugin in FORMATS:
        for route in plugin.routes():
            if route.texts is not None and route.keep_alive is not None and route.operation != "count_tokens":
                assert route.texts.event is not None, f"{route.path} streams, but its map has no events"
            if route.texts is not None and route.socket:
                assert route.texts.client_message is not None
                assert route.texts.server_message is not None


def list_strings(value: Any, where: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if isinstance(value, str):
        yield where, value
    elif isinstance(value, dict):
        for name, member in value.items():
            yield from list_strings(member, (*where, name))
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            yield from list_strings(item, (*where, number))


def as_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: as_json(member) for name, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_json(item) for item in value]
    return None if isinstance(value, Attached) else value


def find_opaque_places() -> set[str]:
    """The places of all bodies of the matrix, which has every member of every format, with strings that are no texts."""
    places: set[str] = set()
    for way in (*ways.WAYS, *media.MEDIA_WAYS):
        route = door(way)[1]
        assert route.texts is not None
        for row in (row for group in way.groups for row in group.fields):
            body = as_json(row.body)
            texts = find_texts(body, route.texts.request, of_request=True).texts
            seen = {found.where for found in texts if not found.is_name}
            names = {found.text for found in texts if found.kind == "name"}  # each is seen once
            for where, text in list_strings(body):
                if text and where not in seen and text not in names and text not in COMMON_WORDS:
                    path = ".".join("[]" if isinstance(step, int) else step for step in where)
                    places.add(f"{way.path} {path}")
    return places


def test_every_string_of_a_request_is_a_text_or_at_a_listed_place() -> None:
    listed = set(OPAQUE_PLACES.read_text(encoding="utf-8").splitlines())
    found = find_opaque_places()
    assert not found - listed, f"guards no longer see: {sorted(found - listed)}"
    assert not listed - found, f"remove from {OPAQUE_PLACES.name}: {sorted(listed - found)}"


def test_no_word_hides_a_text() -> None:
    """A string with a space, an at sign or a letter beyond ASCII is a text in every place, also in those listed."""
    for way in (*ways.WAYS, *media.MEDIA_WAYS):
        route = door(way)[1]
        assert route.texts is not None
        for row in (row for group in way.groups for row in group.fields):
            body = as_json(row.body)
            for where, _ in list_strings(body):
                marked = set_at(body, where, "Zoë zoe@example.org")
                found = find_texts(marked, route.texts.request, of_request=True)
                assert any(one.where == where for one in found.texts), f"{way.path} {where}"


def set_at(value: Any, where: tuple[str | int, ...], text: str) -> Any:
    if not where:
        return text
    copied = value.copy()
    copied[where[0]] = set_at(value[where[0]], where[1:], text)
    return copied
