"""data: URLs (RFC 2397)."""

from __future__ import annotations

import asyncio
import base64
from urllib.parse import unquote_to_bytes

from tornado_gate.http.fetch.addresses import Refused, too_large

LONGEST_IN_LOOP = 256 * 1024
"""Characters of a data: URL that are decoded without a thread."""
LONGEST_HEAD = 1000

_BASE64_URL = bytes.maketrans(b"-_", b"+/")


async def decoded_url(url: str, most: int) -> tuple[bytes, str]:
    """`decode`, beside the event loop when it takes long."""
    if len(url) > LONGEST_IN_LOOP:
        return await asyncio.to_thread(decode, url, most)
    return decode(url, most)


def decode(url: str, most: int) -> tuple[bytes, str]:
    """The bytes of a data: URL, at most `most`, and the type that it declares, "" for none. Raises Refused."""
    head, comma, body = url[5:].partition(",")
    if not comma or len(head) > LONGEST_HEAD:
        raise Refused("invalid_url", "This data: URL is not valid.", "Write it as data:image/png;base64,….")
    declared, *parameters = [word.strip().lower() for word in head.split(";")]
    if "base64" not in parameters:
        data = unquote_to_bytes(body) if len(body) <= 3 * most else bytes(most + 1)
    elif len(body) > most * 4 // 3 + 4:
        raise too_large(most)
    else:
        try:
            raw = unquote_to_bytes(body).translate(_BASE64_URL, b"\r\n\t ")
            data = base64.b64decode(raw + b"=" * (-len(raw) % 4), validate=True)
        except ValueError:
            raise Refused(
                "invalid_url", "The data: URL does not hold valid base64.", "Encode the file again."
            ) from None
    if len(data) > most:
        raise too_large(most)
    return data, declared
