"""Checks of typed texts: e-mails, names. Every refusal is an AccountError that names the form's field."""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise

from tornado_gate.accounts.errors import AccountError
from tornado_gate.codec import emails

LONGEST_EMAIL = 254
LONGEST_LOCAL_PART = 64
LONGEST_NAME = 200
_JOINERS = "\u200c\u200d"
"""Invisible characters that some scripts and emoji need inside words."""
JOINER = "\u200d"
"""The joiner that makes one emoji of several."""
_MODIFIERS = "\ufe0f\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"
"""The shape and the skin colours of an emoji, which stand between it and a joiner."""
_ARROWS = "\u2194\u2195"
"""Emoji that Unicode counts as mathematical signs."""
_LOCAL_PART = re.compile(r"[^\s@\"(),:;<>\[\]\\.]+(\.[^\s@\"(),:;<>\[\]\\.]+)*")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_LABEL = re.compile(r"[^\W_]([\w-]{0,61}[^\W_])?")


def make_email_key(email: str) -> str:
    """Return the text by which an e-mail is found, in a form that the database accepts. Never raises."""
    return make_storable(emails.make_email_key(email))


def check_email(email: str) -> str:
    """Return the e-mail as it is stored. Raises AccountError."""
    text = unicodedata.normalize("NFC", email.strip())
    if not text:
        raise AccountError("Enter an e-mail.", code="invalid_email", field="email")
    if len(text) > LONGEST_EMAIL:
        raise AccountError(
            f"The e-mail is longer than {LONGEST_EMAIL} characters.", code="invalid_email", field="email"
        )
    if not text.isprintable() or unicodedata.normalize("NFKC", text) != text or emails.has_twin(email):
        raise AccountError("The e-mail has characters that an e-mail cannot have.", code="invalid_email", field="email")
    local, _, domain = text.rpartition("@")
    labels = domain.split(".")
    if (
        len(local) > LONGEST_LOCAL_PART
        or _LOCAL_PART.fullmatch(local) is None
        or not all(_LABEL.fullmatch(label) and "_" not in label for label in labels)
    ):
        raise AccountError(
            "This is not an e-mail. Enter one such as ann@example.org.", code="invalid_email", field="email"
        )
    return text


def check_name(name: str, *, field: str = "name", required: bool = True) -> str:
    """Return a name without spaces around it. Raises AccountError."""
    text = unicodedata.normalize("NFC", name.strip())
    if not text and required:
        raise AccountError("Enter a name.", code="invalid_name", field=field)
    if len(text) > LONGEST_NAME:
        raise AccountError(f"The name is longer than {LONGEST_NAME} characters.", code="invalid_name", field=field)
    if not all(letter.isprintable() or letter in _JOINERS for letter in text):
        raise AccountError(
            "The name has control characters or text that is not UTF-8.", code="invalid_name", field=field
        )
    return text


def is_printable(text: str) -> bool:
    """Return whether all characters are visible, except joiners inside of emoji: U+200D between two symbols."""
    if JOINER not in text:
        return text.isprintable()
    parts = text.split(JOINER)
    return all(map(str.isprintable, parts)) and all(
        _is_symbol(before.rstrip(_MODIFIERS)[-1:]) and _is_symbol(after[:1]) for before, after in pairwise(parts)
    )


def _is_symbol(letter: str) -> bool:
    return bool(letter) and (unicodedata.category(letter) == "So" or letter in _ARROWS)


def make_storable(text: str) -> str:
    """Return a text for a comparison in the database. A character that the database refuses becomes a character that no stored
    text has.
    """
    return _UNSTORABLE.sub("\ufffd", text)


def shorten(text: str, longest: int) -> str:
    """Shorten a text from a header for a column: printable, at most `longest` characters."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:longest])
