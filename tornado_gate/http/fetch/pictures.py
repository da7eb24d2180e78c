"""Images that a caller supplied: fetched or decoded, and checked before any code decodes their pixels.

Public, for plugins. The type is detected from the first bytes. A file that is not an image, has another type than declared, or
announces too many pixels causes a 400 that names the caller's field.
"""

from __future__ import annotations

import asyncio
import binascii
from collections.abc import Collection, Iterator

from tornado_gate.codec import text_files
from tornado_gate.codec.media_types import WrongMediaType, parse_image_size, resolve_media_type, sniff
from tornado_gate.errors import InvalidField
from tornado_gate.types import Call, Data, FileSource, Link, Upload
from tornado_gate.types.value import Value

MAX_PIXELS = 64 * 1024 * 1024
"""Limit of one image; a decoded pixel takes four bytes."""
MAX_BYTES = 50 * 1024 * 1024
"""Limit of one image, the same as gpt-image's vendor has (openai-python 3.52, types/image_edit_params.py)."""
HEADER_BYTES = 256 * 1024
"""Bytes that are read first to find the header."""
MAX_HEADER_BYTES = 17 * 1024 * 1024
"""Maximum offset of a JPEG's header: after a colour profile of 255 segments (ICC.1:2022 B.4), and more."""
DECODED_CHARS = 512 * 1024
"""Base64 characters decoded in one step: 2 ms."""
ENCODED_BYTES = 768 * 1024
"""Bytes encoded in one step: 1 ms. A multiple of three, so that the chunks can be joined."""

_TO_STANDARD_ALPHABET = bytes.maketrans(b"-_", b"+/")
_LINE_BREAKS = b" \t\r\n\f"
_ESCAPES = tuple((b"%" + code, sign) for code, sign in (
    (b"2B", b"+"), (b"2b", b"+"), (b"2F", b"/"), (b"2f", b"/"), (b"3D", b"="), (b"3d", b"="), (b"0D", b""), (b"0d", b""),
    (b"0A", b""), (b"0a", b""), (b"20", b""),
))  # fmt: skip

IMAGE_MEDIA_TYPES = ("image/png", "image/jpeg", "image/webp", "image/gif")
"""Image types whose headers can be parsed here."""


class ImageFile(Value, frozen=True, kw_only=True):
    """An encoded image; `width` and `height` are pixels."""

    data: bytes
    media_type: str
    width: int
    height: int

    hidden_fields = frozenset({"data"})


def inspect(
    beginning: bytes, declared: str, param: str, kinds: Collection[str] = IMAGE_MEDIA_TYPES
) -> tuple[str, int, int]:
    """Return media type, width and height, given the first bytes. Raises InvalidField for the caller's field `param`."""
    try:
        media_type = resolve_media_type(beginning, declared, kinds)
    except WrongMediaType as wrong:
        raise InvalidField(param, str(wrong), code="wrong_media_type") from None
    size = parse_image_size(beginning)
    if size is None or not all(size):
        message = f"'{param}' is not a complete image: its header contains no size. Send a valid file."
        raise InvalidField(param, message, code="invalid_image")
    if size[0] * size[1] > MAX_PIXELS:
        message = f"'{param}' has {size[0]} by {size[1]} pixels; at most {MAX_PIXELS:,} in all are allowed."
        raise InvalidField(param, message, code="image_too_large")
    return media_type, *size


async def check(source: FileSource, param: str) -> tuple[str, int, int] | None:
    """Return media type, width and height of an image in the request, from its header.

    None for a URL, which is checked when it is fetched. Raises InvalidField for the caller's field `param`.
    """
    if isinstance(source, Link):
        return None
    size = _estimate_decoded_bytes(source.base64) if isinstance(source, Data) else source.size
    _check_bytes(size, param)
    beginning = await _read_beginning(source, HEADER_BYTES, param)
    if size > HEADER_BYTES and sniff(beginning) == "image/jpeg" and parse_image_size(beginning) is None:
        beginning = await _read_beginning(source, MAX_HEADER_BYTES, param)
    return inspect(beginning, source.media_type, param)


async def read_image(call: Call, source: FileSource, param: str) -> ImageFile:
    """Return the complete image, fetched if it is a URL. Raises InvalidField for the caller's field `param`."""
    if isinstance(source, Link):
        if call.fetcher is None:
            raise InvalidField(param, f"'{param}' is a URL; only files are accepted here.")
        fetched = await call.fetcher.fetch(source.url, kinds=("image/",), param=param)
        data, declared = fetched.data, fetched.media_type
        _check_bytes(len(data), param)
    elif isinstance(source, Data):
        _check_bytes(_estimate_decoded_bytes(source.base64), param)
        data, declared = await decode(source.base64, param), source.media_type
    else:
        _check_bytes(source.size, param)
        data, declared = await source.read(), source.media_type
    media_type, width, height = inspect(data, declared, param)
    return ImageFile(data=data, media_type=media_type, width=width, height=height)


async def _read_beginning(source: Data | Upload, size: int, param: str) -> bytes:
    if not isinstance(source, Data):
        return await source.read(size)
    chars = size // 3 * 4
    return await decode(source.base64[:chars], param, whole=len(source.base64) <= chars)


def _check_bytes(size: int, param: str) -> None:
    if size > MAX_BYTES:
        raise InvalidField(
            param, f"'{param}' has {size:,} bytes; at most {MAX_BYTES:,} are allowed.", code="image_too_large"
        )


def _estimate_decoded_bytes(text: str) -> int:
    return len(text) * 3 // 4


async def decode(text: str, param: str, *, whole: bool = True) -> bytes:
    """Decode base64 in either alphabet, with or without padding; line breaks and URL %-escapes are accepted.

    With `whole` false, the text is a prefix of any length. Yields to the event loop between chunks. Raises InvalidField for the
    caller's field `param`.
    """
    pieces = []
    try:
        for piece in _iterate_decoded(text, whole):
            pieces.append(piece)
            await asyncio.sleep(0)
    except ValueError:  # the base class of binascii.Error, also raised by encode
        raise InvalidField(param, f"'{param}' contains data that is not base64.", code="invalid_base64") from None
    return b"".join(pieces)


async def encode(data: bytes) -> str:
    """Return the base64 of `data`. Yields to the event loop between chunks."""
    pieces = []
    for start in range(0, len(data), ENCODED_BYTES):
        pieces.append(binascii.b2a_base64(data[start : start + ENCODED_BYTES], newline=False))
        await asyncio.sleep(0)
    return b"".join(pieces).decode("ascii")


def _iterate_decoded(text: str, whole: bool) -> Iterator[bytes]:
    """Yield decoded chunks. Raises ValueError."""
    remainder, escape, padding = b"", b"", b""
    for start in range(0, len(text), DECODED_CHARS):
        signs, escape = _unescape_percent(escape + text[start : start + DECODED_CHARS].encode("ascii"))
        signs, sign, behind = signs.translate(_TO_STANDARD_ALPHABET, _LINE_BREAKS).partition(b"=")
        if (padding and signs) or behind.strip(b"="):
            raise ValueError("data after the padding")
        padding = padding or sign
        signs = remainder + signs
        ends = len(signs) // 4 * 4
        yield binascii.a2b_base64(signs[:ends], strict_mode=True)
        remainder = signs[ends:]
    remainder += escape
    if whole and remainder:
        yield binascii.a2b_base64(remainder + b"=" * (-len(remainder) % 4), strict_mode=True)


def _unescape_percent(text: bytes) -> tuple[bytes, bytes]:
    """Return the text with its %-escapes resolved, and an incomplete escape at its end."""
    if b"%" not in text:
        return text, b""
    cut = text.rfind(b"%", len(text) - 2)
    text, rest = (text, b"") if cut < 0 else (text[:cut], text[cut:])
    for escape, sign in _ESCAPES:
        text = text.replace(escape, sign)
    return text, rest


def parse_data_url(url: str, param: str) -> Data:
    """Parse a ``data:`` URL. Raises InvalidField if it is not base64."""
    try:
        parsed = text_files.parse_data_url(url)
    except text_files.UnreadableFile:
        parsed = None
    if parsed is None or not parsed.is_base64:
        raise InvalidField(param, f"'{param}' must be 'data:MEDIA/TYPE;base64,…'.", code="invalid_url")
    return Data(media_type=parsed.media_type, base64=parsed.data)


def parse_image_source(value: str, param: str) -> Data | Link:
    """Parse a caller's image: an http(s) URL, a ``data:`` URL, or plain base64. Raises InvalidField."""
    begins = value[:8].lower()
    if begins.startswith("data:"):
        return parse_data_url(value, param)
    if begins.startswith(("http://", "https://")):
        return Link(url=value)
    if not value or ":" in value[:20]:
        message = f"'{param}' must be an http(s) URL, a data: URL or base64."
        raise InvalidField(param, message, code="invalid_url")
    return Data(media_type="", base64=value)
