"""Results of operations other than chat. A result is the only event of its response, except for images and speech.

`model` and `id` are the upstream's values; `usage` is None if the upstream reports none. `extra` has members of the upstream's
response that have no field here, under their wire names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tornado_gate.types.results import Usage
from tornado_gate.types.tools import Extra
from tornado_gate.types.value import Value, field

Vector = Sequence[float] | bytes
"""Parsed floats, or the bytes of little-endian 32-bit floats; see `tornado_gate.codec.vectors`."""


class EmbeddingResult(Value, frozen=True, kw_only=True):
    """`vectors` has one vector for each input, in the order of the inputs."""

    vectors: tuple[Vector, ...]
    model: str = ""
    usage: Usage | None = None
    extra: Extra = field(default_factory=dict)


class Verdict(Value, frozen=True, kw_only=True):
    """The moderation of one input: whether it is `flagged` at all.

    `categories`: whether each category is flagged. `scores`: 0 to 1 for each category. `applied`: the kinds of input, "text" or
    "image", that each category was applied to.
    """

    flagged: bool
    categories: Mapping[str, bool]
    scores: Mapping[str, float]
    applied: Mapping[str, Sequence[str]] | None = None
    extra: Extra = field(default_factory=dict)


class ModerationResult(Value, frozen=True, kw_only=True):
    """`verdicts` has one verdict for each input, in the order of the inputs."""

    verdicts: tuple[Verdict, ...]
    model: str = ""
    id: str | None = None
    usage: Usage | None = None
    extra: Extra = field(default_factory=dict)


class GeneratedImage(Value, frozen=True, kw_only=True):
    """One image; `data` is the file's bytes and `media_type` their type (``image/png``). `revised_prompt` is the prompt as the
    model rewrote it.
    """

    data: bytes
    media_type: str
    revised_prompt: str | None = None
    extra: Extra = field(default_factory=dict)

    hidden_fields = frozenset({"data"})


class PartialImage(Value, frozen=True, kw_only=True):
    """An unfinished image; `index` counts from 0. `data` is the file's bytes and `media_type` their type."""

    index: int
    data: bytes
    media_type: str
    extra: Extra = field(default_factory=dict)

    hidden_fields = frozenset({"data"})


class ImageResult(Value, frozen=True, kw_only=True):
    """All `images` of a response; the last event. `created` is Unix seconds. `text` is any text that the model wrote besides.

    `background`, `output_format`, `quality` and `size` are the values that the upstream reports it has used.
    """

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
    """The start of audio of `media_type`: SpeechChunks and one SpeechEnd follow. For ``audio/pcm`` see `SpeechRequest`."""

    media_type: str


class SpeechChunk(Value, frozen=True, kw_only=True):
    """The next bytes of the audio in `data`, of any length."""

    data: bytes

    hidden_fields = frozenset({"data"})


class SpeechEnd(Value, frozen=True, kw_only=True):
    """The end of the audio."""

    usage: Usage | None = None


class TranscriptionResult(Value, frozen=True, kw_only=True):
    """The `text` of an audio file. `language` is the recognised language. `duration` is in seconds.

    `segments` and `words` are the vendor's objects, each with `start` and `end` in seconds.
    """

    text: str
    model: str = ""
    language: str | None = None
    duration: float | None = None
    segments: tuple[Mapping[str, Any], ...] = ()
    words: tuple[Mapping[str, Any], ...] = ()
    usage: Usage | None = None
    extra: Extra = field(default_factory=dict)
