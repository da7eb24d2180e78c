"""The spellings in which a secret appears in the data of an upstream. Pure."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import quote, quote_plus

_PERCENT: Final = re.compile(r"%[0-9A-F]{2}")


def list_spellings(secret: str) -> Iterator[str]:
    """Yield the spellings of a secret in a response: plain, in JSON, in a URL, in base64."""
    yield secret
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield secret.replace("/", "\\/")
    for quoted in (quote(secret, safe=""), quote(secret), quote_plus(secret)):
        yield quoted
        yield _PERCENT.sub(lambda match: match[0].lower(), quoted)
    yield base64.b64encode(secret.encode()).decode().rstrip("=")
    yield base64.urlsafe_b64encode(secret.encode()).decode().rstrip("=")


def compile_escape_patterns(texts: Iterable[str]) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """Return two patterns for the JSON escapes of the characters of secrets.

    The first one is fast and begins at the last backslash; the second one begins at the first of an odd number of backslashes.
    """
    codes = sorted({f"{ord(sign):02x}" for text in texts for sign in text if sign.isascii() and sign not in '"\\'})
    anycase = "|".join(f"{code[0]}[{code[1]}{code[1].upper()}]" for code in codes) or "(?!)"
    return (
        re.compile(rf"\\u00(?:{anycase})".encode()),
        re.compile(rf"(?<!\\)((?:\\\\)*)\\u00({anycase})".encode()),
    )


def decode_basic(value: str) -> set[str]:
    """Return the user and password of a header value for Basic authentication (RFC 7617), together, and the password alone."""
    scheme, _, text = value.partition(" ")
    if scheme.lower() != "basic":
        return set()
    try:
        pair = base64.b64decode(text, validate=True).decode()
    except ValueError:
        return set()
    return {pair, pair.partition(":")[2]}
