"""Finds personal data and secrets in folded texts. All detectors take time in proportion to the length of the text.

A pattern alone finds too much, so most matches are checked (`checks.py`). A detector first searches a character that must occur,
which is much faster than its pattern.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from tornado_gate_redact.checks import (
    IBAN_LENGTHS,
    MAX_CARD,
    MAX_IBAN,
    is_address,
    is_card,
    is_email,
    is_iban,
    is_phone,
    is_ssn,
)

Spans = Iterator[tuple[int, int]]
LOCAL_CHARACTERS: Final = 64
SECRET_CHARACTERS: Final = 220
CARD_GROUP: Final = 4
"""The least digits of a card's first group."""

# A pattern that begins with a digit, and looks behind it, skips text without digits five times as fast as one that looks first.
_LOCAL_PART = re.compile(r"[\w.+%'-]")
_DOMAIN_NAME = re.compile(
    r"(?:[^\W_](?:[\w-]{0,61}[^\W_])?\.){1,8}(?:[^\W\d_]{2,24}|xn--[a-z0-9-]{1,59})(?![\w-])", re.IGNORECASE
)
_PHONE = re.compile(r"\+(?<![\w+]\+)[1-9](?:[ ().\-/]{0,3}\d){6,14}(?![\d])")
_DIGITS = re.compile(r"\d(?<![\d.,]\d)(?:[ -]?\d){11,}+")
_DIGIT = re.compile(r"\d")
_IBAN_START = re.compile(r"\d\d(?<=[A-Za-z]{2}\d\d)(?<![A-Za-z0-9][A-Za-z]{2}\d\d)(?=[ -]?[A-Za-z0-9])")
_SSN = re.compile(r"\d(?<![\d-]\d)\d\d([ -])\d\d\1\d{4}(?![\d-])")
_IPV4 = re.compile(r"\d(?<![\w.]\d)\d{0,2}\.(?:\d{1,3}\.){2}\d{1,3}(?![\w]|\.\d)")
_IPV6 = re.compile(r"(?<![\w:.])(?=[0-9A-Fa-f]{0,4}:)[0-9A-Fa-f:]{2,39}+(?![\w:])")
_JWT = re.compile(r"(?<![\w-])eyJ[\w-]{10,400}\.eyJ[\w-]{10,1200}\.[\w-]{20,400}")

_REPOSITORY = re.compile(r":[\w.~-]+/")

_SECRETS: Final = {
    "sk-": r"sk-[A-Za-z0-9_-]{20,200}",
    "sk_live_": r"sk_live_[A-Za-z0-9]{16,120}",
    "rk_live_": r"rk_live_[A-Za-z0-9]{16,120}",
    "AKIA": r"AKIA[0-9A-Z]{16}",
    "ASIA": r"ASIA[0-9A-Z]{16}",
    "ghp_": r"ghp_[A-Za-z0-9]{36,80}",
    "gho_": r"gho_[A-Za-z0-9]{36,80}",
    "ghu_": r"ghu_[A-Za-z0-9]{36,80}",
    "ghs_": r"ghs_[A-Za-z0-9]{36,80}",
    "ghr_": r"ghr_[A-Za-z0-9]{36,80}",
    "github_pat_": r"github_pat_[A-Za-z0-9_]{22,120}",
    "glpat-": r"glpat-[A-Za-z0-9_-]{20,80}",
    "xoxb-": r"xoxb-[A-Za-z0-9-]{10,120}",
    "xoxp-": r"xoxp-[A-Za-z0-9-]{10,120}",
    "xoxa-": r"xoxa-[A-Za-z0-9-]{10,120}",
    "xapp-": r"xapp-[A-Za-z0-9-]{10,120}",
    "AIza": r"AIza[0-9A-Za-z_-]{35}",
    "hf_": r"hf_[A-Za-z0-9]{30,60}",
    "gsk_": r"gsk_[A-Za-z0-9]{40,80}",
    "xai-": r"xai-[A-Za-z0-9]{40,120}",
    "npm_": r"npm_[A-Za-z0-9]{36}",
    "pypi-": r"pypi-[A-Za-z0-9_-]{50,210}",
    "dop_v1_": r"dop_v1_[a-f0-9]{64}",
    "SG.": r"SG\.[A-Za-z0-9_-]{20,24}\.[A-Za-z0-9_-]{39,50}",
}
"""Keys of well-known services by the characters with which they begin."""
_SECRET_PATTERNS: Final = tuple(
    (prefix, re.compile(rf"(?<![A-Za-z0-9_]){pattern}(?![A-Za-z0-9_])")) for prefix, pattern in _SECRETS.items()
)


class Detector(NamedTuple):
    """`find` yields the places of what is recognised; `characters` is the longest."""

    find: Callable[[str], Spans]
    characters: int


def find_emails(text: str) -> Spans:
    at = text.find("@")
    while at >= 0:
        start = at
        while start > 0 and at - start < LOCAL_CHARACTERS and _LOCAL_PART.match(text, start - 1):
            start -= 1
        while start < at and text[start] in "'%-.":  # such as a quote before the address
            start += 1
        match = _DOMAIN_NAME.match(text, at + 1) if start < at else None
        if match is not None and is_email(text[start : match.end()]) and not _is_remote(text, match.end()):
            yield start, match.end()
            at = text.find("@", match.end())
        else:
            at = text.find("@", at + 1)


def _is_remote(text: str, end: int) -> bool:
    """Whether what follows an address shows that it is one of a repository, as in ``git@host.example:team/code``."""
    return _REPOSITORY.match(text, end) is not None


def find_phones(text: str) -> Spans:
    if "+" in text:
        for match in _PHONE.finditer(text):
            if is_phone(match[0]):
                yield match.span()


def find_cards(text: str) -> Spans:
    for run in _DIGITS.finditer(text):
        yield from _find_cards_in(run[0], run.start())


def _find_cards_in(run: str, offset: int) -> Spans:
    """The cards in digits with single spaces or dashes between them; each begins and ends at the border of a group."""
    places = [place for place, character in enumerate(run) if character.isdigit()]
    digits = "".join(run[place] for place in places)
    begins = [
        number
        for number, place in enumerate(places)
        if (place == 0 or not run[place - 1].isdigit()) and run[place : place + CARD_GROUP].isdigit()
    ]
    ends = {number + 1 for number, place in enumerate(places) if place + 1 == len(run) or not run[place + 1].isdigit()}
    after = 0
    for begin in begins:
        if begin < after:
            continue
        for length in range(MAX_CARD, 12, -1):
            end = begin + length
            if end in ends and is_card(digits[begin:end]):
                yield offset + places[begin], offset + places[end - 1] + 1
                after = end
                break


def find_ibans(text: str) -> Spans:
    if _DIGIT.search(text) is None:
        return
    for match in _IBAN_START.finditer(text):
        start = match.start() - 2
        length = IBAN_LENGTHS.get(text[start : start + 2].upper())
        end = None if length is None else _find_end(text, start, length)
        if end is not None and is_iban(re.sub("[ -]", "", text[start:end])):
            yield start, end


def _find_end(text: str, start: int, length: int) -> int | None:
    """The end of `length` letters and digits with single spaces or dashes between them; None if others follow or are between."""
    place, found, last = start, 0, len(text)
    while found < length and place < last:
        character = text[place]
        if character.isascii() and character.isalnum():
            found += 1
        elif character not in " -" or text[place - 1] in " -":
            return None
        place += 1
    is_whole = found == length and not (place < last and text[place].isascii() and text[place].isalnum())
    return place if is_whole else None


def find_ssns(text: str) -> Spans:
    for match in _SSN.finditer(text):
        if is_ssn(match[0]):
            yield match.span()


def find_addresses(text: str) -> Spans:
    if "." in text:
        for match in _IPV4.finditer(text):
            if is_address(match[0]):
                yield match.span()
    if "::" in text or text.count(":") > 6:
        for match in _IPV6.finditer(text):
            if is_address(match[0]):
                yield match.span()


def find_secrets(text: str) -> Spans:
    for prefix, pattern in _SECRET_PATTERNS:
        if prefix in text:
            for match in pattern.finditer(text):
                yield match.span()


def find_jwts(text: str) -> Spans:
    if "eyJ" in text:
        for match in _JWT.finditer(text):
            yield match.span()


DETECTORS: Final = {
    "email": Detector(find_emails, 254),
    "phone": Detector(find_phones, 60),
    "iban": Detector(find_ibans, 2 * MAX_IBAN),
    "card": Detector(find_cards, 2 * MAX_CARD),
    "ssn": Detector(find_ssns, 11),
    "secret": Detector(find_secrets, SECRET_CHARACTERS),
    "ip": Detector(find_addresses, 39),
    "jwt": Detector(find_jwts, 2010),
}
"""By kind."""
DEFAULT_KINDS: Final = ("email", "phone", "iban", "card", "ssn", "secret")
