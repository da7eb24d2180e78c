"""The generated pages of the docs, and the pages with generated tables."""

from __future__ import annotations

from pathlib import Path

from tests.reference.conf_keys import fill_configuration
from tests.reference.hooks import make_hooks_page
from tests.reference.types_page import make_types_page

DOCS = Path(__file__).parents[2] / "docs"
CONFIGURATION = DOCS / "reference" / "configuration.md"


def make_pages() -> dict[Path, str]:
    """The text of each page, by its file."""
    return {
        DOCS / "plugins" / "hooks.md": make_hooks_page(),
        DOCS / "plugins" / "types.md": make_types_page(),
        CONFIGURATION: fill_configuration(CONFIGURATION.read_text(encoding="utf-8")),
    }
