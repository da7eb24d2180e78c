"""The generated pages of the docs, and the pages with generated tables."""

from __future__ import annotations

from pathlib import Path

from tests.reference.commands_page import make_commands_page
from tests.reference.conf_keys import fill_configuration
from tests.reference.errors_page import make_errors_page
from tests.reference.hooks import make_hooks_page
from tests.reference.metrics_page import fill_metrics
from tests.reference.routes_page import make_routes_page
from tests.reference.types_page import make_types_pages

DOCS = Path(__file__).parents[2] / "docs"
CONFIGURATION = DOCS / "reference" / "configuration.md"
METRICS = DOCS / "reference" / "metrics.md"


def make_pages() -> dict[Path, str]:
    """The text of each page, by its file."""
    return {
        DOCS / "plugins" / "hooks.md": make_hooks_page(),
        **{DOCS / "plugins" / page: text for page, text in make_types_pages().items()},
        DOCS / "reference" / "commands.md": make_commands_page(),
        DOCS / "reference" / "errors.md": make_errors_page(),
        DOCS / "reference" / "routes.md": make_routes_page(),
        METRICS: fill_metrics(METRICS.read_text(encoding="utf-8")),
        CONFIGURATION: fill_configuration(CONFIGURATION.read_text(encoding="utf-8")),
    }
