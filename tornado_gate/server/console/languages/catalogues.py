"""The languages of the console, and the text of a message in the language of the page that is being made.

English is the language of the source. The catalogues of the others are files of gettext; `make messages` brings their
messages up to date and compiles them. The language of a page is the visitor's choice, else the browser's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from pathlib import Path

from tornado import locale
from tornado.locale import Locale

DOMAIN = "console"
FOLDER = Path(__file__).parent / "catalogues"
ENGLISH = "en"
LANGUAGES: Mapping[str, str] = {ENGLISH: "English", "zh": "中文"}
"""Names of the languages by code, each in its own language."""
_TAGS = {"zh": "zh-Hans"}

locale.load_gettext_translations(str(FOLDER), DOMAIN)
_current: ContextVar[Locale | None] = ContextVar("language of the page", default=None)


def get_locale(code: str) -> Locale:
    """Return the locale of a language, English for an unknown one."""
    return locale.get(code)


def use_locale(chosen: Locale) -> None:
    """Make the texts of this request in a language from now on."""
    _current.set(chosen)


def get_language(chosen: Locale) -> str:
    """Return the code of a locale's language."""
    return chosen.code if chosen.code in LANGUAGES else ENGLISH


def get_language_tag(chosen: Locale) -> str:
    """Return the attribute ``lang`` of a page."""
    code = get_language(chosen)
    return _TAGS.get(code, code)


def mark(text: str, context: str = "") -> str:  # `make messages` reads the context
    """Return the text itself. Its translation is looked up later, when the language is known."""
    return text


def translate_labels(options: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return choices (value, label) with their labels in the language of the page."""
    return [(value, translate(label)) for value, label in options]


def translate(text: str, context: str = "") -> str:
    """Return a text in the language of the page, or the text itself if the catalogue does not have it."""
    chosen = _current.get()
    if chosen is None or not text:  # the empty text is the head of a catalogue
        return text
    return chosen.pgettext(context, text) if context else chosen.translate(text)
