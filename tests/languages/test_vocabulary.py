"""The words of other packages that the console translates."""

from __future__ import annotations

from pathlib import Path

import pytest

import tornado_gate
from tests.languages.extraction import CONSOLE
from tornado_gate.server.console.vocabulary import PHRASES, REFUSALS, translate_phrases

PACKAGE = Path(tornado_gate.__file__).parent


@pytest.fixture(scope="module")
def sources() -> str:
    """The code of the other packages."""
    return "".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py") if CONSOLE not in path.parents)


@pytest.mark.parametrize("text", [*PHRASES, *REFUSALS])
def test_a_package_still_has_the_text(sources: str, text: str) -> None:
    assert text in sources


def test_phrases_stay_without_a_language() -> None:
    assert translate_phrases("in a random order by weight, then fallback models") == (
        "in a random order by weight, then fallback models"
    )
