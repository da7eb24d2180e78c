"""The parts of a content, in both directions. Function calls and responses are in `function_calls`. Pure.

Unknown members of a part stay in its `extra`, as does a signature on a part type without one (an image). A part of an unknown
kind, and a file stored at Google, become a `VendorPart`.

Source: google-genai 3.4, types.Part, Blob, FileData.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from tornado_gate.codec.text_files import UnreadableFile, check_source
from tornado_gate.types import Audio, Data, File, Image, Link, Part, Refusal, Source, Text, Thinking, VendorPart
from tornado_gate_gemini.wire.generate.json_values import (
    drop_none,
    normalize_base64,
    parse_signature,
    read_string,
    select_unknown,
)
from tornado_gate_gemini.wire.generate.names import WIRE_FORMAT

_FILE_HOSTS: Final = ("generativelanguage.googleapis.com", "aiplatform.googleapis.com")
_FILES_PATH: Final = re.compile(r"/v1(?:alpha|beta)?/+files/")
"""The path of an uploaded file at any host: a provider entry may have another base URL than the vendor's."""
_GOOGLE_FILES: Final = ("gs://", "https://generativelanguage.googleapis.com/")
_PLAYER_HOSTS: Final = ("youtube.com", "www.youtube.com", "m.youtube.com", "youtu.be")

_MAX_SPLIT_LENGTH: Final = 8192
"""The maximum length of a URL that is split, because `urlsplit` caches its argument."""

_MEDIA_TYPES: Final[Mapping[str, str]] = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "webp": "image/webp",
    "gif": "image/gif",
    "heic": "image/heic",
    "heif": "image/heif",
    "bmp": "image/bmp",
    "pdf": "application/pdf",
    "txt": "text/plain",
    "csv": "text/csv",
    "html": "text/html",
    "mp3": "audio/mpeg",
    "wav": "audio/wav",
    "flac": "audio/flac",
    "ogg": "audio/ogg",
    "mp4": "video/mp4",
    "webm": "video/webm",
    "mov": "video/quicktime",
}


def parse_part(value: Mapping[str, Any]) -> Part:
    """A part other than a function call or response, from camelCase."""
    match value:
        case {"text": str(text), "thought": True}:
            extra = select_unknown(value, "text", "thought", "thoughtSignature")
            return Thinking(text=text, signature=parse_signature(value.get("thoughtSignature")), extra=extra)
        case {"text": str(text)}:
            extra = select_unknown(value, "text", "thought", "thoughtSignature")
            return Text(text=text, signature=parse_signature(value.get("thoughtSignature")), extra=extra)
        case {"inlineData": {"data": str(data), "mimeType": str(media_type)}}:
            _check_inline(value["inlineData"], media_type, data)
            return _parse_inline(value, Data(media_type=media_type, base64=normalize_base64(data)))
        case {"fileData": {"fileUri": str(uri)}} if _is_link(uri):
            return _parse_link(value, uri)
        case _:
            return VendorPart(wire_format=WIRE_FORMAT, value=value)


def _check_inline(blob: Mapping[str, Any], media_type: str, data: str) -> None:
    """Raise UnreadableFile for a file that can be read in several ways."""
    if blob.get("mime_type", media_type) != media_type:
        raise UnreadableFile("has two different media types, 'mimeType' and 'mime_type'", data)
    check_source(media_type, data)


def _parse_inline(value: Mapping[str, Any], source: Data) -> Part:
    blob = value["inlineData"]
    extra = select_unknown(value, "inlineData", "thought")
    if unknown := select_unknown(blob, "data", "mimeType", "displayName"):
        extra["inlineData"] = unknown
    return _parse_medium(source, source.media_type, read_string(blob.get("displayName")) or None, extra)


def _parse_link(value: Mapping[str, Any], uri: str) -> Part:
    data = value["fileData"]
    media_type = read_string(data.get("mimeType"))
    extra = select_unknown(value, "fileData", "thought")
    if unknown := select_unknown(data, "fileUri", "mimeType", "displayName"):
        extra["fileData"] = unknown
    return _parse_medium(
        Link(url=uri, media_type=media_type), media_type, read_string(data.get("displayName")) or None, extra
    )


def _parse_medium(source: Source, media_type: str, name: str | None, extra: dict[str, Any]) -> Part:
    kind = media_type.partition("/")[0].lower()
    if name is None and kind == "image":
        return Image(source=source, extra=extra)
    if name is None and kind == "audio":
        return Audio(source=source, extra=extra)
    return File(source=source, name=name, extra=extra)


def is_uploaded_file(uri: str) -> bool:
    """Return whether the API reads a file URI with the rights of the account: a file uploaded to it, or one in its cloud
    storage.

    Other addresses are public web pages.
    """
    try:
        parts = urlsplit(uri.strip().lower())
        host = parts.hostname or ""
    except ValueError:
        return True
    if parts.scheme not in ("http", "https"):
        return True
    return host.endswith(_FILE_HOSTS) or _FILES_PATH.search(parts.path) is not None


def _is_link(uri: str) -> bool:
    """Return whether the URL is publicly readable: not a file uploaded to Google, and not a video page."""
    if not uri.startswith(("http://", "https://")) or uri.startswith(_GOOGLE_FILES):
        return False
    try:
        return urlsplit(uri[:_MAX_SPLIT_LENGTH]).hostname not in _PLAYER_HOSTS
    except ValueError:
        return False


def render_part(part: Part) -> dict[str, Any] | None:
    """The part object without `extra` and signature; None for a part that this format cannot express."""
    match part:
        case Text(text=text) | Refusal(text=text):
            return {"text": text}
        case Thinking(text=text, redacted=False):
            return {"text": text, "thought": True}
        case Image(source=source) | Audio(source=source):
            return render_source(source, None)
        case File(source=source, name=name):
            return render_source(source, name)
        case VendorPart(wire_format=wire_format, value=value) if wire_format == WIRE_FORMAT:
            return dict(value) or None
        case _:
            return None


def render_source(source: Source | None, name: str | None) -> dict[str, Any] | None:
    """``inlineData`` or ``fileData``; None when the media type is unknown, because this format requires it."""
    match source:
        case Data(media_type=media_type, base64=data) if media_type:
            return {"inlineData": drop_none(mimeType=media_type, data=data, displayName=name)}
        case Link(url=url, media_type=media_type):
            media_type = media_type or guess_media_type(url)
            return {"fileData": drop_none(mimeType=media_type, fileUri=url, displayName=name)} if media_type else None
        case _:
            return None


def guess_media_type(url: str) -> str:
    """The media type by the file extension in the URL's path, or ""."""
    if len(url) > _MAX_SPLIT_LENGTH:
        return ""
    try:
        path = urlsplit(url).path
    except ValueError:
        return ""
    return _MEDIA_TYPES.get(path.rpartition("/")[2].rpartition(".")[2].lower(), "")
