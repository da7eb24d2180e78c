"""Names of the formats whose conversations have features that modules of this package translate for models of all vendors.

The names of all other formats are in `wire/formats.py` of their vendor.
"""

from __future__ import annotations

from typing import Final

ANTHROPIC_MESSAGES: Final = "anthropic-messages"
GEMINI_GENERATE: Final = "gemini-generate"
OPENAI_CHAT: Final = "openai-chat"
OPENAI_RESPONSES: Final = "openai-responses"
