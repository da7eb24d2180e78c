"""What bytes are: recognised by their beginning, measured by their header, never by what somebody says."""

from __future__ import annotations

import base64
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornado_gate.codec.media_types import (
    SNIFFABLE_TYPES,
    WrongMediaType,
    get_extension,
    normalize_media_type,
    parse_image_size,
    resolve_media_type,
    sniff,
)

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 640, 480) + b"\x08\x02\0\0\0"
GIF = b"GIF89a" + struct.pack("<HH", 640, 480) + b"\0\0\0"
FRAME = b"\xff\xc2\0\x11\x08" + struct.pack(">HH", 480, 640) + b"\x03"
JPEG = b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0" + b"\xff\xff\xff\xe1\0\x06abcd" + FRAME


def riff(kind: bytes, body: bytes) -> bytes:
    return b"RIFF" + struct.pack("<I", len(body) + 12) + b"WEBP" + kind + struct.pack("<I", len(body)) + body


LOSSY = riff(b"VP8 ", b"\xf0\x02\0\x9d\x01\x2a" + struct.pack("<HH", 640, 480))
LOSSLESS = riff(b"VP8L", b"\x2f" + struct.pack("<I", 639 | 479 << 14 | 1 << 28))
EXTENDED = riff(b"VP8X", b"\x10\0\0\0" + (639).to_bytes(3, "little") + (479).to_bytes(3, "little"))
TINY_WEBP = base64.b64decode("UklGRhoAAABXRUJQVlA4TA0AAAAvJAAFEAcQERGIiP4HAA==")
"""37 × 21, written by libwebp."""
WEBM = b"\x1aE\xdf\xa3\x9fB\x86\x81\x01B\xf7\x81\x01B\xf2\x81\x04B\xf3\x81\x08B\x82\x84webmB\x87\x81\x04"

KNOWN = [
    (PNG, "image/png"),
    (JPEG, "image/jpeg"),
    (GIF, "image/gif"),
    (GIF.replace(b"89", b"87"), "image/gif"),
    (LOSSY, "image/webp"),
    (b"\0\0\0\x20ftypavif\0\0\0\0avifmif1", "image/avif"),
    (b"\0\0\0\x20ftypavis\0\0\0\0avisavif", "image/avif"),
    (b"\0\0\0\x20ftypmif1\0\0\0\0mif1avif", "image/avif"),
    (b"\0\0\0\x20ftypmif1\0\0\0\0mif1heic", "image/heic"),
    (b"\0\0\0\x20ftypheic\0\0\0\0mif1heic", "image/heic"),
    (b"BM" + bytes(8) + b"\x36\0\0\0\x28\0\0\0", "image/bmp"),
    (b"II*\0\x08\0\0\0", "image/tiff"),
    (b"\0\0\0\x20ftypisom\0\0\x02\0isomiso2", "video/mp4"),
    (b"\0\0\0\x20ftypM4A \0\0\x02\0isomiso2", "audio/mp4"),
    (b"\0\0\0\x14ftypqt  \0\0\x02\0qt  ", "video/quicktime"),
    (WEBM, "video/webm"),
    (WEBM.replace(b"\x84webm", b"\x88matroska"), "video/x-matroska"),
    (b"RIFF\x24\0\0\0WAVEfmt ", "audio/wav"),
    (b"OggS\0\x02", "audio/ogg"),
    (b"fLaC\0\0\0\x22", "audio/flac"),
    (b"ID3\x04\0\0", "audio/mpeg"),
    (b"\xff\xfb\x90\x64", "audio/mpeg"),
    (b"\xff\xf3\x40\xc0", "audio/mpeg"),
    (b"\xff\xf1\x50\x80", "audio/aac"),
    (b"%PDF-1.7\n", "application/pdf"),
]
UNKNOWN = [
    b"", b"B", b"BMW is a maker of cars, and this is text", b"<html>", b"<svg/>", b"{}", b"GIF", b"RIFF1234AVI ", b"\xff\xfe<\0",
    b"\xff\xfb\x00\x00", b"\xff\xfb\xf0\x00", b"\xff\xfb\x9c\x00", b"\xff\xf1\xf4", b"PK\x03\x04", b"\0\0\0\x20moov", b"%PD",
]  # fmt: skip


@pytest.mark.parametrize(("data", "media_type"), KNOWN, ids=lambda value: value if isinstance(value, str) else "")
def test_a_file_is_known_by_its_beginning(data: bytes, media_type: str) -> None:
    assert sniff(data) == media_type
    assert sniff(data + bytes(10_000)) == media_type
    assert media_type in SNIFFABLE_TYPES


@pytest.mark.parametrize("data", UNKNOWN)
def test_anything_else_is_not_known(data: bytes) -> None:
    assert sniff(data) == ""


@pytest.mark.parametrize("data", [PNG, GIF, JPEG, LOSSY, LOSSLESS, EXTENDED])
def test_the_size_of_a_picture_stands_in_its_header(data: bytes) -> None:
    assert parse_image_size(data) == (640, 480)
    assert parse_image_size(data + bytes(1000)) == (640, 480)


def test_the_size_of_a_real_file_is_found() -> None:
    assert parse_image_size(TINY_WEBP) == (37, 21)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<svg width='9' height='9'/>",
        b"%PDF-1.7",
        PNG.replace(b"IHDR", b"IDAT"),
        b"\xff\xd8\xff\xda\0\x08" + FRAME,  # the picture begins before its header
        b"\xff\xd8\xff\xe0\0\x02x" + FRAME,
        b"\xff\xd8" + b"\xff\xe0\0\x02" * 5000 + FRAME,  # headers without end
        b"\xff\xd8" + b"\xff" * 1_000_000,
        riff(b"VP8 ", b"\xf0\x02\0abc" + bytes(8)),
        riff(b"VP8L", b"x" + bytes(8)),
        riff(b"ANIM", bytes(20)),
    ],
)
def test_what_has_no_size_in_a_header_has_none(data: bytes) -> None:
    assert parse_image_size(data) is None


@pytest.mark.parametrize("data", [PNG, GIF, JPEG, LOSSY, LOSSLESS, EXTENDED])
def test_a_picture_that_is_cut_off_has_a_size_or_none(data: bytes) -> None:
    assert {parse_image_size(data[:length]) for length in range(len(data))} <= {None, (640, 480)}


@given(st.sampled_from([data[:12] for data, _ in KNOWN] + [LOSSY[:16], LOSSLESS[:16], EXTENDED[:16]]), st.binary())
def test_no_bytes_are_too_strange(beginning: bytes, rest: bytes) -> None:
    sniff(beginning + rest)
    parse_image_size(beginning + rest)


def test_a_type_has_one_name_and_an_extension() -> None:
    assert normalize_media_type(" Image/JPG; q=1") == "image/jpeg"
    assert normalize_media_type("audio/x-wav") == "audio/wav"
    assert get_extension("image/jpg") == "jpg"
    assert get_extension("text/plain; charset=utf-8") == "txt"
    assert get_extension("application/x-unheard-of") == "bin"
    assert get_extension("") == "bin"
    assert all(Path("a." + get_extension(media_type)).suffix != ".bin" for media_type in SNIFFABLE_TYPES)


@pytest.mark.parametrize(
    ("data", "declared", "kinds", "expected"),
    [
        (PNG, "image/png", ["image/"], "image/png"),
        (PNG, "", ["audio/", "image/"], "image/png"),
        (PNG, "application/octet-stream", ["image/png"], "image/png"),
        (WEBM, "audio/webm;codecs=opus", ["audio/"], "audio/webm"),  # the container of either: who declares it knows
        (WEBM, "", ["audio/"], "audio/webm"),
        (WEBM, "", ["video/", "audio/"], "video/webm"),
        (b"OggS\0\x02", "video/ogg", ["video/"], "video/ogg"),
        (b"\0\0\0\x20ftypisom", "audio/x-m4a", ["audio/"], "audio/mp4"),
        (b"hello", "text/plain; charset=utf-8", ["text/"], "text/plain"),
    ],
)
def test_what_is_declared_and_what_is_there_agree(data: bytes, declared: str, kinds: list[str], expected: str) -> None:
    assert resolve_media_type(data, declared, kinds) == expected


@pytest.mark.parametrize(
    ("data", "declared", "kinds", "says"),
    [
        (PNG, "image/jpeg", ["image/"], "content is 'image/png'"),
        (PNG, "text/plain", ["image/"], "declared as 'text/plain'"),
        (PNG, "image/png", ["audio/", "video/"], "expected here: audio/* or video/*"),
        (b"hello", "image/png", ["image/"], "matches no known format"),
        (b"hello", "", ["image/"], "matches no known format; expected here: image/*"),
        (b"", "text/plain", ["text/"], "empty"),
        (b"hello", "text/plain", ["image/"], "Send a file of that type"),
    ],
)
def test_what_does_not_agree_is_refused_in_words(data: bytes, declared: str, kinds: list[str], says: str) -> None:
    with pytest.raises(WrongMediaType) as caught:
        resolve_media_type(data, declared, kinds)
    assert says in str(caught.value)
