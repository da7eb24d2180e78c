"""Catalogues of gettext: updated from the code, written and compiled by Babel, the same bytes each time."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from tests.languages.extraction import extract_messages
from tornado_gate.server.console.languages.catalogues import DOMAIN, ENGLISH, FOLDER, LANGUAGES
from tornado_gate.server.console.languages.scripts import CONTEXT, FILE

_WIDTH = 120
_DATE = datetime(2026, 11, 28, tzinfo=UTC)
"""In the compiled catalogue. Without one Babel writes the current time, so that no two builds are equal."""


def list_languages() -> list[str]:
    """Return the languages that have a catalogue."""
    return [language for language in LANGUAGES if language != ENGLISH]


def locate_catalogue(language: str) -> Path:
    return FOLDER / language / "LC_MESSAGES" / f"{DOMAIN}.po"


def locate_script_messages(language: str) -> Path:
    return FOLDER / language / FILE


def read_catalogue(language: str) -> Catalog:
    """Return the catalogue of a language; an empty one if there is none yet."""
    path = locate_catalogue(language)
    if not path.exists():
        return _make_empty(language)
    with path.open("rb") as file:
        return read_po(file, locale=language, domain=DOMAIN, charset="utf-8")


def make_updated(language: str) -> Catalog:
    """Return the catalogue with the messages that the code has now. Translations stay; unused messages go."""
    before = read_catalogue(language)
    updated = _make_empty(language)
    for message, places in sorted(extract_messages().items()):
        known = before.get(message.text, message.context or None)
        text = known.string if known is not None else ""
        updated.add(message.text, text, [(place, None) for place in places], context=message.context or None)  # type: ignore[misc]
    return updated


def write_catalogue(catalogue: Catalog) -> bytes:
    """Return the catalogue as text of gettext. It has no dates and no line numbers, so that a diff shows only messages."""
    stream = BytesIO()
    write_po(stream, catalogue, width=_WIDTH, omit_header=True, include_lineno=False)
    head = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=utf-8\\n"\n"Content-Transfer-Encoding: 8bit\\n"\n\n'
    return head.encode() + stream.getvalue()


def make_compiled(catalogue: Catalog) -> bytes:
    """Return the compiled catalogue."""
    compiled = _make_empty(str(catalogue.locale))
    for message in catalogue:
        if message.id and message.string and not message.fuzzy:
            compiled.add(message.id, message.string, context=message.context)
    stream = BytesIO()
    write_mo(stream, compiled)
    return stream.getvalue()


def make_script_messages(catalogue: Catalog) -> bytes:
    """Return the translations of the scripts' messages as JSON."""
    messages = {
        str(message.id): message.string
        for message in catalogue
        if message.context == CONTEXT and message.string and not message.fuzzy
    }
    return json.dumps(messages, ensure_ascii=False, indent=0).encode() + b"\n"


def _make_empty(language: str) -> Catalog:
    return Catalog(locale=language, domain=DOMAIN, charset="utf-8", project="", version="", creation_date=_DATE)
