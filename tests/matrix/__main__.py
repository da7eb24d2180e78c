"""``python -m tests.matrix`` writes `docs/matrix.md` anew."""

from __future__ import annotations

from tests.matrix.page import PAGE, page

PAGE.write_text(page(), encoding="utf-8")
