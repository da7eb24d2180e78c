"""The catalogues are complete, say what the code says now, and fit its placeholders."""

from __future__ import annotations

import string

import pytest

from tests.languages.catalogue import (
    list_languages,
    locate_catalogue,
    locate_script_messages,
    make_compiled,
    make_script_messages,
    make_updated,
    read_catalogue,
    write_catalogue,
)
from tornado_gate.server.console.languages.template_text import list_placeholders

REMEDY = "run `make messages`, then translate what it lists"


@pytest.mark.parametrize("language", list_languages())
def test_the_catalogue_has_the_messages_of_the_code(language: str) -> None:
    path = locate_catalogue(language)

    assert path.read_bytes() == write_catalogue(make_updated(language)), REMEDY
    assert path.with_suffix(".mo").read_bytes() == make_compiled(read_catalogue(language)), REMEDY
    assert locate_script_messages(language).read_bytes() == make_script_messages(read_catalogue(language)), REMEDY


@pytest.mark.parametrize("language", list_languages())
def test_every_message_is_translated(language: str) -> None:
    missing = [str(message.id) for message in read_catalogue(language) if message.id and not message.string]

    assert missing == [], REMEDY


@pytest.mark.parametrize("language", list_languages())
def test_a_translation_has_the_placeholders_of_its_message(language: str) -> None:
    wrong = [
        str(message.id)
        for message in read_catalogue(language)
        if message.id and message.string and _list_fields(str(message.id)) != _list_fields(str(message.string))
    ]

    assert wrong == []


def _list_fields(text: str) -> list[str]:
    """Return the placeholders of templates, and the names of those that code fills in."""
    numbered = list_placeholders(text)
    return numbered or sorted(name for _, name, _, _ in string.Formatter().parse(text) if name)
