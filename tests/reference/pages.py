"""The generated pages of the docs for plugin authors."""

from __future__ import annotations

from pathlib import Path

from tests.reference.hooks import make_hooks_page
from tests.reference.types_page import make_types_page

DOCS = Path(__file__).parents[2] / "docs"


def make_pages() -> dict[Path, str]:
    """The text of each page, by its file."""
    return {DOCS / "plugins" / "hooks.md": make_hooks_page(), DOCS / "plugins" / "types.md": make_types_page()}
