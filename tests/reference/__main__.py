"""``python -m tests.reference`` (`make reference`) writes `docs/plugins/hooks.md` and `docs/plugins/types.md`."""

from __future__ import annotations

from tests.reference.pages import make_pages

for path, text in make_pages().items():
    path.write_text(text, encoding="utf-8")
