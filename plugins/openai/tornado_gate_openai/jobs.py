"""How an upstream is called: the core's way, but that a video's job which is not there is an answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from tornado_gate.errors import UpstreamRefused
from tornado_gate.http import upstream
from tornado_gate.types import (
    Call,
    UpstreamRequest,
    UpstreamResponse,
    VideoCancel,
    VideoDownload,
    VideoPoll,
    VideoRequest,
)

AnyVideo = VideoRequest | VideoPoll | VideoDownload | VideoCancel

ABOUT_A_JOB: Final = "about a job"
"""The context of a request whose 404 is an answer: there is no such job."""
_GONE: Final = (404, 410)
LOST: Final = "lost"
"""The context of that answer."""


async def called(call: Call, outgoing: UpstreamRequest) -> UpstreamResponse:
    """The default call, but that a job which the upstream does not know is no error."""
    try:
        return await upstream.call_upstream(call, outgoing)
    except UpstreamRefused as refused:
        if outgoing.context != ABOUT_A_JOB or refused.status not in _GONE:
            raise
        return UpstreamResponse(chunks=_nothing(), context=LOST)


async def _nothing() -> AsyncIterator[bytes]:
    empty: tuple[bytes, ...] = ()
    for chunk in empty:
        yield chunk
