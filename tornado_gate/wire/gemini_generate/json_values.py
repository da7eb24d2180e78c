"""Small readings of JSON members, base64 in both alphabets, and signatures. Pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final

import orjson

from tornado_gate.types import Opaque

_FOREIGN: Final = b"opaque:1:"
"""Before the JSON of a signature that is not base64 as this format has it: it comes back as it was."""

_URL_SAFE: Final = str.maketrans("-_", "+/")


def rest(value: Mapping[str, Any], *known: str) -> dict[str, Any]:
    """The members of `value` whose names are not `known`."""
    return {name: member for name, member in value.items() if name not in known}


def given(**members: Any) -> dict[str, Any]:
    """The members that are not None, in their order."""
    return {name: member for name, member in members.items() if member is not None}


def string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, (dict, Mapping)) else {}


def items(value: Any) -> list[Mapping[str, Any]]:
    """The objects of an array; nothing of anything else."""
    return [item for item in value if isinstance(item, (dict, Mapping))] if isinstance(value, list) else []


def count(value: Any) -> int | None:
    """A number that counts; the vendor's JSON may have a 64-bit one as a string."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value[:19])
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0:
        return int(value)
    return None


def plain_base64(text: str) -> str:
    """base64 in the standard alphabet, padded: the vendor's SDK sends the URL-safe one, which others refuse."""
    if "-" in text or "_" in text:
        text = text.translate(_URL_SAFE)
    return text + "=" * (-len(text) % 4) if len(text) % 4 in (2, 3) else text


def is_base64(text: str) -> bool:
    """Whether `text` is base64 as `plain_base64` makes it: reading it and writing it again gives it back."""
    try:
        return base64.b64encode(base64.b64decode(text, validate=True)).decode() == text
    except (binascii.Error, ValueError):
        return False


def parse_signature(value: Any) -> Opaque | None:
    """What a caller sent back as ``thoughtSignature``: the value that `render_signature` was given."""
    if not isinstance(value, str) or not value:
        return None
    text = plain_base64(value)
    if is_base64(text):
        raw = base64.b64decode(text)
        if raw.startswith(_FOREIGN):
            try:
                return Opaque(issuer="", value=orjson.loads(raw.removeprefix(_FOREIGN)))
            except orjson.JSONDecodeError:
                pass  # not one of ours after all
        return Opaque(issuer="", value=text)
    return Opaque(issuer="", value=value)


def render_signature(signature: Opaque | None) -> str | None:
    """``thoughtSignature`` for a caller, whose SDK decodes and encodes it on the way: it must be base64."""
    if signature is None:
        return None
    value = signature.value
    if isinstance(value, str) and value and is_base64(value) and not base64.b64decode(value).startswith(_FOREIGN):
        return value
    return base64.b64encode(_FOREIGN + orjson.dumps(value)).decode()
