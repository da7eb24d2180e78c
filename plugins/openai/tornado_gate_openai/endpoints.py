"""Which wire format is spoken at which path below an upstream's address, and what is done there. Pure.

Source: openai-python 3.52, resources/ (chat, completions, responses, embeddings, moderations, images, audio, videos).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tornado_gate.types.value import Value
from tornado_gate.wire import formats

CHAT: Final = "/chat/completions"
COMPLETIONS: Final = "/completions"
RESPONSES: Final = "/responses"
EMBEDDINGS: Final = "/embeddings"
MODERATIONS: Final = "/moderations"
GENERATIONS: Final = "/images/generations"
EDITS: Final = "/images/edits"
VARIATIONS: Final = "/images/variations"
SPEECH: Final = "/audio/speech"
TRANSCRIPTIONS: Final = "/audio/transcriptions"
TRANSLATIONS: Final = "/audio/translations"
REALTIME: Final = "/realtime"
VIDEOS: Final = "/videos"
"""Not spoken as it comes: the gateway keeps the task, under a name of its own."""

OPERATIONS: Final = (
    "chat", "embeddings", "moderation", "images", "image_edits", "speech", "transcription", "videos", "realtime",
)  # fmt: skip
"""All that can be done at some upstream of this kind."""


class Endpoint(Value, frozen=True):
    """Where bodies of one wire format go: `paths`, of which the first is meant unless the caller's own path ends with another."""

    operation: str
    paths: tuple[str, ...]

    def choose_path(self, callers: str) -> str:
        """The path for a request that came at `callers`, e.g. ``/v1/engines/ada/embeddings``."""
        if len(self.paths) == 1:
            return self.paths[0]
        asked = callers.rstrip("/")
        return next((path for path in self.paths if asked.endswith(path)), self.paths[0])


ENDPOINT_OF_FORMAT: Final[Mapping[str, Endpoint]] = {
    formats.OPENAI_CHAT: Endpoint("chat", (CHAT,)),
    formats.OPENAI_COMPLETIONS: Endpoint("chat", (COMPLETIONS,)),
    formats.OPENAI_RESPONSES: Endpoint("chat", (RESPONSES,)),
    formats.OPENAI_EMBEDDINGS: Endpoint("embeddings", (EMBEDDINGS,)),
    formats.OPENAI_MODERATIONS: Endpoint("moderation", (MODERATIONS,)),
    formats.OPENAI_IMAGES: Endpoint("images", (GENERATIONS,)),
    formats.OPENAI_IMAGE_EDITS: Endpoint("image_edits", (EDITS, VARIATIONS)),
    formats.OPENAI_SPEECH: Endpoint("speech", (SPEECH,)),
    formats.OPENAI_TRANSCRIPTIONS: Endpoint("transcription", (TRANSCRIPTIONS, TRANSLATIONS)),
}
"""By wire format."""

ALL_PATHS: Final = sorted(
    (VIDEOS, REALTIME, *(path for endpoint in ENDPOINT_OF_FORMAT.values() for path in endpoint.paths)),
    key=len,
    reverse=True,
)
"""How the whole address of an endpoint may end, the longest first."""
