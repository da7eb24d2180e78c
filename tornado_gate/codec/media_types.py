"""Media types: their detection from a file's first bytes, an image's size in its header, and file extensions.

Pure functions that read only the beginning of a file and decode nothing. A declared media type is compared with the detected one,
because vendors refuse an image whose declared type does not match its content.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Collection

from tornado_gate.types.media_type import media_type

_MPEG_RATES = b"".join(b"\\x%02x" % rates for rates in range(0x10, 0xF0) if rates & 0x0C != 0x0C)
"""Valid third bytes of an MPEG layer III frame: neither a free nor a forbidden bit rate, no reserved sampling rate."""
_ADTS_RATES = b"".join(b"\\x%02x" % rates for rates in range(256) if rates >> 2 & 15 < 13)

_SIGNATURES: tuple[tuple[re.Pattern[bytes], str], ...] = tuple(
    (re.compile(pattern, re.DOTALL), media_type)
    for pattern, media_type in (
        (rb"\x89PNG\r\n\x1a\n", "image/png"),
        (rb"\xff\xd8\xff", "image/jpeg"),
        (rb"GIF8[79]a", "image/gif"),
        (rb"RIFF.{4}WEBP", "image/webp"),
        (rb".{4}ftyp(avif|avis)", "image/avif"),
        (rb".{4}ftyp(mif1|msf1).{4}(.{4})*?avif", "image/avif"),
        (rb".{4}ftyp(heic|heix|heim|heis|hevc|hevx|mif1|msf1)", "image/heic"),
        (rb"BM.{8}.{4}[\x0c\x28\x34\x38\x40\x6c\x7c]\0\0\0", "image/bmp"),
        (rb"II\*\0|MM\0\*", "image/tiff"),
        (rb".{4}ftypM4[AB] ", "audio/mp4"),
        (rb".{4}ftypqt  ", "video/quicktime"),
        (rb".{4}ftyp", "video/mp4"),
        (rb"\x1aE\xdf\xa3.{0,60}?\x42\x82.webm", "video/webm"),
        (rb"\x1aE\xdf\xa3.{0,60}?\x42\x82.matroska", "video/x-matroska"),
        (rb"(RIFF|RF64).{4}WAVE", "audio/wav"),
        (rb"OggS\0", "audio/ogg"),
        (rb"fLaC", "audio/flac"),
        (rb"ID3[\x02-\x04]", "audio/mpeg"),
        (rb"\xff[\xf0\xf1\xf8\xf9][" + _ADTS_RATES + rb"]", "audio/aac"),
        (rb"\xff[\xfa\xfb\xf2\xf3\xe2\xe3][" + _MPEG_RATES + rb"]", "audio/mpeg"),
        (rb"%PDF-", "application/pdf"),
    )
)  # fmt: skip
"""First match wins. Sources: the formats' own specifications, and the MIME Sniffing standard (mimesniff.spec.whatwg.org)."""

SNIFFED_BYTES = 512
"""Bytes of a file's beginning that `sniff` reads."""
MAX_JPEG_SEGMENTS = 2000

SNIFFABLE_TYPES = frozenset(media_type for _, media_type in _SIGNATURES)
UNSPECIFIC_TYPES = frozenset(
    {"", "application/octet-stream", "binary/octet-stream", "application/download", "application/force-download"}
)

_ALIASES = {
    "audio/m4a": "audio/mp4",
    "audio/mp3": "audio/mpeg",
    "audio/vnd.wave": "audio/wav",
    "audio/wave": "audio/wav",
    "audio/x-aac": "audio/aac",
    "audio/x-flac": "audio/flac",
    "audio/x-m4a": "audio/mp4",
    "audio/x-wav": "audio/wav",
    "application/ogg": "audio/ogg",
    "application/x-pdf": "application/pdf",
    "image/heif": "image/heic",
    "image/jpg": "image/jpeg",
    "image/pjpeg": "image/jpeg",
    "image/x-ms-bmp": "image/bmp",
    "image/x-png": "image/png",
}

_CONTAINERS = (
    ("video/mp4", "audio/mp4", "video/quicktime", "video/3gpp", "audio/3gpp", "video/x-m4v"),
    ("video/webm", "audio/webm", "video/x-matroska", "audio/x-matroska"),
    ("audio/ogg", "video/ogg", "audio/opus"),
)
"""Media types that share a container format: the first bytes do not show whether the file has a video track."""

_EXTENSIONS = {
    "application/json": "json",
    "application/pdf": "pdf",
    "application/zip": "zip",
    "audio/aac": "aac",
    "audio/flac": "flac",
    "audio/mp4": "m4a",
    "audio/mpeg": "mp3",
    "audio/ogg": "ogg",
    "audio/wav": "wav",
    "audio/webm": "weba",
    "image/avif": "avif",
    "image/bmp": "bmp",
    "image/gif": "gif",
    "image/heic": "heic",
    "image/jpeg": "jpg",
    "image/png": "png",
    "image/svg+xml": "svg",
    "image/tiff": "tiff",
    "image/webp": "webp",
    "text/csv": "csv",
    "text/html": "html",
    "text/plain": "txt",
    "video/mp4": "mp4",
    "video/quicktime": "mov",
    "video/webm": "webm",
    "video/x-matroska": "mkv",
}


class WrongMediaType(Exception):
    """An error: a file has the wrong media type. The message is safe to show to the caller."""


def sniff(data: bytes) -> str:
    """Return the media type that a file's first bytes show, or "" if no known signature matches."""
    beginning = data[:SNIFFED_BYTES]
    return next((media_type for pattern, media_type in _SIGNATURES if pattern.match(beginning)), "")


def normalize_media_type(declared: str) -> str:
    """Return `declared` in lower case, without parameters, aliases replaced: "image/jpg" becomes "image/jpeg"."""
    name = media_type(declared)
    return _ALIASES.get(name, name)


def get_extension(declared: str) -> str:
    """Return the file name extension for a media type, without the dot; "bin" for unknown types."""
    return _EXTENSIONS.get(normalize_media_type(declared), "bin")


def resolve_media_type(data: bytes, declared: str, kinds: Collection[str], *, trusted: bool = True) -> str:
    """Return the media type of a file from its first bytes `data`; the detected type overrides the `declared` one.

    The type must begin with one of `kinds`. With `trusted` false (types declared by servers) a wrong subtype is corrected:
    many servers send image/jpeg for a PNG. With `trusted` true (types declared by clients) it raises WrongMediaType, as does
    a type not in `kinds`, an unknown signature or an empty file.
    """
    declared = normalize_media_type(declared)
    detected = sniff(data)
    expected = " or ".join(f"{kind}*" if kind.endswith("/") else kind for kind in kinds)
    if not detected:
        if not data or declared in SNIFFABLE_TYPES or declared in UNSPECIFIC_TYPES:
            content = "The file's content matches no known format" if data else "The file is empty"
            raise WrongMediaType(
                f"{content}; {_describe_declared_type(declared)}expected here: {expected}. Send a complete, valid file."
            )
        media_type = declared
    else:
        media_type = _choose_media_type(detected, declared, kinds, trusted)
    if not media_type.startswith(tuple(kinds)):
        raise WrongMediaType(
            f"The file is '{media_type[:100]}', but expected here: {expected}. Send a file of that type."
        )
    return media_type


def _choose_media_type(detected: str, declared: str, kinds: Collection[str], trusted: bool) -> str:
    family = next((family for family in _CONTAINERS if detected in family), (detected,))
    if declared in family:
        return declared
    if declared in UNSPECIFIC_TYPES or (declared == "text/plain" and not trusted):
        return next((name for name in (detected, *family) if name.startswith(tuple(kinds))), detected)
    if not trusted and declared.partition("/")[0] == detected.partition("/")[0]:
        return detected
    raise WrongMediaType(
        f"The file is declared as '{declared[:100]}', but its content is '{detected}'. Declare it as '{detected}'."
    )


def _describe_declared_type(declared: str) -> str:
    return f"it is declared as '{declared[:100]}'; " if declared else ""


def parse_image_size(data: bytes) -> tuple[int, int] | None:
    """Return (width, height) in pixels from the header of a PNG, JPEG, GIF or WebP; None for anything else.

    Used to refuse a huge image before it is decoded. The values are the header's values, before any rotation.
    """
    try:
        match sniff(data):
            case "image/png":
                return _unpack_pair(">II", data, 16) if data[12:16] == b"IHDR" else None
            case "image/gif":
                return _unpack_pair("<HH", data, 6)
            case "image/jpeg":
                return _parse_jpeg_size(data)
            case "image/webp":
                return _parse_webp_size(data)
    except (struct.error, IndexError):
        pass  # truncated header
    return None


def _unpack_pair(layout: str, data: bytes, offset: int) -> tuple[int, int]:
    width, height = struct.unpack_from(layout, data, offset)
    return width, height


def _parse_jpeg_size(data: bytes) -> tuple[int, int] | None:
    """Read the frame header (ITU-T T.81 B.2.2); other segments may precede it."""
    at = 2
    for _ in range(MAX_JPEG_SEGMENTS):
        if data[at] != 0xFF:
            return None
        marker = data[at + 1]
        if marker == 0xFF:  # a fill byte
            at += 1
        elif marker == 0x01 or 0xD0 <= marker <= 0xD8:  # these have no length
            at += 2
        elif 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = _unpack_pair(">HH", data, at + 5)
            return width, height
        elif marker in (0xD9, 0xDA):  # end of image, or start of scan
            return None
        else:
            at += 2 + struct.unpack_from(">H", data, at + 2)[0]
    return None


def _parse_webp_size(data: bytes) -> tuple[int, int] | None:
    """Read the first chunk, which is VP8X, VP8L or VP8 (RFC 9649 2.5 to 2.7)."""
    kind = data[12:16]
    if kind == b"VP8X":
        low_width, high_width, low_height, high_height = struct.unpack_from("<HBHB", data, 24)
        return (low_width | high_width << 16) + 1, (low_height | high_height << 16) + 1
    if kind == b"VP8L" and data[20] == 0x2F:
        (bits,) = struct.unpack_from("<I", data, 21)
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        width, height = _unpack_pair("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    return None
