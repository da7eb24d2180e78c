"""Where the vendor is, and the paths of its endpoints."""

from __future__ import annotations

from typing import Final

MESSAGES: Final = "/messages"
COUNT: Final = "/messages/count_tokens"
DEFAULT: Final = "https://api.anthropic.com"
VERSION: Final = "v1"
