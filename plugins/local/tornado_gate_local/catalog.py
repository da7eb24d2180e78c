"""The operations of this provider's models, by the prefix of the upstream model name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tornado_gate_local import media
from tornado_gate_local.vectors import MAX_TEXTS

INPUTS_AT_ONCE: Final = MAX_TEXTS

CHAT: Final = frozenset({"chat", "count_tokens"})
MODERATION: Final = frozenset({"moderation"})
PICTURES: Final = frozenset({"images", "image_edits"})
SPEECH: Final = frozenset({"speech"})
VIDEOS: Final = frozenset({"videos"})
VOICE: Final = frozenset({"realtime"})
TEXTS: Final = CHAT | MODERATION | {"embeddings"}
MEDIA: Final = PICTURES | SPEECH | VIDEOS | VOICE

MODELS: Final[Mapping[str, frozenset[str]]] = {
    "local-chat*": CHAT,
    "local-embed*": frozenset({"embeddings"}),
    "local-moderation*": MODERATION,
    "text-moderation-*": MODERATION,
    "omni-moderation-*": MODERATION,
    "local-image*": PICTURES,
    "local-tts*": SPEECH,
    "local-video*": VIDEOS,
    "local-realtime*": VOICE,
    "*": CHAT,
}
"""The first matching pattern counts. Any other name is a chat model."""


def list_available_operations() -> frozenset[str]:
    """The operations that work with the installed packages."""
    return TEXTS | MEDIA if media.is_installed() else TEXTS


def list_model_names() -> list[str]:
    """The names of the models that work with the installed packages."""
    available = list_available_operations()
    names = (pattern.removesuffix("*") for pattern, operations in MODELS.items() if operations & available)
    return [name for name in names if name.startswith("local-")]


def list_missing_operations() -> dict[str, str]:
    """The operations that need a package which is not installed, with the command that installs it."""
    return {} if media.is_installed() else dict.fromkeys(sorted(MEDIA), media.INSTALL)
