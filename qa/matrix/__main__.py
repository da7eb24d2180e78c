"""``python -m qa.matrix`` regenerates `docs/reference/matrix*.md` and `docs/plugins/plugin-support.md`."""

from __future__ import annotations

from qa.matrix.page import pages

for path, text in pages().items():
    path.write_text(text, encoding="utf-8")
