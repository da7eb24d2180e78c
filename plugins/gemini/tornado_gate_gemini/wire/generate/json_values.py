"""Helpers for JSON members, base64 of both alphabets, and signatures. Pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final

import orjson

from tornado_gate.codec import counts
from tornado_gate.types import Opaque

_OPAQUE_PREFIX: Final = b"opaque:1:"
"""Prefix of the JSON text of a signature that is not base64 in this format, so that parsing restores the original."""

_MAX_OPAQUE_BYTES: Final = 64 * 1024
"""A longer signature is not parsed: callers choose it, and a short text can become many objects."""

_URL_SAFE: Final = str.maketrans("-_", "+/")


def select_unknown(value: Mapping[str, Any], *known: str) -> dict[str, Any]:
    """The members of `value` whose names are not in `known`."""
    return {name: member for name, member in value.items() if name not in known}


def drop_none(**members: Any) -> dict[str, Any]:
    """The members that are not None, in the given order."""
    return {name: member for name, member in members.items() if member is not None}


def read_string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def read_object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, (dict, Mapping)) else {}


def read_objects(value: Any) -> list[Mapping[str, Any]]:
    """The objects of an array; [] for any other value."""
    return [item for item in value if isinstance(item, (dict, Mapping))] if isinstance(value, list) else []


def read_count(value: Any) -> int | None:
    """A count (see `codec.counts`), which the vendor's JSON may have as a string (64-bit numbers); None for any other value."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value[:19])
    return counts.read_count(value)


def normalize_base64(text: str) -> str:
    """base64 in the standard alphabet with padding. The vendor's SDK sends the URL-safe one, which other vendors reject."""
    if "-" in text or "_" in text:
        text = text.translate(_URL_SAFE)
    return text + "=" * (-len(text) % 4) if len(text) % 4 in (2, 3) else text


def is_base64(text: str) -> bool:
    """Return whether `text` is base64 in the form that `normalize_base64` returns."""
    try:
        return base64.b64encode(base64.b64decode(text, validate=True)).decode() == text
    except (binascii.Error, ValueError):
        return False


def parse_signature(value: Any) -> Opaque | None:
    """The original value of a ``thoughtSignature`` that `render_signature` returned."""
    if not isinstance(value, str) or not value:
        return None
    text = normalize_base64(value)
    if is_base64(text):
        raw = base64.b64decode(text)
        if raw.startswith(_OPAQUE_PREFIX) and len(raw) <= _MAX_OPAQUE_BYTES:
            try:
                return Opaque(issuer="", value=orjson.loads(raw.removeprefix(_OPAQUE_PREFIX)))
            except orjson.JSONDecodeError:
                pass  # not encoded by render_signature
        return Opaque(issuer="", value=text)
    return Opaque(issuer="", value=value)


def render_signature(signature: Opaque | None) -> str | None:
    """The ``thoughtSignature`` for a caller. It is base64, because the vendor's SDK decodes and encodes it."""
    if signature is None:
        return None
    value = signature.value
    if isinstance(value, str) and value and is_base64(value) and not base64.b64decode(value).startswith(_OPAQUE_PREFIX):
        return value
    return base64.b64encode(_OPAQUE_PREFIX + orjson.dumps(value)).decode()


_CALL: Final = "call"
CALL_SIGNATURE_START: Final = base64.b64encode(_OPAQUE_PREFIX + b'{"call').removesuffix(b"=")
"""The first bytes of each `render_call_signature`, by which a body can be searched for one."""


def render_call_signature(identity: str) -> str:
    """A ``thoughtSignature`` with the id of a call that another vendor's model made after thinking.

    Clients return the signature of a call, but often drop its id (the AI SDK's provider for Google, 2026-11) and signatures of
    thoughts. By the id the core finds the thinking that must precede the call.
    """
    return base64.b64encode(_OPAQUE_PREFIX + orjson.dumps({_CALL: identity})).decode()


def read_call_id(signature: Opaque | None) -> str:
    """The id in a value of `render_call_signature`; "" for any other signature."""
    match signature:
        case Opaque(value={"call": str(identity), **others}) if not others:
            return identity
        case _:
            return ""
