"""What the embedded provider does beyond chat: one module for each operation, from the common request to its events.

Each has a ``prepare(call, request)``, which looks at the cheap things, reports what cannot be honoured and returns a `Work`:
nothing is made before its events are read, so that deadlines hold and a caller who leaves stops it.
"""

from __future__ import annotations

from tornado_gate.types import Call, EmbeddingRequest, ImageRequest, ModerationRequest, Request, SpeechRequest
from tornado_gate_local.operations import embeddings, moderation, pictures, speech
from tornado_gate_local.operations.work import Work


def prepare(call: Call, request: Request) -> Work | None:
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
    return None
