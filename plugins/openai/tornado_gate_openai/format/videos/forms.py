"""Conversion of a form's text fields to a body. A form has strings only; the vendor's SDK sends the members of an object as
``input_reference[image_url]`` (openai-python 3.52, _qs.py)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.codec import json_body
from tornado_gate.errors import RequestError

_INTEGER_PATTERN: Final = re.compile(r"-?[0-9]{1,18}")
_NUMBER_PATTERN: Final = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,18})?")
_MEMBER_FIELD: Final = re.compile(r"(input_reference|metadata)\[([^\[\]]{1,100})\]")

_INTEGER_FIELDS: Final = ("width", "height", "fps", "seed", "n")
_BOOLEAN_WORDS: Final[Mapping[str, bool]] = {"true": True, "false": False}


def parse_form(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body. A value that cannot be converted to its field's type stays a string, which a check rejects."""
    body = {
        name: _parse_value(name, value) if isinstance(value, str) else value
        for name, value in _gather_members(fields).items()
    }
    if body.get("input_reference") == "":
        del body["input_reference"]  # browsers send an empty field when no file was selected
    return body


def _gather_members(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Collect ``object[member]`` fields in objects, unless the form also has a field with the object's name."""
    gathered: dict[str, Any] = {}
    for name, value in fields.items():
        member = _MEMBER_FIELD.fullmatch(name)
        if member is None or member[1] in fields:
            gathered[name] = value
        else:
            gathered.setdefault(member[1], {})[member[2]] = value
    return gathered


def _parse_value(name: str, text: str) -> Any:
    if name in _INTEGER_FIELDS and _INTEGER_PATTERN.fullmatch(text):
        return int(text)
    if name == "duration" and _NUMBER_PATTERN.fullmatch(text):
        return float(text)
    if name == "watermark":
        return _BOOLEAN_WORDS.get(text, text)
    if name == "metadata":
        try:
            return json_body.load_object(text.encode())
        except RequestError:
            return text
    return text
