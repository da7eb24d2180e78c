"""The one comparison of e-mails: in upper and lower case they are equal, and otherwise by code point."""

from __future__ import annotations

import unicodedata

LONGEST_COMPARED = 255
"""One character more than the maximum of an e-mail: a longer text equals no e-mail."""


def make_email_key(email: str) -> str:
    """Return the text by which an e-mail is stored, found and compared. Never raises.

    Each letter becomes its lower-case letter, if Unicode has a single one for it. Letters are not folded further: ``ß`` and
    ``ss``, full-width letters and ligatures are mailboxes of different people. A letter and its accent are one character (NFC).
    """
    text = email.strip()[:LONGEST_COMPARED]
    if text.isascii():
        return text.lower()
    return "".join(map(_lower, text if has_twin(text) else unicodedata.normalize("NFC", text)))


def has_twin(text: str) -> bool:
    """Return whether a character is another one in NFC, such as the sign of kelvin, which becomes the letter K."""
    return any(
        len(normal) == 1 and normal != letter for letter, normal in zip(text, map(_normalize, text), strict=True)
    )


def _normalize(letter: str) -> str:
    return unicodedata.normalize("NFC", letter)


def _lower(letter: str) -> str:
    """Return the lower-case letter. A letter beyond ASCII never becomes an ASCII letter, and never two letters."""
    lower = letter.lower()
    return lower if len(lower) == 1 and (letter.isascii() or not lower.isascii()) else letter
