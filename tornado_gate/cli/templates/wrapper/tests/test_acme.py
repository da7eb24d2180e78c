"""What acme replaces, and its settings."""

import pytest

from tornado_gate import PluginEntry
from tornado_gate.errors import ConfigError
from tornado_gate.plugins.host import PluginHost
from tornado_gate.types import GuardedText, Replace, Span
from tornado_gate_acme import LONGEST, Acme


def review(*texts: str, sent: int = 0) -> list[Span]:
    """The spans that are replaced in the texts of a request."""
    guarded = [
        GuardedText(kind="user", path=f"messages.{n}.content", text=text, sent=sent) for n, text in enumerate(texts)
    ]
    decision = Acme("***").review_request(guarded)
    return list(decision.spans) if isinstance(decision, Replace) else []


def test_its_hooks_are_those_of_a_guard() -> None:
    plugin = PluginHost().add("under-test", Acme)
    assert plugin.wrapper
    assert plugin.is_guard
    assert plugin.configurable


def test_addresses_are_replaced_where_they_are() -> None:
    spans = review("Write to ann@example.org.", "nothing", "a@b.c, d@e.f")
    assert spans == [Span(0, 9, 24, "***"), Span(2, 0, 5, "***"), Span(2, 7, 12, "***")]


def test_a_request_without_an_address_is_allowed_unchanged() -> None:
    assert review("at 5 @ home", "") == []


def test_the_longest_match_is_not_longer_than_what_is_held_back() -> None:
    (span,) = review("a" * 100 + "@" + ".".join(["b" * 63] * 9))
    assert span.end - span.start == LONGEST


def test_unknown_settings_are_faults() -> None:
    with pytest.raises(ConfigError, match="mark"):
        Acme().configure_plugin(PluginEntry(name="acme", settings={"marks": "***"}))
