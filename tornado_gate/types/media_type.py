"""The media type in a Content-Type header."""

from __future__ import annotations


def media_type(header: str) -> str:
    """Return a Content-Type in lower case without parameters: "text/html" for "Text/HTML; charset=utf-8"."""
    return header.partition(";")[0].strip().lower()
