"""``python -m tests.matrix`` regenerates `docs/matrix.md` and `docs/matrix-media.md`."""

from __future__ import annotations

from tests.matrix.page import pages

for path, text in pages().items():
    path.write_text(text, encoding="utf-8")
