"""data: URLs (RFC 2397)."""

from __future__ import annotations

import asyncio
import base64
from urllib.parse import unquote_to_bytes

from tornado_gate.http.fetch.addresses import FetchRefused, too_large_error

MAX_LENGTH_IN_LOOP = 256 * 1024
"""Up to this many characters, a data: URL is decoded without a thread."""
MAX_HEAD_LENGTH = 1000

_BASE64_URL = bytes.maketrans(b"-_", b"+/")


async def decode_data_url_in_thread(url: str, most: int) -> tuple[bytes, str]:
    """As `decode_data_url`, in a thread if the URL is long."""
    if len(url) > MAX_LENGTH_IN_LOOP:
        return await asyncio.to_thread(decode_data_url, url, most)
    return decode_data_url(url, most)


def decode_data_url(url: str, most: int) -> tuple[bytes, str]:
    """Return the bytes of a data: URL and its declared type, "" for none. Raises FetchRefused, also above `most` bytes."""
    head, comma, body = url[5:].partition(",")
    if not comma or len(head) > MAX_HEAD_LENGTH:
        raise FetchRefused("invalid_url", "This data: URL is not valid.", "Write it as data:image/png;base64,….")
    declared, *parameters = [word.strip().lower() for word in head.split(";")]
    if "base64" not in parameters:
        data = unquote_to_bytes(body) if len(body) <= 3 * most else bytes(most + 1)
    elif len(body) > most * 4 // 3 + 4:
        raise too_large_error(most)
    else:
        try:
            raw = unquote_to_bytes(body).translate(_BASE64_URL, b"\r\n\t ")
            data = base64.b64decode(raw + b"=" * (-len(raw) % 4), validate=True)
        except ValueError:
            raise FetchRefused(
                "invalid_url", "The data: URL does not contain valid base64.", "Encode the file again."
            ) from None
    if len(data) > most:
        raise too_large_error(most)
    return data, declared
