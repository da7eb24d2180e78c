"""Facts from a configuration entry and from a model name.

Source: https://ai.google.dev/gemini-api/docs/thinking, /thought-signatures, /structured-output and /function-calling: models
before Gemini 3 have thinking budgets, do not check signatures, accept no images inside a function response, and accept tools
or a response format but not both. A name without a version counts as one of the newest. /image-generation, /imagen,
/speech-generation, /video and /embeddings list the operations of models.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from marshmallow import Schema

from tornado_gate import ProviderEntry
from tornado_gate.codec.fields import Boolean
from tornado_gate.config import load_settings
from tornado_gate.http.base_url import normalize_base_url
from tornado_gate.wire.gemini_generate import GeminiModelFeatures
from tornado_gate_gemini.address import DEFAULT_BASE_URL, MODELS_PATH, VERSION_PATH

_GEMINI_VERSION: Final = re.compile(r"gemini-(\d+)(?:\.(\d+))?")
_NEWEST_VERSION: Final = (99, 0)
_VERSION_3: Final = (3, 0)
_VERSION_3_8: Final = (3, 8)
_IMAGEN_VERSION: Final = re.compile(r"imagen-(\d+)")

OPERATIONS_OF_MODEL: Final[Mapping[str, frozenset[str]]] = {
    "*embedding*": frozenset({"embeddings"}),
    "*imagen-*": frozenset({"images"}),
    "*veo-*": frozenset({"videos"}),
    "*-tts*": frozenset({"chat", "speech"}),
    "*-image*": frozenset({"chat", "count_tokens", "images", "image_edits"}),
    "*": frozenset({"chat", "count_tokens"}),
}
"""Operations by model name pattern; the first match counts."""


class GeminiSettingsSchema(Schema):
    """The settings of a provider entry that this plugin defines."""

    json_schema = Boolean()
    thought_signature_dummy = Boolean()


@dataclass(frozen=True, slots=True, kw_only=True)
class GeminiSettings:
    """`json_schema`: send JSON schemas unmodified. `thought_signature_dummy`: send the dummy for a missing signature."""

    json_schema: bool = True
    thought_signature_dummy: bool = True

    def find_model_features(self, model: str) -> GeminiModelFeatures:
        """The features of an upstream model."""
        third = parse_version(model) >= _VERSION_3
        return GeminiModelFeatures(
            json_schema=self.json_schema,
            thinking_levels=third,
            signature_dummy=third and self.thought_signature_dummy and "gemini" in model.lower(),
            tools_with_format=third,
            parts_in_results=third,
        )


def parse_version(model: str) -> tuple[int, int]:
    """The version in a model name: (2, 5) for ``gemini-2.5-flash``."""
    found = _GEMINI_VERSION.search(model.lower())
    return (int(found[1]), int(found[2] or 0)) if found else _NEWEST_VERSION


def is_imagen(model: str) -> bool:
    """Whether a model generates images by ``:predict``."""
    return _IMAGEN_VERSION.search(model.lower()) is not None


def accepts_resolutions(model: str) -> bool:
    """Whether an image model supports more than 1K: Gemini 3 and later, Imagen 4 and later."""
    found = _IMAGEN_VERSION.search(model.lower())
    return int(found[1]) >= 4 if found else parse_version(model) >= _VERSION_3


def accepts_styles(model: str) -> bool:
    """Whether a speech model reads its text verbatim and has a separate member for the style."""
    return parse_version(model) >= _VERSION_3_8


def read_settings(entry: ProviderEntry) -> tuple[str, GeminiSettings]:
    """The base URL and the settings of a configuration entry. Raises ConfigError."""
    facts = GeminiSettings(**load_settings(GeminiSettingsSchema, entry.settings))
    return normalize_base_url(entry.base_url, VERSION_PATH, default=DEFAULT_BASE_URL, endpoints=(MODELS_PATH,)), facts
