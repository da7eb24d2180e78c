"""Detectors of personal data and secrets in folded texts. All take time in proportion to the length of the text.

A pattern alone has too many matches, so most matches are checked (`checks.py`). A text that no check can accept must
already fail in the pattern, which costs a tenth of a step in Python. A detector reads a text in windows. Python's lock
is held during a search, so one search of a long text would stop the event loop.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import compress
from typing import Final, NamedTuple

from tornado_gate_redact.checks import (
    CARD_LENGTHS,
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
MARGIN: Final = 4096
"""The number of characters behind a window that a value, and the characters that confirm it, may reach into."""

# A pattern that begins with a digit and then looks behind skips text without digits five times as fast as the reverse
# order.
_LOCAL_PART = re.compile(r"[\w.+%'-]*")
_AT_DOMAIN = re.compile(
    r"@(?<=[\w.+%'-]@)(?:[^\W_](?:[\w-]{0,61}[^\W_])?\.){1,8}(?:[^\W\d_]{2,24}|xn--[a-z0-9-]{1,59})(?![\w-])",
    re.IGNORECASE,
)
_PHONE = re.compile(r"\+(?<![\w+]\+)[1-9](?:[ ().\-/]{0,3}\d){6,14}(?![\d])")
_DIGITS = re.compile(r"\d(?<![\d.,]\d)(?:[ -]?\d){11,}+")
_BORDER: Final = r"(?:(?!\d)())?"
_CARD = re.compile(
    r"[2-6](?<!\d\d)(?=\d{3})"  # the first group of a card has four digits or more
    + rf"(?=(?:[ -]?\d){{{min(CARD_LENGTHS) - 1}}}{_BORDER}"
    + rf"(?:[ -]?\d{_BORDER}" * (MAX_CARD - min(CARD_LENGTHS))
    + ")?" * (MAX_CARD - min(CARD_LENGTHS))
    + ")"
)
"""The first digit of a group in a run of digits. The pattern's groups that have matched are the ends of groups of
digits, where a card may end.
"""
_IBAN_START = re.compile(r"\d\d(?<=[A-Za-z]{2}\d\d)(?<![A-Za-z0-9][A-Za-z]{2}\d\d)(?=[ -]?[A-Za-z0-9])")
_SSN = re.compile(r"\d(?<![\d-]\d)\d\d([ -])\d\d\1\d{4}(?![\d-])")
_IPV4 = re.compile(r"\d(?<![\w.]\d)\d{0,2}\.(?:\d{1,3}\.){2}\d{1,3}(?![\w]|\.\d)")
_IPV6 = re.compile(r"(?<![\w:.])(?=[0-9A-Fa-f]{0,4}:)[0-9A-Fa-f:]{2,39}+(?![\w:])")
_JWT = re.compile(r"(?<![\w-])eyJ[\w-]{10,400}\.eyJ[\w-]{10,1200}\.[\w-]{20,400}")

_REPOSITORY = re.compile(r":[\w.~-]{1,100}/")
_IBANS: Final = {
    length: re.compile(rf"[A-Za-z0-9](?:[ -]?[A-Za-z0-9]){{{length - 1}}}(?![A-Za-z0-9])")
    for length in set(IBAN_LENGTHS.values())
}
"""Letters and digits with single spaces or dashes between them, by their number."""

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
    re.compile(rf"(?<![A-Za-z0-9_]){pattern}(?![A-Za-z0-9_])") for pattern in _SECRETS.values()
)


class Detector(NamedTuple):
    """A detector. `find(text, start, end)` yields the spans of values that begin between two positions of a text.

    `characters` is the length of the longest value. `search` is the search of the pattern with which `find` begins: it returns
    None for a part of a text without a value. None: the detector has no such pattern.
    """

    find: Callable[[str, int, int], Spans]
    characters: int
    search: Callable[[str, int, int], object] | None = None


def search_window(pattern: re.Pattern[str], text: str, start: int, end: int) -> Iterator[re.Match[str]]:
    """Yield the matches that begin in a window of the text."""
    for match in pattern.finditer(text, start, end + MARGIN):
        if match.start() >= end:
            return
        yield match


def find_emails(text: str, start: int, end: int) -> Spans:
    """Yield the addresses by their `@`. The local part may begin in the previous window."""
    for match in search_window(_AT_DOMAIN, text, start, end):
        at = match.start()
        before = text[max(0, at - LOCAL_CHARACTERS) : at]
        run = _LOCAL_PART.match(before[::-1])
        local = before[len(before) - (run.end() if run else 0) :].lstrip("'%-.")  # such as a quote before the address
        if local and is_email(local + match[0]) and not _is_remote(text, match.end()):
            yield at - len(local), match.end()


def _is_remote(text: str, end: int) -> bool:
    """Return whether the text after an address shows a repository, as in ``git@host.example:team/code``."""
    return _REPOSITORY.match(text, end) is not None


def find_phones(text: str, start: int, end: int) -> Spans:
    for match in search_window(_PHONE, text, start, end):
        if is_phone(match[0]):
            yield match.span()


def find_cards(text: str, start: int, end: int) -> Spans:
    """Yield the cards in runs of digits with single spaces or dashes. Each card begins and ends at the border of a group."""
    for run in search_window(_DIGITS, text, start, end):
        after = run.start()
        for begin in _CARD.finditer(text, after, run.end()):
            if after <= begin.start() < end:
                for number in range(_CARD.groups, 0, -1):
                    last = begin.end(number)
                    if last > 0 and is_card(text[begin.start() : last].replace(" ", "").replace("-", "")):
                        after = last
                        yield begin.start(), after
                        break


def find_ibans(text: str, start: int, end: int) -> Spans:
    """Yield the numbers by their check digits. The letters of the country may be in the previous window."""
    for match in search_window(_IBAN_START, text, start, end):
        begin = match.start() - 2
        length = IBAN_LENGTHS.get(text[begin : match.start()].upper())
        number = None if length is None else _IBANS[length].match(text, begin)
        if number is not None and is_iban(number[0].replace(" ", "").replace("-", "")):
            yield number.span()


def find_ssns(text: str, start: int, end: int) -> Spans:
    for match in search_window(_SSN, text, start, end):
        if is_ssn(match[0]):
            yield match.span()


def find_addresses(text: str, start: int, end: int) -> Spans:
    for pattern in (_IPV4, _IPV6):
        for match in search_window(pattern, text, start, end):
            if is_address(match[0]):
                yield match.span()


def find_secrets(text: str, start: int, end: int) -> Spans:
    window = text[start : end + MARGIN]
    for pattern in compress(_SECRET_PATTERNS, map(window.__contains__, _SECRETS)):  # most texts have no prefix
        for match in search_window(pattern, text, start, end):
            yield match.span()


def find_jwts(text: str, start: int, end: int) -> Spans:
    for match in search_window(_JWT, text, start, end):
        yield match.span()


DETECTORS: Final = {
    "email": Detector(find_emails, 254, _AT_DOMAIN.search),
    "phone": Detector(find_phones, 60, _PHONE.search),
    "iban": Detector(find_ibans, 2 * MAX_IBAN, _IBAN_START.search),
    "card": Detector(find_cards, 2 * MAX_CARD, _DIGITS.search),
    "ssn": Detector(find_ssns, 11, _SSN.search),
    "secret": Detector(find_secrets, SECRET_CHARACTERS),
    "ip": Detector(find_addresses, 39),
    "jwt": Detector(find_jwts, 2010, _JWT.search),
}
"""The detectors by kind."""
DEFAULT_KINDS: Final = ("email", "phone", "iban", "card", "ssn", "secret")
