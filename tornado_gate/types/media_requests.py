"""What callers ask for beyond chat: vectors, verdicts, pictures, speech, transcripts. One class for each operation.

As in `requests`: None means that the caller said nothing and is never sent upstream; `wire_format` names the format that the
request came in, whose unknown fields are in `extra`; `names` maps a field of ours to the caller's own name for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from tornado_gate.types.common_request import CommonRequest
from tornado_gate.types.content import Data, Extra, Link, Part
from tornado_gate.types.value import field
from tornado_gate.types.wire import Upload

FileSource = Data | Link | Upload
"""Where a file of a request is: inside its JSON, at an address, or beside it in a form."""


class MediaRequest(CommonRequest, frozen=True, kw_only=True):
    """What all of them have."""

    model: str
    wire_format: str = ""
    user: str | None = None
    extra: Extra = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)

    def field_name(self, field_of_ours: str) -> str:
        """The caller's own name for one of our fields: ``dimensions`` may have been ``outputDimensionality``."""
        return self.names.get(field_of_ours, field_of_ours)


class EmbeddingRequest(MediaRequest, frozen=True, kw_only=True):
    """Vectors of `inputs`, each a text or the numbers of its tokens. `task` is what they are for, in the vendor's words."""

    inputs: tuple[str | tuple[int, ...], ...]
    dimensions: int | None = None
    task: str | None = None
    title: str | None = None


class ModerationRequest(MediaRequest, frozen=True, kw_only=True):
    """A verdict on each of `inputs`, each made of Text and Image parts."""

    inputs: tuple[tuple[Part, ...], ...]


class ImageRequest(MediaRequest, frozen=True, kw_only=True):
    """New pictures, or with `images` edits of those.

    `size` is "auto" or width and height in pixels, written "1024x1536"; `aspect_ratio` ("16:9") and `resolution` ("1K") are
    the other way to say it. `mask` is transparent where the first image may change. `output_compression` is 0 to 100. With
    `stream` come up to `partial_images` unfinished pictures first.
    """

    prompt: str
    images: tuple[FileSource, ...] = ()
    mask: FileSource | None = None
    negative_prompt: str | None = None
    n: int | None = None
    size: str | None = None
    aspect_ratio: str | None = None
    resolution: str | None = None
    quality: str | None = None
    style: str | None = None
    background: str | None = None
    moderation: str | None = None
    output_format: str | None = None
    output_compression: int | None = None
    input_fidelity: str | None = None
    watermark: bool | None = None
    prompt_extend: bool | None = None
    seed: int | None = None
    stream: bool = False
    partial_images: int | None = None


class SpeechRequest(MediaRequest, frozen=True, kw_only=True):
    """`text` spoken. `voice` is a name of the vendor's; `speed` 1 is usual; `format` one of mp3, opus, aac, flac, wav, pcm.

    pcm is 24,000 samples a second, one channel, 16 bits, little-endian. `stream` asks for the sound while it is made.
    """

    text: str
    voice: str | None = None
    instructions: str | None = None
    speed: float | None = None
    format: str | None = None
    language: str | None = None
    stream: bool = False


class TranscriptionRequest(MediaRequest, frozen=True, kw_only=True):
    """The words spoken in `audio`, or with `translate` what they mean in English. `stream` asks for events."""

    audio: FileSource
    translate: bool = False
    language: str | None = None
    prompt: str | None = None
    temperature: float | None = None
    timestamps: tuple[Literal["word", "segment"], ...] = ()
    stream: bool = False
