"""Images of a chat at the gateway's addresses. They are sent as data, because an upstream may be unable to fetch them."""

from __future__ import annotations

import base64

from tornado_gate.types import Call, ChatRequest, Data, Image, Link, Message, Part, Request
from tornado_gate.types.call import UrlFetcher
from tornado_gate.types.value import replace

MARK = b"signature="
"""The bytes that every address signed by the gateway contains."""
RARE_BYTE = MARK.index(b"=")


async def inline_own_links(call: Call, request: Request) -> Request:
    """Return `request` with the data of images at the gateway's addresses instead of these addresses. Its body has the MARK.

    Raises InvalidField for an expired address.
    """
    fetcher = call.fetcher
    if fetcher is None or not isinstance(request, ChatRequest):
        return request
    messages = [
        await _inline_message(fetcher, request, number, message) for number, message in enumerate(request.messages)
    ]
    return replace(request, messages=tuple(messages))


async def _inline_message(fetcher: UrlFetcher, request: ChatRequest, number: int, message: Message) -> Message:
    parts: list[Part] = []
    for index, part in enumerate(message.parts):
        fetched = None
        if isinstance(part, Image) and isinstance(part.source, Link):
            param = request.path(number, index)
            fetched = await fetcher.read_own(part.source.url, kinds=("image/",), param=param)
        if fetched is None:
            parts.append(part)
        else:
            source = Data(media_type=fetched.media_type, base64=base64.b64encode(fetched.data).decode())
            parts.append(replace(part, source=source))
    return replace(message, parts=tuple(parts))
