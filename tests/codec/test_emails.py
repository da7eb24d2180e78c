"""E-mails are equal in upper and lower case, and otherwise by code point."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tornado_gate.codec.emails import make_email_key

EQUAL = [
    ("Ann@Example.ORG", " ann@example.org "),
    ("JOSÉ@example.org", "jose\u0301@example.org"),  # one character, or a letter and its accent
    ("ΣΟΦΙΑ@example.gr", "σοφια@example.gr"),
    ("İ@example.org", "I\u0307@example.org"),
]
DIFFERENT = [
    ("straße@example.org", "strasse@example.org"),
    ("STRASSE@example.org", "straße@example.org"),
    ("ann@straße.example", "ann@strasse.example"),
    ("\uff41nn@example.org", "ann@example.org"),  # full width
    ("ann\uff20example.org", "ann@example.org"),
    ("\ufb01nn@example.org", "finn@example.org"),  # a ligature
    ("\u212aim@example.org", "kim@example.org"),  # the sign of kelvin
    ("İ@example.org", "i@example.org"),
    ("ı@example.org", "i@example.org"),
    ("ſam@example.org", "sam@example.org"),  # a long s
    ("σοφίας@example.gr", "σοφίασ@example.gr"),
    ("ann@example.org", "ann+x@example.org"),
    ("ann\u200d@example.org", "ann@example.org"),
]


def test_only_upper_and_lower_case_are_the_same_mailbox() -> None:
    faults = [pair for pair in EQUAL if make_email_key(pair[0]) != make_email_key(pair[1])]
    faults += [pair for pair in DIFFERENT if make_email_key(pair[0]) == make_email_key(pair[1])]
    assert faults == []


@given(st.text(max_size=300))
def test_every_text_has_one_key_which_is_its_own(text: str) -> None:
    key = make_email_key(text)
    assert make_email_key(key) == key
    assert len(key) <= 255
    if not text.strip()[:255].isascii():
        assert not key.isascii(), "no letter becomes one of ASCII"
