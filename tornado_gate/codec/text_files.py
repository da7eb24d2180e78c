"""Text files inside JSON: base64 or a data URL with a text media type. Guards see their text. No I/O."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote

import orjson

_TEXT_TYPE: Final = re.compile(
    r"text/.*|image/svg\+xml|.*\+(?:json|xml|yaml)|application/(?:json|jsonl|x-ndjson|xml|xhtml|yaml|x-yaml|toml|javascript|x-javascript|"
    r"ecmascript|typescript|x-typescript|sql|graphql|x-sh|x-httpd-php|x-python|x-tex|rtf|x-www-form-urlencoded|csv)"
)
_DATA_URL: Final = re.compile(r"data:([^,;]{0,200})((?:;[^,;]{0,200}){0,8}),", re.IGNORECASE)
_OPAQUE: Final = re.compile(r"[A-Za-z0-9+/_=-]{40,}|")
_STANDARD: Final = str.maketrans("-_", "+/", "\r\n=")


class TextFile(NamedTuple):
    """A text file: `head` is what comes before the data, the data is base64 or percent-encoded."""

    text: str
    head: str
    is_base64: bool

    def encode(self, text: str) -> str:
        """The file with another text, as it is in JSON."""
        raw = text.encode("utf-8", "surrogateescape")
        return self.head + (base64.b64encode(raw).decode() if self.is_base64 else quote(raw))


def is_text_type(media_type: str) -> bool:
    """Whether files of the media type are texts."""
    return _TEXT_TYPE.fullmatch(media_type.partition(";")[0].strip().lower()) is not None


def is_data(value: str) -> bool:
    """Whether a string can be base64 or other data that is not a text."""
    return value.isascii() and value.find("@") < 0 and value.find(" ") < 0


def read_data_url(value: str) -> TextFile | None:
    """The text file in a data URL; None for another file or another string."""
    found = _DATA_URL.match(value)
    if found is None or not is_text_type(found.group(1) or "text/plain"):
        return None
    rest = value[found.end() :]
    if not found.group(2).lower().endswith(";base64"):
        return TextFile(unquote(rest, errors="surrogateescape"), found.group(), is_base64=False)
    return read_base64(rest, found.group())


def read_base64(value: str, head: str = "") -> TextFile | None:
    """The text file in base64, of either alphabet; None if it is not base64."""
    if not is_data(value):
        return None
    try:
        raw = base64.b64decode(value.translate(_STANDARD) + "==")
    except (binascii.Error, ValueError):
        return None
    return TextFile(raw.decode("utf-8", "surrogateescape"), head, is_base64=True)


def read_encoded_json(value: str, head: str) -> TextFile | None:
    """The JSON text in base64 after `head`, read as leniently as the gateway reads it; None if all its strings are data."""
    try:
        raw = base64.urlsafe_b64decode(value[len(head) :] + "==")
        strings = _list_strings(orjson.loads(raw))
    except (ValueError, RecursionError):
        return None  # no format reads it
    if all(_OPAQUE.fullmatch(string) for string in strings):
        return None
    return TextFile(raw.decode("utf-8", "surrogateescape"), head, is_base64=True)


def _list_strings(value: Any) -> Iterator[str]:
    """All strings in a JSON value, except names of members."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for member in value.values() if isinstance(value, dict) else value:
            yield from _list_strings(member)


def is_data_url(value: str) -> bool:
    """Whether a string is a data URL of a file that is not a text."""
    found = _DATA_URL.match(value)
    return found is not None and not is_text_type(found.group(1) or "text/plain") and is_data(value[found.end() :])
