"""What is known of a conf entry and of a model by its name.

Source: https://ai.google.dev/gemini-api/docs/thinking, /thought-signatures, /structured-output and /function-calling: models
before Gemini 3 think within budgets, check no signatures, take no pictures inside a function's response, and take tools or a
response format but not both. A name that says no number is one of the newest. /image-generation, /imagen, /speech-generation,
/video and /embeddings say which of them make what.
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
from tornado_gate.wire.gemini_generate import Dialect
from tornado_gate_gemini.address import COLLECTION, DEFAULT, VERSION

_GEMINI: Final = re.compile(r"gemini-(\d+)(?:\.(\d+))?")
_NEWEST: Final = (99, 0)
_THIRD: Final = (3, 0)
_STYLED: Final = (3, 8)
_IMAGEN: Final = re.compile(r"imagen-(\d+)")

OPERATIONS: Final[Mapping[str, frozenset[str]]] = {
    "*embedding*": frozenset({"embeddings"}),
    "*imagen-*": frozenset({"images"}),
    "*veo-*": frozenset({"videos"}),
    "*-tts*": frozenset({"chat", "speech"}),
    "*-image*": frozenset({"chat", "count_tokens", "images", "image_edits"}),
    "*": frozenset({"chat", "count_tokens"}),
}
"""What models do, by their names; the first pattern that fits counts."""


class Settings(Schema):
    """The keys of a provider entry that are this plugin's."""

    json_schema = Boolean()
    thought_signature_dummy = Boolean()


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """`json_schema`: send JSON schemas as they are. `thought_signature_dummy`: put it where a signature is missing."""

    json_schema: bool = True
    thought_signature_dummy: bool = True

    def dialect(self, model: str) -> Dialect:
        """What the upstream's model of this name takes."""
        third = version_of(model) >= _THIRD
        return Dialect(
            json_schema=self.json_schema,
            thinking_levels=third,
            signature_dummy=third and self.thought_signature_dummy and "gemini" in model.lower(),
            tools_with_format=third,
            parts_in_results=third,
        )


def version_of(model: str) -> tuple[int, int]:
    """The version in a model's name: (2, 5) of ``gemini-2.5-flash``."""
    found = _GEMINI.search(model.lower())
    return (int(found[1]), int(found[2] or 0)) if found else _NEWEST


def is_imagen(model: str) -> bool:
    """Whether a model makes pictures by ``:predict``."""
    return _IMAGEN.search(model.lower()) is not None


def takes_resolutions(model: str) -> bool:
    """Whether a model that makes pictures makes them larger than 1K: Gemini from 3 on, Imagen from 4 on."""
    found = _IMAGEN.search(model.lower())
    return int(found[1]) >= 4 if found else version_of(model) >= _THIRD


def reads_styles(model: str) -> bool:
    """Whether a model that speaks reads its text word for word and has a member for how to speak it."""
    return version_of(model) >= _STYLED


def read(entry: ProviderEntry) -> tuple[str, Facts]:
    """The base address and the facts of a conf entry. Raises ConfigError."""
    facts = Facts(**load_settings(Settings, entry.settings))
    return normalize_base_url(entry.base_url, VERSION, default=DEFAULT, endpoints=(COLLECTION,)), facts
