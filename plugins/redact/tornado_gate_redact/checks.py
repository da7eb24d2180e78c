"""Checks of the matches of patterns: check digits, known prefixes, lengths by country.

Sources: IBAN lengths: SWIFT, IBAN Registry, release 99 (2024-12). Card numbers: ISO/IEC 7812 and the schemes' published
ranges. Country codes: ITU-T E.164 (2016-11). Social security numbers: US SSA, "The SSN Numbering Scheme".
"""

from __future__ import annotations

import re
import socket
from typing import Final

IBAN_LENGTHS: Final = {
    "AD": 24, "AE": 23, "AL": 28, "AT": 20, "AZ": 28, "BA": 20, "BE": 16, "BG": 22, "BH": 22, "BI": 27, "BR": 29, "BY": 28,
    "CH": 21, "CR": 22, "CY": 28, "CZ": 24, "DE": 22, "DJ": 27, "DK": 18, "DO": 28, "EE": 20, "EG": 29, "ES": 24, "FI": 18,
    "FK": 18, "FO": 18, "FR": 27, "GB": 22, "GE": 22, "GI": 23, "GL": 18, "GR": 27, "GT": 28, "HN": 28, "HR": 21, "HU": 28,
    "IE": 22, "IL": 23, "IQ": 23, "IS": 26, "IT": 27, "JO": 30, "KW": 30, "KZ": 20, "LB": 28, "LC": 32, "LI": 21, "LT": 20,
    "LU": 20, "LV": 21, "LY": 25, "MC": 27, "MD": 24, "ME": 22, "MK": 19, "MN": 20, "MR": 27, "MT": 31, "MU": 30, "NI": 28,
    "NL": 18, "NO": 15, "OM": 23, "PK": 24, "PL": 28, "PS": 29, "PT": 25, "QA": 29, "RO": 24, "RS": 22, "RU": 33, "SA": 24,
    "SC": 31, "SD": 18, "SE": 24, "SI": 19, "SK": 24, "SM": 27, "SO": 23, "ST": 25, "SV": 28, "TL": 23, "TN": 24, "TR": 26,
    "UA": 29, "VA": 22, "VG": 24, "XK": 20, "YE": 30,
}  # fmt: skip
MAX_IBAN: Final = max(IBAN_LENGTHS.values())

_SCHEMES: Final = (
    (r"4", {13, 16, 19}),
    (r"5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720", {16}),
    (r"3[47]", {15}),
    (r"6011|65|64[4-9]|62|35(?:2[89]|[3-8])", {16, 17, 18, 19}),
    (r"3(?:0[0-5]|[68])", {14}),
)
"""The first digits of the numbers of a scheme, and their lengths."""
CARD_LENGTHS: Final = frozenset(length for _, lengths in _SCHEMES for length in lengths)
MAX_CARD: Final = max(CARD_LENGTHS)
_CARDS: Final = {
    length: re.compile("|".join(start for start, lengths in _SCHEMES if length in lengths)) for length in CARD_LENGTHS
}
"""The first digits of cards, by their length."""
_DOUBLED: Final = bytes(48) + bytes(sum(divmod(2 * digit, 10)) for digit in range(10)) + bytes(198)
"""The value of each digit, as ASCII, at every second position of the sum of Luhn."""
_AS_NUMBERS: Final = {ord(letter): str(number) for number, letter in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZ", 10)}
_LOOPBACK: Final = bytes(15) + b"\1"
_COUNTRY_CODE = re.compile(
    r"1|7|2[07]|3[0123469]|4[013456789]|5[1-8]|6[0-6]|8[1246]|9[0-58]|(?:2[1-689]|3[578]|42|5[09]|6[789]|8[058789]|9[679])\d"
)
_ADVERTISED_SSNS: Final = frozenset({"078051120", "219099999", "123456789"})
_FILE_SUFFIXES: Final = frozenset(
    {
        "bmp",
        "css",
        "gif",
        "ico",
        "jpeg",
        "jpg",
        "js",
        "json",
        "md",
        "mp3",
        "mp4",
        "pdf",
        "png",
        "py",
        "svg",
        "ts",
        "webp",
        "yaml",
    }
)


def is_card(digits: str) -> bool:
    """Return whether digits are the number of a payment card: range of a scheme, its length, and the check digit (Luhn)."""
    start = _CARDS.get(len(digits))
    return start is not None and start.match(digits) is not None and passes_luhn(digits) and len(set(digits)) > 1


def passes_luhn(digits: str) -> bool:
    raw = digits.encode()
    single = raw[-1::-2]
    return (sum(single) - ord("0") * len(single) + sum(raw[-2::-2].translate(_DOUBLED))) % 10 == 0


def is_iban(text: str) -> bool:
    """Return whether a text without spaces is an IBAN: the length of its country, and the check digits (mod 97)."""
    text = text.upper()
    if IBAN_LENGTHS.get(text[:2]) != len(text):
        return False
    return int((text[4:] + text[:4]).translate(_AS_NUMBERS)) % 97 == 1


def is_phone(text: str) -> bool:
    """Return whether a text that begins with + is an international number: 8 to 15 digits with a country's code."""
    digits = re.sub(r"\D", "", text)
    return 8 <= len(digits) <= 15 and _COUNTRY_CODE.match(digits) is not None


def is_ssn(text: str) -> bool:
    """Return whether nine digits can be a social security number. Numbers that were printed in advertisements are
    invalid.
    """
    digits = re.sub(r"\D", "", text)
    if digits[:3] in ("000", "666") or digits[0] == "9" or digits[3:5] == "00" or digits[5:] == "0000":
        return False
    return digits not in _ADVERTISED_SSNS


def is_email(text: str) -> bool:
    """Return whether an address belongs to a person or place. The name of a file, such as ``icon@2x.png``, does not."""
    local, _, domain = text.rpartition("@")
    suffix = domain.rpartition(".")[2].lower()
    return suffix not in _FILE_SUFFIXES and not local.startswith(".") and ".." not in text


def is_address(text: str) -> bool:
    """Return whether a text is an IP address that identifies somebody: not a loopback address, not 0.0.0.0, no broadcast."""
    is_old = "." in text  # version 4
    try:
        address = socket.inet_pton(socket.AF_INET if is_old else socket.AF_INET6, text)
    except (OSError, UnicodeEncodeError):
        return False
    if is_old:
        return address[0] != 127 and any(address) and not 224 <= address[0] <= 239 and text != "255.255.255.255"
    if address[0] == 0xFF or address == _LOOPBACK or not any(address):
        return False
    return text.count(":") > 2 or any(character.isdigit() for character in text)
