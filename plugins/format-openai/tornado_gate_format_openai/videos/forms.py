"""The text fields of a form as the body that they stand for. A form knows strings only; the vendor's SDK spells the members
of an object ``input_reference[image_url]`` (openai-python 3.52, _qs.py)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.codec import json_body
from tornado_gate.errors import RequestError

_INTEGER: Final = re.compile(r"-?[0-9]{1,18}")
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,18})?")
_MEMBER: Final = re.compile(r"(input_reference|metadata)\[([^\[\]]{1,100})\]")

_INTEGERS: Final = ("width", "height", "fps", "seed", "n")
_WORDS: Final[Mapping[str, bool]] = {"true": True, "false": False}


def body_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """What is no number, no word or no object stays a string, which is an error later."""
    body = {name: _read(name, value) if isinstance(value, str) else value for name, value in _gathered(fields).items()}
    if body.get("input_reference") == "":
        del body["input_reference"]  # how a page's form says that no file was chosen
    return body


def _gathered(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Members under their object's name, unless that has a value of its own."""
    gathered: dict[str, Any] = {}
    for name, value in fields.items():
        member = _MEMBER.fullmatch(name)
        if member is None or member[1] in fields:
            gathered[name] = value
        else:
            gathered.setdefault(member[1], {})[member[2]] = value
    return gathered


def _read(name: str, text: str) -> Any:
    if name in _INTEGERS and _INTEGER.fullmatch(text):
        return int(text)
    if name == "duration" and _NUMBER.fullmatch(text):
        return float(text)
    if name == "watermark":
        return _WORDS.get(text, text)
    if name == "metadata":
        try:
            return json_body.load_object(text.encode())
        except RequestError:
            return text
    return text
