"""Names of the wire formats, for tables of routes that are built before a format's module is imported."""

from __future__ import annotations

from typing import Final

from tornado_gate.wire.conversation_formats import GEMINI_GENERATE

__all__ = ["GEMINI_EMBEDDINGS", "GEMINI_GENERATE", "GEMINI_INTERACTIONS"]

GEMINI_EMBEDDINGS: Final = "gemini-embeddings"
GEMINI_INTERACTIONS: Final = "gemini-interactions"
