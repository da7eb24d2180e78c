"""Examples of the docs for plugin authors, which tests install and run as they are printed."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
GUIDES = tuple(
    DOCS / "plugins" / f"{name}.md"
    for name in ("README", "plugin-providers", "plugin-formats", "plugin-wrappers", "plugin-testing")
)


def read_guides() -> str:
    """The text of all pages for plugin authors."""
    return "\n".join(path.read_text(encoding="utf-8") for path in GUIDES)


def find_example(first_line: str) -> str:
    """The code block of these pages that begins with `first_line`."""
    blocks = re.findall(r"```python\n(.*?)```", read_guides(), re.S)
    found = [block for block in blocks if block.startswith(first_line)]
    assert len(found) == 1, f"{len(found)} examples begin with {first_line!r}"
    return str(found[0])
