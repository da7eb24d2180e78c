"""The head of a response as bytes; no value of a header can break it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

_CONTROLS = bytes(code for code in (*range(0x20), 0x7F) if code != 0x09)
_UNSENDABLE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]|[^\x00-\xff]")
_UNPRINTABLE = re.compile(r"[^\x20-\x7e]")
MAX_TEXT_LENGTH = 4096
_FIELD_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")


def clean_header_value(value: str) -> str:
    """Return `value` with each character that a header cannot hold (controls, and characters outside of Latin-1) replaced by
    ``?``.
    """
    return _UNSENDABLE.sub("?", value)


@lru_cache(maxsize=256)
def is_clean_value(value: str) -> bool:
    """Return whether a header can hold `value` unchanged."""
    return _UNSENDABLE.search(value) is None


def replace_unprintable(text: str) -> str:
    """Return `text` with each character that is not printable ASCII replaced by ``?``."""
    return _UNPRINTABLE.sub("?", text)


@lru_cache(4096)
def make_header_text(text: str) -> str:
    """Return `text`, which comes from a caller, for a header: at most MAX_TEXT_LENGTH printable characters."""
    return replace_unprintable(text[:MAX_TEXT_LENGTH])


def render_fields(headers: Iterable[tuple[str, str]]) -> str:
    """Return the lines of headers. Values are cleaned. Raises ValueError for an invalid name."""
    fields = list(headers)
    for name, _ in fields:
        if not _FIELD_NAME.fullmatch(name):
            raise ValueError(f"Invalid name of a header: {name!r}")
    return "".join(f"{name}: {clean_header_value(value)}\r\n" for name, value in fields)


def render_head(code: int, reason: str, headers: Iterable[tuple[str, str]]) -> bytes:
    """Return the bytes of status line and headers. Values are cleaned. Raises ValueError for an invalid name of a header."""
    lines = [_render_status_line(code, reason), *map(": ".join, headers)]
    text = "\r\n".join(lines) + "\r\n\r\n"
    try:
        data = text.encode("latin-1")
    except UnicodeEncodeError:
        return _render_cleaned(lines)
    # Only the CR and LF of the line ends may be there; one pass over the bytes finds any other control.
    if len(data) - len(data.translate(None, _CONTROLS)) != 2 * (len(lines) + 1):
        return _render_cleaned(lines)
    return data


def _render_cleaned(lines: list[str]) -> bytes:
    cleaned = [clean_header_value(line) for line in lines]
    bad = next((line for line in cleaned[1:] if not _FIELD_NAME.fullmatch(line.partition(": ")[0])), None)
    if bad is not None:
        raise ValueError(f"Invalid name of a header: {bad!r}")
    return ("\r\n".join(cleaned) + "\r\n\r\n").encode("latin-1")


@lru_cache(maxsize=128)
def _render_status_line(code: int, reason: str) -> str:
    return f"HTTP/1.1 {code} {reason}"
