"""What comes back beyond chat. Each is the last event of its answer, and but for pictures and speech also the first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tornado_gate.types.content import Extra
from tornado_gate.types.results import Usage
from tornado_gate.types.value import Value, field

Vector = Sequence[float] | bytes
"""Floats as they were read, or little-endian 32-bit floats; see `tornado_gate.codec.vectors`."""


class EmbeddingResult(Value, frozen=True, kw_only=True):
    """One vector for each input, in the order of the inputs."""

    vectors: tuple[Vector, ...]
    model: str = ""
    usage: Usage | None = None
    extra: Extra = field(default_factory=dict)


class Verdict(Value, frozen=True, kw_only=True):
    """`scores` are 0 to 1, `categories` say which are flagged; `applied` to which kinds of input, "text" or "image"."""

    flagged: bool
    categories: Mapping[str, bool]
    scores: Mapping[str, float]
    applied: Mapping[str, Sequence[str]] | None = None
    extra: Extra = field(default_factory=dict)


class ModerationResult(Value, frozen=True, kw_only=True):
    """A verdict for each input, in the order of the inputs."""

    verdicts: tuple[Verdict, ...]
    model: str = ""
    id: str | None = None
    usage: Usage | None = None
    extra: Extra = field(default_factory=dict)


class GeneratedImage(Value, frozen=True, kw_only=True):
    """One picture: its bytes. `revised_prompt` is what the model made of the prompt."""

    data: bytes
    media_type: str
    revised_prompt: str | None = None
    extra: Extra = field(default_factory=dict)

    hidden_fields = frozenset({"data"})


class PartialImage(Value, frozen=True, kw_only=True):
    """An unfinished picture, the `index`-th, counted from 0."""

    index: int
    data: bytes
    media_type: str
    extra: Extra = field(default_factory=dict)

    hidden_fields = frozenset({"data"})


class ImageResult(Value, frozen=True, kw_only=True):
    """All pictures of an answer; ends it. `created` is Unix seconds; the words are what the upstream says that it did."""

    images: tuple[GeneratedImage, ...]
    model: str = ""
    created: int | None = None
    usage: Usage | None = None
    background: str | None = None
    output_format: str | None = None
    quality: str | None = None
    size: str | None = None
    text: str | None = None
    extra: Extra = field(default_factory=dict)


class SpeechStart(Value, frozen=True, kw_only=True):
    """Sound of `media_type` follows, in SpeechChunks, then one SpeechEnd. ``audio/pcm`` is as `SpeechRequest` says."""

    media_type: str


class SpeechChunk(Value, frozen=True, kw_only=True):
    data: bytes

    hidden_fields = frozenset({"data"})


class SpeechEnd(Value, frozen=True, kw_only=True):
    usage: Usage | None = None


class TranscriptionResult(Value, frozen=True, kw_only=True):
    """`duration` is seconds; `segments` and `words` are the vendor's own, each with `start` and `end` in seconds."""

    text: str
    model: str = ""
    language: str | None = None
    duration: float | None = None
    segments: tuple[Mapping[str, Any], ...] = ()
    words: tuple[Mapping[str, Any], ...] = ()
    usage: Usage | None = None
    extra: Extra = field(default_factory=dict)
