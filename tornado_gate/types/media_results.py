"""What comes back beyond chat. Each is the last event of its answer, and but for pictures and speech also the first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tornado_gate.types.content import Extra
from tornado_gate.types.results import Usage

Vector = Sequence[float] | bytes
"""Floats as they were read, or little-endian 32-bit floats; see `tornado_gate.vectors`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingResult:
    """One vector for each input, in the order of the inputs."""

    vectors: tuple[Vector, ...]
    model: str = ""
    usage: Usage | None = None
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """`scores` are 0 to 1, `categories` say which are flagged; `applied` to which kinds of input, "text" or "image"."""

    flagged: bool
    categories: Mapping[str, bool]
    scores: Mapping[str, float]
    applied: Mapping[str, Sequence[str]] | None = None
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModerationResult:
    """A verdict for each input, in the order of the inputs."""

    verdicts: tuple[Verdict, ...]
    model: str = ""
    id: str | None = None
    usage: Usage | None = None
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeImage:
    """One picture: its bytes. `revised_prompt` is what the model made of the prompt."""

    data: bytes = field(repr=False)
    media_type: str
    revised_prompt: str | None = None
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialImage:
    """An unfinished picture, the `index`-th, counted from 0."""

    index: int
    data: bytes = field(repr=False)
    media_type: str
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageResult:
    """All pictures of an answer; ends it. `created` is Unix seconds; the words are what the upstream says that it did."""

    images: tuple[MadeImage, ...]
    model: str = ""
    created: int | None = None
    usage: Usage | None = None
    background: str | None = None
    output_format: str | None = None
    quality: str | None = None
    size: str | None = None
    text: str | None = None
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechStart:
    """Sound of `media_type` follows, in SpeechChunks, then one SpeechEnd. ``audio/pcm`` is as `SpeechRequest` says."""

    media_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechChunk:
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechEnd:
    usage: Usage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptionResult:
    """`duration` is seconds; `segments` and `words` are the vendor's own, each with `start` and `end` in seconds."""

    text: str
    model: str = ""
    language: str | None = None
    duration: float | None = None
    segments: tuple[Mapping[str, Any], ...] = ()
    words: tuple[Mapping[str, Any], ...] = ()
    usage: Usage | None = None
    extra: Extra = field(default_factory=dict)
