"""Values in a text that can fill the properties of a schema: names, places, numbers, dates, URLs; and strings made of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from itertools import islice

from tornado_gate_local import words
from tornado_gate_local.json_schema import SchemaPlace, StepBudget
from tornado_gate_local.json_values import Json, Keywords

MAX_STRING_LENGTH = 10_000
MAX_PHRASE_LENGTH = 60

_CAPITAL = r"[A-Z][\w\u2019'-]*"
_PLACE = re.compile(rf"\b(?:in|for|at|near|from|to)\s+({_CAPITAL}(?:,?[ ]{_CAPITAL}){{0,3}})")
_SMALL_PLACE = re.compile(r"\b(?:in|for|at|near)\s+(?:the\s+)?([^\W\d_]+)")
_NAME = re.compile(rf"(?<![.!?\n] )(?<!^)\b({_CAPITAL})", re.MULTILINE)
_QUOTED = re.compile(r"[\"“”`]([^\"“”`\n]{1,200})[\"“”`]|(?<!\w)['\u2018]([^'\u2018\u2019\n]{1,200})['\u2019](?!\w)")
_BYTE = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_LABELLED = re.compile(r"(?: is|:| =|=)\s*[\"']?([\w.@+-]*\w)")
_FORMATS = {
    "date": re.compile(r"\b\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])\b"),
    "email": re.compile(r"\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}\b"),
    "uri": re.compile(r"\bhttps?://[^\s\"'<>`{}|\\^]{1,200}[\w/]"),
    "uuid": re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"),
    "ipv4": re.compile(rf"(?<![\d.])(?:{_BYTE}\.){{3}}{_BYTE}(?![\d.])"),
}
_PLACE_NAMES = frozenset(
    {
        "address",
        "area",
        "city",
        "country",
        "destination",
        "location",
        "origin",
        "place",
        "region",
        "state",
        "town",
        "where",
    }
)
_PERSON_NAMES = frozenset(
    {"attendee", "author", "customer", "name", "participant", "people", "person", "recipient", "sender", "user", "who"}
)
_SUM_NAMES = frozenset({"calculation", "equation", "expression", "formula", "math"})


class TextHints:
    """One text, analysed once. All results are deterministic; another `variant` gives another value."""

    def __init__(self, text: str) -> None:
        self.text = words.take_sample(text)
        self.significant = words.list_significant(text)
        self.stems = frozenset(map(words.get_stem, self.significant))
        self.numbers = words.list_numbers(text)
        self._lower = self.text.lower()
        self._found: dict[str, list[str]] = {}  # format -> matches in the text

    def mentions_value(self, value: Json) -> bool:
        """Whether the text contains `value`: a string as whole words, a number as a number."""
        if isinstance(value, str) and value.strip():
            at = self._lower.find(value.lower())
            around = self._lower[max(0, at - 1) : at], self._lower[at + len(value) :][:1]
            return at >= 0 and not any(map(str.isalnum, around))
        return isinstance(value, (int, float)) and not isinstance(value, bool) and value in self.numbers

    def mentions_property(self, name: str) -> bool:
        """Whether a word of the property's name occurs in the text."""
        return any(words.get_stem(part) in self.stems for part in words.split_name(name))

    def has_yes(self) -> bool:
        return not {"no", "not", "don't", "without", "false", "off", "disable", "never"} & set(self._lower.split())

    def iterate_phrases(self, name: str, variant: int) -> Iterator[str]:
        """Strings for the property `name`, the best one first; never empty."""
        phrases = [*self._find_by_name(name), *self._quoted]
        if phrases:
            yield phrases[variant % len(phrases)]
        if variant and self.significant:
            yield self.significant[variant % len(self.significant)]
        phrase = " ".join(self.significant[:6])[:MAX_PHRASE_LENGTH].strip() or name or "text"
        yield phrase if not variant else f"{phrase} {variant + 1}"

    def _find_by_name(self, name: str) -> list[str]:
        labelled = _LABELLED.match(self._lower.partition(name.lower())[2]) if name else None
        if labelled:
            end = len(self._lower) - len(labelled.string)
            return [self.text[end + labelled.start(1) : end + labelled.end(1)]]
        parts = set(map(words.get_stem, words.split_name(name)))
        if parts & _PLACE_NAMES:
            return self._places or self._names
        if parts & _SUM_NAMES:
            return self._sums
        return self._names if parts & _PERSON_NAMES else []

    @cached_property
    def _quoted(self) -> list[str]:
        return ["".join(pair) for pair in _QUOTED.findall(self.text)]

    @cached_property
    def _sums(self) -> list[str]:
        sum_text = words.find_sum(self.text)
        return [sum_text.strip()] if sum_text else []

    @cached_property
    def _places(self) -> list[str]:
        return _PLACE.findall(self.text) or [
            word.capitalize() for word in _SMALL_PLACE.findall(self.text) if word.lower() not in words.STOP_WORDS
        ]

    @cached_property
    def _names(self) -> list[str]:
        return [name for name in _NAME.findall(self.text) if name.lower() not in words.STOP_WORDS] or [
            word for word in self.significant if word[0].isupper()
        ]

    def find_by_format(self, kind: str, variant: int) -> str | None:
        """A string in a JSON Schema format, taken from the text if it contains one; None for an unknown format."""
        if kind not in self._found:
            self._found[kind] = _FORMATS[kind].findall(self.text) if kind in _FORMATS else []
        values = self._found[kind]
        return values[variant] if variant < len(values) else _make_by_format(kind, variant)


def _make_by_format(kind: str, variant: int) -> str | None:
    day = 1 + variant % 28
    made = {
        "date": f"2026-01-{day:02}",
        "date-time": f"2026-01-{day:02}T12:00:00Z",
        "time": f"{variant % 24:02}:30:00Z",
        "duration": f"PT{variant + 1}H",
        "email": f"user{variant or ''}@example.com",
        "idn-email": f"user{variant or ''}@example.com",
        "hostname": f"www{variant or ''}.example.com",
        "idn-hostname": f"www{variant or ''}.example.com",
        "ipv4": f"192.0.2.{1 + variant % 254}",
        "ipv6": f"2001:db8::{1 + variant % 9999}",
        "uuid": f"00000000-0000-4000-8000-{variant + 1:012x}",
        "regex": "^.*$",
        "json-pointer": f"/{variant}",
        **dict.fromkeys(("uri", "iri", "uri-reference", "iri-reference"), f"https://example.com/{variant or ''}"),
    }
    return made.get(kind)


def iterate_strings(keywords: Keywords, hints: TextHints, place: SchemaPlace, budget: StepBudget) -> Iterator[str]:
    """Strings that are likely to be valid for the keywords, the best one first."""
    made = hints.find_by_format(keywords["format"], place.variant) if "format" in keywords else None
    if made is not None:
        yield made
    if "pattern" in keywords:
        yield from _iterate_pattern_strings(keywords, hints, place, budget)
    for phrase in hints.iterate_phrases(place.name, place.variant):
        text = fit_length(phrase, keywords)
        budget.spend(len(text) // 100)
        yield text


def _iterate_pattern_strings(
    keywords: Keywords, hints: TextHints, place: SchemaPlace, budget: StepBudget
) -> Iterator[str]:
    """Matching words of the text, then generated strings. Empty for a pattern that RE2 does not support."""
    from tornado_gate_local import pattern

    expression = keywords["pattern"]
    try:
        candidates = [*hints.iterate_phrases(place.name, 0), *hints.significant[:20], *map(str, hints.numbers[:5])]
        matching = (text for text in candidates if pattern.matches(expression, text, budget.spend))
        yield from islice(matching, place.variant, None)
        for example in pattern.iterate_examples(expression, place.variant, budget.spend):
            yield example
            yield fit_length(example, keywords)
    except pattern.UnsupportedPattern:
        return


def fit_length(text: str, keywords: Keywords) -> str:
    """`text` repeated or cut to `minLength` and `maxLength`, up to `MAX_STRING_LENGTH`."""
    least = min(keywords.get("minLength", 0), MAX_STRING_LENGTH)
    most = min(keywords.get("maxLength", MAX_STRING_LENGTH), MAX_STRING_LENGTH)
    if len(text) < least:
        text = " ".join([text or "text"] * (1 + least // max(1, len(text))))[:least]
    return text[:most]
