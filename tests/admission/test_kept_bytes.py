"""The memory that connections keep between requests is bounded and shared by account."""

from __future__ import annotations

from tornado_gate.admission.kept_bytes import KeptBytes


def test_an_account_may_keep_as_much_as_is_free() -> None:
    kept = KeptBytes(100)
    first = kept.keep("a", 50)
    assert first is not None
    assert kept.keep("a", 1) is None
    second = kept.keep("b", 25)
    assert second is not None
    assert kept.keep("b", 1) is None
    first()
    assert kept.keep("b", 25) is not None
    second()
    assert (kept.held, dict(kept._of_account)) == (25, {"b": 25})
