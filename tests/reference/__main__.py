"""``python -m tests.reference`` (`make reference`) writes `docs/hooks.md` and `docs/types.md`."""

from __future__ import annotations

from tests.reference.pages import make_pages

for path, text in make_pages().items():
    path.write_text(text, encoding="utf-8")
