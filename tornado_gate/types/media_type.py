"""The media type in a Content-Type header."""

from __future__ import annotations


def media_type(header: str) -> str:
    """A Content-Type without its parameters, in lower case: "text/html" of "Text/HTML; charset=utf-8"."""
    return header.partition(";")[0].strip().lower()
