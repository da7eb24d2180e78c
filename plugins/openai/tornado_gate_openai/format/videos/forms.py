"""Conversion of a form's text fields to a body. A form has strings only; the vendor's SDK sends the members of an object as
``input_reference[image_url]`` (openai-python 3.52, _qs.py)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.codec import fields as codec_fields
from tornado_gate.codec import json_body
from tornado_gate.errors import RequestError
from tornado_gate_openai.fields.videos import VideoBodySchema

_MEMBER_FIELD: Final = re.compile(r"(input_reference|metadata)\[([^\[\]]{1,100})\]")


def parse_form(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body. A value that cannot be converted to its field's type stays a string, which a check rejects."""
    body = codec_fields.parse_form(VideoBodySchema, _gather_members(fields))
    if isinstance(body.get("metadata"), str):
        body["metadata"] = _parse_object(body["metadata"])
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


def _parse_object(text: str) -> Any:
    try:
        return json_body.load_object(text.encode())
    except RequestError:
        return text
