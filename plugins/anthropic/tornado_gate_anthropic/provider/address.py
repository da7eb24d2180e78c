"""The vendor's base URL, and the paths of its endpoints."""

from __future__ import annotations

from typing import Final

MESSAGES_PATH: Final = "/messages"
COUNT_PATH: Final = "/messages/count_tokens"
MODELS_PATH: Final = "/models"
DEFAULT_BASE_URL: Final = "https://api.anthropic.com"
VERSION_PATH: Final = "v1"
