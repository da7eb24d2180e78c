"""The media operations: one module each, from the common request to its stream events.

Each has a ``prepare(call, request)``, which makes the cheap checks, reports unsupported fields and returns an
`OperationWork`: the work runs while its events are read, so that timeouts apply and a closed connection stops it.
Only a video continues after its events, which report that its job has started.

The functions of this module are `tornado_gate_local.media.MediaPackage`.
"""

from __future__ import annotations

from tornado_gate.types import (
    Call,
    ImageRequest,
    RealtimeRequest,
    Request,
    Socket,
    SpeechRequest,
    VideoCancel,
    VideoDownload,
    VideoPoll,
    VideoRequest,
)
from tornado_gate_demo_media.operations import pictures, speech, videos
from tornado_gate_local.operations.work import DownloadWork, OperationWork


async def prepare(call: Call, request: Request) -> OperationWork | DownloadWork | None:
    """The prepared work of a request; None for an operation that is not served. Raises InvalidField."""
    match request:
        case ImageRequest():
            return pictures.prepare(call, request)
        case SpeechRequest():
            return speech.prepare(call, request)
        case VideoRequest():
            return await videos.prepare(call, request)
        case VideoPoll():
            return videos.VideoPollWork(request)
        case VideoDownload():
            return videos.VideoDownloadWork(request)
        case VideoCancel():
            return videos.VideoCancelWork(request)
    return None


def open_session(call: Call, request: RealtimeRequest, pace_seconds: float) -> Socket:
    """Open a voice session, which ends with the call. Raises InvalidField when a fixed field is not supported."""
    from tornado_gate_demo_media import realtime

    session = realtime.open_session(call, request, pace_seconds)
    call.closing.push_async_callback(session.close)
    return session
