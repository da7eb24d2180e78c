"""data: URLs (RFC 2397)."""

from __future__ import annotations

import asyncio

from tornado_gate.codec import text_files
from tornado_gate.http.fetch.addresses import FetchRefused, too_large_error

MAX_LENGTH_IN_LOOP = 256 * 1024
"""Up to this many characters, a data: URL is decoded without a thread."""


async def decode_data_url_in_thread(url: str, most: int) -> tuple[bytes, str]:
    """Return the result of `decode_data_url`, in a thread if the URL is long."""
    if len(url) > MAX_LENGTH_IN_LOOP:
        return await asyncio.to_thread(decode_data_url, url, most)
    return decode_data_url(url, most)


def decode_data_url(url: str, most: int) -> tuple[bytes, str]:
    """Return the bytes of a data: URL and its declared type, "" for none. Raises FetchRefused, also above `most` bytes."""
    try:
        parsed = text_files.parse_data_url(url)
        if parsed is None:
            raise text_files.UnreadableFile("is not a data URL")
        if len(parsed.data) > most * (4 / 3 if parsed.is_base64 else 3) + 4:
            raise too_large_error(most)
        data = parsed.decode()
    except text_files.UnreadableFile as fault:
        raise FetchRefused(
            "invalid_url", f"This data: URL is not valid: it {fault.reason}.", "Write it as data:image/png;base64,…."
        ) from None
    if len(data) > most:
        raise too_large_error(most)
    return data, parsed.media_type
