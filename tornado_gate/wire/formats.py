"""Names of the wire formats, for tables of routes and endpoints that are built before a format's module is imported.

Each format's module also exports its name as `WIRE_FORMAT`, but importing it from there imports the whole module.
"""

from __future__ import annotations

from typing import Final

ANTHROPIC_MESSAGES: Final = "anthropic-messages"
DASHSCOPE_IMAGES: Final = "dashscope-images"
GEMINI_EMBEDDINGS: Final = "gemini-embeddings"
GEMINI_GENERATE: Final = "gemini-generate"
GEMINI_INTERACTIONS: Final = "gemini-interactions"
OPENAI_CHAT: Final = "openai-chat"
OPENAI_COMPACTIONS: Final = "openai-compactions"
OPENAI_COMPLETIONS: Final = "openai-completions"
OPENAI_EMBEDDINGS: Final = "openai-embeddings"
OPENAI_IMAGE_EDITS: Final = "openai-image-edits"
OPENAI_IMAGES: Final = "openai-images"
OPENAI_INPUT_TOKENS: Final = "openai-input-tokens"
OPENAI_MODERATIONS: Final = "openai-moderations"
OPENAI_REALTIME: Final = "openai-realtime"
OPENAI_RESPONSES: Final = "openai-responses"
OPENAI_SPEECH: Final = "openai-speech"
OPENAI_TRANSCRIPTIONS: Final = "openai-transcriptions"
