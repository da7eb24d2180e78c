"""What the embedded provider does beyond chat: one module for each operation, from the common request to its events.

Each has a ``prepare(call, request)``, which looks at the cheap things, reports what cannot be honoured and returns a `Work`:
nothing is made before its events are read, so that deadlines hold and a caller who leaves stops it. Only a video goes on
after its events: they say that it was begun.
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
from tornado_gate_local.operations import embeddings, moderation, pictures, speech, videos
from tornado_gate_local.operations.work import OperationWork


async def prepare(call: Call, request: Request) -> OperationWork | videos.VideoDownloadWork | None:
    """The work that a request asks for; None for one that is not served here. Raises InvalidField."""
    match request:
        case EmbeddingRequest():
            return embeddings.prepare(call, request)
        case ModerationRequest():
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
