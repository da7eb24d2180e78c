"""The operations of this provider's models, by the prefix of the upstream model name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tornado_gate_local.media.embeddings import MAX_TEXTS
from tornado_gate_local.media.errors import is_installed

INPUTS_AT_ONCE: Final = MAX_TEXTS

CHAT: Final = frozenset({"chat", "count_tokens"})
MODERATION: Final = frozenset({"moderation"})
PICTURES: Final = frozenset({"images", "image_edits"})
VIDEOS: Final = frozenset({"videos"})
VOICE: Final = frozenset({"realtime"})

MODELS: Final[Mapping[str, frozenset[str]]] = {
    "local-chat*": CHAT,
    "local-embed*": frozenset({"embeddings"}),
    "local-moderation*": MODERATION,
    "text-moderation-*": MODERATION,
    "omni-moderation-*": MODERATION,
    "local-image*": PICTURES,
    "local-tts*": frozenset({"speech"}),
    "local-video*": VIDEOS,
    "local-realtime*": VOICE,
    "*": CHAT,
}
"""The first matching pattern counts. Any other name is a chat model."""


def list_available_operations() -> frozenset[str]:
    """The operations that work with the installed libraries: images need Pillow, videos also PyAV."""
    pictures = PICTURES if is_installed("PIL") else frozenset()
    videos = VIDEOS if pictures and is_installed("av") else frozenset()
    return CHAT | MODERATION | VOICE | {"embeddings", "speech"} | pictures | videos
