"""Replaces file URLs in a request by file data, where an upstream does not accept these URLs.

The core's fetcher fetches all files, with its checks and limits. A file that cannot be fetched is a 400 that names its part.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tornado_gate.errors import InvalidField
from tornado_gate.http.fetch.pictures import encode as encode_in_slices
from tornado_gate.types import Audio, Call, ChatRequest, Data, File, Image, Link, Part
from tornado_gate.types.value import replace

MAX_LINKS: Final = 20
"""Maximum URLs in one request; each is a download."""

MEDIA_TYPE_PREFIXES: Final[dict[type, tuple[str, ...]]] = {
    Image: ("image/",),
    Audio: ("audio/",),
    File: ("application/", "text/", "image/", "audio/", "video/"),
}


def has_link(request: ChatRequest, needs: Callable[[Link], bool]) -> bool:
    """Return whether a part of the request has an http(s) URL for which `needs` is true."""
    return any(_is_wanted(part, needs) for message in request.messages for part in message.parts)


async def inline_links(call: Call, request: ChatRequest, needs: Callable[[Link], bool]) -> ChatRequest:
    """`request` with each http(s) URL for which `needs` is true replaced by its data.

    Raises InvalidField for a file that cannot be fetched, and for more than `MAX_LINKS` URLs.
    """
    if call.fetcher is None:
        return request
    linked = [
        (number, index, part, part.source)
        for number, message in enumerate(request.messages)
        for index, part in enumerate(message.parts)
        if isinstance(part, Image | Audio | File) and isinstance(part.source, Link) and _is_wanted(part, needs)
    ]
    if len(linked) > MAX_LINKS:
        number, index, _, _ = linked[MAX_LINKS]
        raise InvalidField(
            request.path(number, index),
            f"The request has more than {MAX_LINKS} file URLs. Send fewer files, or embed them as base64.",
        )
    messages = list(request.messages)
    for number, index, part, link in linked:
        fetched = await call.fetcher.fetch(
            link.url, kinds=MEDIA_TYPE_PREFIXES[type(part)], param=request.path(number, index)
        )
        source = Data(media_type=fetched.media_type, base64=await encode_in_slices(fetched.data))
        parts: list[Part] = list(messages[number].parts)
        parts[index] = replace(part, source=source)
        messages[number] = replace(messages[number], parts=tuple(parts))
    return replace(request, messages=tuple(messages)) if linked else request


def _is_wanted(part: Part, needs: Callable[[Link], bool]) -> bool:
    if not isinstance(part, Image | Audio | File) or not isinstance(part.source, Link):
        return False
    return part.source.url[:8].lower().startswith(("http://", "https://")) and needs(part.source)
