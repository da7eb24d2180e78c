"""Converts the text fields of a form to the types of the members that a schema declares."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from marshmallow import Schema, fields

from tornado_gate.codec.fields.kinds import Array, Boolean, Integer, Number, get_schema

_INTEGER_PATTERN: Final = re.compile(r"-?[0-9]{1,18}")
_NUMBER_PATTERN: Final = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,18})?")
_BOOLEAN_WORDS: Final[Mapping[str, bool]] = {"true": True, "false": False}


def parse_form(kind: type[Schema], texts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a form with integers, numbers and booleans as such. What is none stays a text, which a check refuses.

    An array that was sent as one field without ``[]`` has one item.
    """
    parsed = dict(texts)
    for name, parse in _list_parsers(kind):
        text = parsed.get(name)
        if type(text) is str:
            parsed[name] = parse(text)
    return parsed


@cache
def _list_parsers(kind: type[Schema]) -> tuple[tuple[str, Callable[[str], Any]], ...]:
    parsers = ((name, _find_parser(field)) for name, field in get_schema(kind).fields.items())
    return tuple((name, parse) for name, parse in parsers if parse is not None)


def _find_parser(field: fields.Field[Any]) -> Callable[[str], Any] | None:
    match field:
        case Integer():
            return lambda text: int(text) if _INTEGER_PATTERN.fullmatch(text) else text
        case Number():
            return lambda text: float(text) if _NUMBER_PATTERN.fullmatch(text) else text
        case Boolean():
            return lambda text: _BOOLEAN_WORDS.get(text, text)
        case Array():
            return lambda text: [text]
    return None
