"""Small readings of JSON members, base64 in both alphabets, and signatures. Pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final

import orjson

from tornado_gate.types import Opaque

_OPAQUE_PREFIX: Final = b"opaque:1:"
"""Before the JSON of a signature that is not base64 as this format has it: it comes back as it was."""

_URL_SAFE: Final = str.maketrans("-_", "+/")


def select_unknown(value: Mapping[str, Any], *known: str) -> dict[str, Any]:
    """The members of `value` whose names are not `known`."""
    return {name: member for name, member in value.items() if name not in known}


def drop_none(**members: Any) -> dict[str, Any]:
    """The members that are not None, in their order."""
    return {name: member for name, member in members.items() if member is not None}


def read_string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def read_object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, (dict, Mapping)) else {}


def read_objects(value: Any) -> list[Mapping[str, Any]]:
    """The objects of an array; nothing of anything else."""
    return [item for item in value if isinstance(item, (dict, Mapping))] if isinstance(value, list) else []


def read_count(value: Any) -> int | None:
    """A number that counts; the vendor's JSON may have a 64-bit one as a string."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value[:19])
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0:
        return int(value)
    return None


def normalize_base64(text: str) -> str:
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
    text = normalize_base64(value)
    if is_base64(text):
        raw = base64.b64decode(text)
        if raw.startswith(_OPAQUE_PREFIX):
            try:
                return Opaque(issuer="", value=orjson.loads(raw.removeprefix(_OPAQUE_PREFIX)))
            except orjson.JSONDecodeError:
                pass  # not one of ours after all
        return Opaque(issuer="", value=text)
    return Opaque(issuer="", value=value)


def render_signature(signature: Opaque | None) -> str | None:
    """``thoughtSignature`` for a caller, whose SDK decodes and encodes it on the way: it must be base64."""
    if signature is None:
        return None
    value = signature.value
    if isinstance(value, str) and value and is_base64(value) and not base64.b64decode(value).startswith(_OPAQUE_PREFIX):
        return value
    return base64.b64encode(_OPAQUE_PREFIX + orjson.dumps(value)).decode()
