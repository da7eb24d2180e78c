"""Telephone numbers in national form, as people of a region write them: ``415-555-2671``, ``(030) 901820``.

A pattern finds runs of groups of digits. Most numbers in a text are something else, so `phonenumbers` checks those that
have the form of a region's numbers. The package is imported only if conf has `regions`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final, NamedTuple

from tornado_gate_redact.detectors import DETECTORS, Detector, Spans, search_window

MIN_DIGITS: Final = 7
MAX_DIGITS: Final = 17
MAX_GROUPS: Final = 8
NUMBER_CHARACTERS: Final = 40
MAX_CHECKS: Final = 400
"""The number of checks by `phonenumbers` in one window. One takes about 0.1 ms.

Later numbers of the window are replaced if they have the form of a region's numbers.
"""

_GROUP: Final = r"(?:\(\d{1,5}(?: \d{1,4})?\)|\d{1,15}+)"
_SEPARATOR: Final = r"(?: ?[./-] ?| |(?=\()|(?<=\)))"
_RUN = re.compile(
    r"[(\d](?<![\w+#$€£¥/\\-][(\d])(?<!\d[.,:][(\d])(?<![$€£¥] [(\d])"
    rf"(?=(?:[ ./()-]{{0,3}}\d){{{MIN_DIGITS - 1}}})"
    r"(?:(?<=\()\d{1,5}(?: \d{1,4})?\)|(?<=\d)\d{0,14}+)"
    rf"(?:{_SEPARATOR}{_GROUP}){{0,12}}+"
)
"""Groups of digits with one separator between them. A longer run continues as another run behind a space."""
_GROUPS = re.compile(_GROUP)
_CONTINUATION = re.compile(r"\w(?<![xX])|[.,:]\d|[-/]\w|[@%°]| ?[$€£¥%]|[xX](?!\d)")
"""The text behind digits that are part of a longer name, or a price."""
_NO_NUMBER = re.compile(
    r"(?:19|20)\d\d([-./ ])(?:0?[1-9]|1[0-2])\1(?:[0-2]?\d|3[01])(?!\d|\1\d)"  # a date, perhaps with a time
    r"|(?:0?[1-9]|[12]\d|3[01])([-./ ])(?:0?[1-9]|1[0-2])\2(?:19|20)\d\d(?!\d|\2\d)"
    r"|(?:0?[1-9]|1[0-2])([-./ ])(?:0?[1-9]|[12]\d|3[01])\3(?:19|20)\d\d(?!\d|\3\d)"
    r"|(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:[0-2]\d|3[01])(?!\d)"
    r"|(?:\d{1,3}\.){3}\d{1,3}\Z"  # an IPv4 address
    r"|(?:0|[1-9]\d{0,2})\.\d{4,}\Z"  # a decimal fraction
)


class Region(NamedTuple):
    """A region, and the form of the digits of its numbers."""

    code: str
    form: re.Pattern[str]


def find_unknown_regions(codes: Iterable[str]) -> list[int]:
    """Return the indexes of the codes that are unknown to `phonenumbers`."""
    known = _import_library().SUPPORTED_REGIONS
    return [index for index, code in enumerate(codes) if code not in known]


def make_phone_detector(codes: Iterable[str]) -> Detector:
    """Return the detector of international numbers, and of numbers in the national form of regions."""
    international = DETECTORS["phone"]
    regions = tuple(_read_region(code) for code in codes)

    def find(text: str, start: int, end: int) -> Spans:
        return chain(international.find(text, start, end), find_national_numbers(regions, text, start, end))

    return Detector(find, max(international.characters, NUMBER_CHARACTERS))


def find_national_numbers(regions: tuple[Region, ...], text: str, start: int, end: int) -> Spans:
    """Yield the numbers of regions that begin between two positions of a text."""
    checker = _Checker(regions)
    for run in search_window(_RUN, text, start, end):
        if run.end() - run.start() >= MIN_DIGITS:
            yield from _find_numbers(checker, text, run)


def _find_numbers(checker: _Checker, text: str, run: re.Match[str]) -> Iterator[tuple[int, int]]:
    """Yield the numbers of a run. A number begins where the run does, behind another number, or as `_begins_number` says."""
    groups = [group.span() for group in _GROUPS.finditer(text, run.start(), run.end())]
    index = 0
    while index < len(groups):
        last = _find_last_group(checker, text, groups, index)
        if last is not None:
            yield groups[index][0], groups[last][1]
            index = last + 1
            continue
        index += 1
        while index < len(groups) and not _begins_number(text, groups, index):
            index += 1


def _find_last_group(checker: _Checker, text: str, groups: list[tuple[int, int]], first: int) -> int | None:
    """Return the index of the last group of the longest number that begins with a group."""
    begin = groups[first][0]
    for last in range(min(first + MAX_GROUPS, len(groups)) - 1, first - 1, -1):
        end = groups[last][1]
        if end - begin > NUMBER_CHARACTERS or not _may_end(text, groups, last):
            continue
        if checker.is_number(text[begin:end]):
            return last
    return None


def _begins_number(text: str, groups: list[tuple[int, int]], index: int) -> bool:
    """Return whether a group in a run begins another notation: behind a space, with a bracket, a zero, seven digits or
    another separator.
    """
    begin, end = groups[index]
    if text[groups[index - 1][1] : begin] != " ":
        return False
    if text[begin] in "(0" or end - begin >= MIN_DIGITS:
        return True
    return index + 1 < len(groups) and text[end : groups[index + 1][0]] != " "


def _may_end(text: str, groups: list[tuple[int, int]], index: int) -> bool:
    """Return whether a number may end with a group: before a space, or where no name and no price continues."""
    end = groups[index][1]
    if index + 1 < len(groups):
        return text[end : groups[index + 1][0]] == " "
    return _CONTINUATION.match(text, end) is None


class _Checker:
    """The checks of one window, whose number is limited."""

    def __init__(self, regions: tuple[Region, ...]) -> None:
        self._regions = regions
        self._checks = MAX_CHECKS

    def is_number(self, text: str) -> bool:
        """Return whether a text is a number of one of the regions."""
        digits = re.sub(r"\D", "", text)
        if not MIN_DIGITS <= len(digits) <= MAX_DIGITS:
            return False
        regions = [region for region in self._regions if region.form.fullmatch(digits)]
        if not regions or _NO_NUMBER.match(text):
            return False
        for region in regions:
            self._checks -= 1
            if self._checks < 0 or _is_valid(text, region.code):
                return True
        return False


def _is_valid(text: str, region: str) -> bool:
    """Return whether the whole text is a valid number of a region, with the national prefix if the region requires it."""
    library = _import_library()
    matcher = library.PhoneNumberMatcher(text, region, leniency=library.Leniency.VALID, max_tries=1)
    return any(match.end - match.start == len(text) for match in matcher)


def _read_region(code: str) -> Region:
    """Return a region, with a pattern of all digits that may be a number when a caller of the region dials them."""
    metadata = _import_library().PhoneMetadata.metadata_for_region(code)
    number, prefix = metadata.general_desc.national_number_pattern, metadata.national_prefix_for_parsing or ""
    if metadata.national_prefix_transform_rule:  # the digits are not those of the number
        number, prefix = r"\d{7,15}", ""
    country = metadata.country_code
    return Region(
        code, re.compile(rf"(?:{prefix}|{country})?(?:{number})|(?:{metadata.international_prefix})[1-9]\d{{6,14}}")
    )


def _import_library() -> Any:
    """Import the package on first use: it costs time and memory that a conf without regions saves."""
    import phonenumbers

    return phonenumbers
