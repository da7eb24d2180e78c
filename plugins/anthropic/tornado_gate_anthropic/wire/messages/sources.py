"""The ``source`` of images and documents, in both directions. Pure.

Source: anthropic-python 2.11, types/*_source_param.py. Images are JPEG, PNG, GIF or WebP; documents are PDF, or plain
text that is embedded unencoded.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.codec.text_files import check_source, read_source_text
from tornado_gate.types import Data, FileReference, Link, Source
from tornado_gate.types.media_type import media_type as without_parameters
from tornado_gate.wire.accepted_media import find_media_type

_SOURCE_MEMBERS: Final[Mapping[str, tuple[str, ...]]] = {
    "base64": ("type", "media_type", "data"),
    "text": ("type", "media_type", "data"),
    "url": ("type", "url"),
    "file": ("type", "file_id"),
}
_PDF_TYPE: Final = "application/pdf"


def parse_source(value: Mapping[str, Any]) -> tuple[Source, dict[str, Any]] | None:
    """The source and its unknown members; None for a type that `Source` cannot express."""
    match value:
        case {"type": "base64", "media_type": str(media_type), "data": str(data)}:
            check_source(media_type, data)
            source: Source = Data(media_type=media_type, base64=data)
        case {"type": "text", "data": str(text)}:
            source = Data(media_type="text/plain", base64=base64.b64encode(text.encode()).decode())
        case {"type": "url", "url": str(url)}:
            source = Link(url=url)
        case {"type": "file", "file_id": str(file_id)}:
            source = FileReference(id=file_id)
        case _:
            return None
    known = _SOURCE_MEMBERS[value["type"]]
    return source, {name: member for name, member in value.items() if name not in known}


def render_image(source: Source, own: bool) -> dict[str, Any] | None:
    """The ``source`` of an image; None when this format cannot express it. `own`: it came in this format."""
    if isinstance(source, Data):
        media_type = source.media_type if own else find_media_type(source)
        return {"type": "base64", "media_type": media_type, "data": source.base64}
    return _render_reference(source, own)


def render_document(source: Source, own: bool) -> dict[str, Any] | None:
    """The ``source`` of a document; None for a file type that the vendor does not accept."""
    if not isinstance(source, Data):
        return _render_reference(source, own)
    media_type = source.media_type if own else find_media_type(source)
    if media_type.startswith("text/"):
        return _render_text(media_type, source.base64)
    if without_parameters(media_type) == _PDF_TYPE or own:
        return {"type": "base64", "media_type": media_type, "data": source.base64}
    return None


def _render_reference(source: Source, own: bool) -> dict[str, Any] | None:
    match source:
        case Link(url=url) if own or url.startswith(("https://", "http://")):
            return {"type": "url", "url": url}
        case FileReference(id=file_id) if own:
            return {"type": "file", "file_id": file_id}
        case _:
            return None


def _render_text(media_type: str, encoded: str) -> dict[str, Any] | None:
    text = read_source_text(media_type, encoded)
    return None if text is None else {"type": "text", "media_type": "text/plain", "data": text}
