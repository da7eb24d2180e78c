"""Paths below an upstream's base URL: the wire format and the operation of each. Pure.

Source: openai-python 3.52, resources/ (chat, completions, responses, embeddings, moderations, images, audio, videos).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tornado_gate.types.value import Value
from tornado_gate_openai.wire import formats

CHAT: Final = "/chat/completions"
COMPLETIONS: Final = "/completions"
RESPONSES: Final = "/responses"
COMPACT: Final = "/responses/compact"
INPUT_TOKENS: Final = "/responses/input_tokens"
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
"""Not a verbatim path: the gateway stores the task under its own id."""

OPERATIONS: Final = (
    "chat", "embeddings", "moderation", "images", "image_edits", "speech", "transcription", "videos", "realtime",
)  # fmt: skip
"""All operations that upstreams of this kind may have."""


class Endpoint(Value, frozen=True):
    """The paths of one wire format. The first is the default, unless the caller's path ends with another of them."""

    operation: str
    paths: tuple[str, ...]

    def choose_path(self, callers: str) -> str:
        """The upstream path for a request at `callers`, e.g. ``/v1/engines/ada/embeddings``."""
        if len(self.paths) == 1:
            return self.paths[0]
        caller_path = callers.rstrip("/")
        return next((path for path in self.paths if caller_path.endswith(path)), self.paths[0])


ENDPOINT_OF_FORMAT: Final[Mapping[str, Endpoint]] = {
    formats.OPENAI_CHAT: Endpoint("chat", (CHAT,)),
    formats.OPENAI_COMPLETIONS: Endpoint("chat", (COMPLETIONS,)),
    formats.OPENAI_RESPONSES: Endpoint("chat", (RESPONSES,)),
    formats.OPENAI_COMPACTIONS: Endpoint("chat", (COMPACT,)),
    formats.OPENAI_INPUT_TOKENS: Endpoint("count_tokens", (INPUT_TOKENS,)),
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
"""Endings of a full endpoint URL, the longest first."""
