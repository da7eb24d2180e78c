"""Templates in the language of a page."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from tornado.locale import Locale
from tornado.template import Loader, Template

from tornado_gate.server.console.languages.catalogues import ENGLISH, get_language, get_locale
from tornado_gate.server.console.languages.template_text import Message, translate_source

FOLDER = Path(__file__).parent.parent / "templates"


class TranslatedLoader(Loader):
    """Loads templates, and translates their texts for people once. Later pages use the compiled templates."""

    def __init__(self, chosen: Locale, **settings: Any) -> None:
        super().__init__(str(FOLDER), **settings)
        self._locale = chosen

    def _create_template(self, name: str) -> Template:
        source = (FOLDER / name).read_text(encoding="utf-8")
        return Template(translate_source(source, self._translate), name=name, loader=self)

    def _translate(self, message: Message) -> str:
        return self._locale.translate(message.text)


@lru_cache
def _get_loader(language: str) -> Loader:
    return Loader(str(FOLDER)) if language == ENGLISH else TranslatedLoader(get_locale(language))


def get_template(name: str, chosen: Locale) -> Template:
    """Return a template of the console in a language."""
    return _get_loader(get_language(chosen)).load(name)
