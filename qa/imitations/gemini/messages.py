"""Checks a JSON value against the SDK's types, as protobuf's JSON parser does: no unknown name, no other type.

Messages: google-gemini/deprecated-generative-ai-js#320 ("Cannot find field.", "Invalid value at"), google-gemini/gemini-cli#2031
("(TYPE_STRING)"). Source: google-genai 3.4, types.py; members that only Vertex AI has: models.py, the functions ``_*_to_mldev``.
"""

from __future__ import annotations

import base64
import binascii
import enum
import re
import types as python_types
from collections.abc import Mapping
from typing import Any, Final, Union, get_args, get_origin

from google.genai import types
from pydantic import BaseModel

from qa.imitations.gemini.refusal import refuse

_VERTEX_ONLY: Final[Mapping[type, frozenset[str]]] = {
    types.GenerationConfig: frozenset(("audioTimestamp", "routingConfig", "modelSelectionConfig")),
    types.FunctionCallingConfig: frozenset(("streamFunctionCallArguments",)),
    types.SafetySetting: frozenset(("method",)),
    types.Tool: frozenset(("retrieval", "enterpriseWebSearch", "parallelAiSearch", "exaAiSearch")),
    types.Schema: frozenset(("additionalProperties", "defs", "ref")),
}
_KINDS: Final[Mapping[Any, tuple[tuple[type, ...], str]]] = {
    str: ((str,), "TYPE_STRING"),
    int: ((int,), "TYPE_INT32"),
    float: ((int, float), "TYPE_FLOAT"),
    bool: ((bool,), "TYPE_BOOL"),
}


def to_camel(name: str) -> str:
    """The camelCase name of a member, of which the parser accepts both spellings."""
    return re.sub(r"_([a-z])", lambda found: found[1].upper(), name)


def check(value: Any, hint: Any, path: str) -> None:
    """Raise `Refusal` unless `value` has the type `hint`. `path` is that of the value in the body."""
    origin = get_origin(hint)
    if hint is Any or value is None:
        return
    if origin in (Union, python_types.UnionType):
        arms = [arm for arm in get_args(hint) if arm is not type(None)]
        check(value, arms[0], path)
    elif isinstance(hint, type) and issubclass(hint, BaseModel):
        _check_object(value, hint, path)
    elif isinstance(hint, type) and issubclass(hint, enum.Enum):
        if value not in [member.value for member in hint]:
            refuse(f"Invalid value at '{path}' (type.googleapis.com/{hint.__name__}), \"{value}\"")
    elif origin is list:
        if not isinstance(value, list):
            refuse(f"Invalid value at '{path}', expected a list")
        for number, item in enumerate(value):
            check(item, get_args(hint)[0], f"{path}[{number}]")
    elif origin is dict:
        if not isinstance(value, dict):
            refuse(f"Invalid value at '{path}' (type.googleapis.com/google.protobuf.Struct)")
        for name, member in value.items():
            check(member, get_args(hint)[1], f"{path}[{name}]")
    elif hint is bytes:
        _check_bytes(value, path)
    elif hint in _KINDS:
        _check_scalar(value, hint, path)


def _check_scalar(value: Any, hint: Any, path: str) -> None:
    kinds, name = _KINDS[hint]
    if hint in (int, float) and isinstance(value, str) and re.fullmatch(r"-?\d+", value):
        return  # 64-bit numbers may be strings
    if not isinstance(value, kinds) or (isinstance(value, bool) and hint is not bool):
        refuse(f"Invalid value at '{path}' ({name}), {value!r}")
    if hint is int and not -(2**31) <= value < 2**31:
        refuse(f"Invalid value at '{path}' (TYPE_INT32), {value}")


def _check_bytes(value: Any, path: str) -> None:
    try:
        text = str(value).replace("-", "+").replace("_", "/")
        base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        refuse(f"Invalid value at '{path}' (TYPE_BYTES), Base64 decoding failed for \"{str(value)[:40]}\"")


def _check_object(value: Any, hint: type[BaseModel], path: str) -> None:
    if not isinstance(value, dict):
        refuse(f"Invalid value at '{path}' (type.googleapis.com/{hint.__name__}), {value!r}")
    members = {field.alias or to_camel(name): field.annotation for name, field in hint.model_fields.items()}
    for name, member in value.items():
        camel = to_camel(name)
        if camel not in members or camel in _VERTEX_ONLY.get(hint, ()):
            refuse(f"Invalid JSON payload received. Unknown name \"{name}\" at '{path}': Cannot find field.")
        check(member, members[camel], f"{path}.{name}" if path else name)
