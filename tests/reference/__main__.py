"""``python -m tests.reference`` (`make reference`) writes the generated pages and tables of `docs/`."""

from __future__ import annotations

from tests.reference.pages import make_pages

for path, text in make_pages().items():
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
