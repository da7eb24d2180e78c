"""Names of the wire formats, for tables of routes and endpoints that are built before a format's module is imported.

Each format's module also exports its name as `WIRE_FORMAT`, but importing it from there imports the whole module.
"""

from __future__ import annotations

from typing import Final

from tornado_gate.wire.conversation_formats import OPENAI_CHAT, OPENAI_RESPONSES

__all__ = [
    "DASHSCOPE_IMAGES",
    "OPENAI_CHAT",
    "OPENAI_COMPACTIONS",
    "OPENAI_COMPLETIONS",
    "OPENAI_EMBEDDINGS",
    "OPENAI_IMAGES",
    "OPENAI_IMAGE_EDITS",
    "OPENAI_INPUT_TOKENS",
    "OPENAI_MODERATIONS",
    "OPENAI_REALTIME",
    "OPENAI_RESPONSES",
    "OPENAI_SPEECH",
    "OPENAI_TRANSCRIPTIONS",
]

DASHSCOPE_IMAGES: Final = "dashscope-images"
OPENAI_COMPACTIONS: Final = "openai-compactions"
OPENAI_COMPLETIONS: Final = "openai-completions"
OPENAI_EMBEDDINGS: Final = "openai-embeddings"
OPENAI_IMAGE_EDITS: Final = "openai-image-edits"
OPENAI_IMAGES: Final = "openai-images"
OPENAI_INPUT_TOKENS: Final = "openai-input-tokens"
OPENAI_MODERATIONS: Final = "openai-moderations"
OPENAI_REALTIME: Final = "openai-realtime"
OPENAI_SPEECH: Final = "openai-speech"
OPENAI_TRANSCRIPTIONS: Final = "openai-transcriptions"
