"""The contract of guards for acme, and what it does not cover."""

from tornado_gate.types import GuardedText, Replace, Span
from tornado_gate_acme import LONGEST, Acme
from tornado_gate_acme_conformance import TestAcme

__all__ = ["TestAcme"]


def review(*texts: str) -> list[Span]:
    """The spans that are replaced in the texts of a request."""
    guarded = [GuardedText(kind="user", path=f"messages.{n}.content", text=text) for n, text in enumerate(texts)]
    decision = Acme("***").review_request(guarded)
    return list(decision.spans) if isinstance(decision, Replace) else []


def test_each_address_is_replaced_where_it_is() -> None:
    spans = review("Write to ann@example.org.", "nothing", "a@b.c, d@e.f")
    assert spans == [Span(0, 9, 24, "***"), Span(2, 0, 5, "***"), Span(2, 7, 12, "***")]


def test_the_longest_match_is_not_longer_than_what_is_held_back() -> None:
    (span,) = review("a" * 100 + "@" + ".".join(["b" * 63] * 9))
    assert span.end - span.start == LONGEST
