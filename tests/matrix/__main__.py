"""``python -m tests.matrix`` writes `docs/matrix.md` and `docs/matrix-media.md` anew."""

from __future__ import annotations

from tests.matrix.page import pages

for path, text in pages().items():
    path.write_text(text, encoding="utf-8")
