"""The operations of the embedded provider beyond chat: one module each, from the common request to its stream events.

Each has a ``prepare(call, request)``, which makes the cheap checks, reports unsupported fields and returns an
`OperationWork`: the work runs while its events are read, so that timeouts apply and a closed connection stops it.
Only a video continues after its events, which report that its job has started.
"""

from __future__ import annotations

from tornado_gate.types import (
    Call,
    EmbeddingRequest,
    ImageRequest,
    ModerationRequest,
    Request,
    SpeechRequest,
    VideoCancel,
    VideoDownload,
    VideoPoll,
    VideoRequest,
)
from tornado_gate_local.operations import embeddings, pictures, speech, videos
from tornado_gate_local.operations.work import OperationWork


async def prepare(call: Call, request: Request) -> OperationWork | videos.VideoDownloadWork | None:
    """The prepared work of a request; None for an operation that is not served. Raises InvalidField."""
    match request:
        case EmbeddingRequest():
            return embeddings.prepare(call, request)
        case ModerationRequest():
            from tornado_gate_local.operations import moderation  # compiles a hundred patterns

            return moderation.prepare(call, request)
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
