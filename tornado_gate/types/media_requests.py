"""Common requests for embeddings, moderation, images, speech and transcription. One class for each operation.

As in `requests`: None means that the caller omitted the field; it is never sent upstream.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from tornado_gate.types.common_request import CommonRequest
from tornado_gate.types.content import Data, Link, Part
from tornado_gate.types.tools import Extra
from tornado_gate.types.value import field
from tornado_gate.types.wire import Upload

FileSource = Data | Link | Upload
"""A file of a request: base64 inside the JSON, a URL, or a file of a form."""


class MediaRequest(CommonRequest, frozen=True, kw_only=True):
    """The fields that all these requests share.

    `model` is the caller's name: send ``call.target.upstream_model``. `user` is the caller's id of the end user. `wire_format`
    is the format of the caller's request, whose unknown fields are in `extra`; `names` maps fields of these classes to the
    caller's names for them.
    """

    model: str
    wire_format: str = ""
    user: str | None = None
    extra: Extra = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)

    def field_name(self, field_of_ours: str) -> str:
        """Return the caller's name for a field of this class: ``outputDimensionality`` for ``dimensions``, for example."""
        return self.names.get(field_of_ours, field_of_ours)


class EmbeddingRequest(MediaRequest, frozen=True, kw_only=True):
    """A request for embeddings of `inputs`, each a text or a list of token ids. `task` is the purpose, a vendor's value.

    `dimensions` is the requested length of each vector; `title` is the title of the document that the inputs are part of.
    """

    inputs: tuple[str | tuple[int, ...], ...]
    dimensions: int | None = None
    task: str | None = None
    title: str | None = None


class ModerationRequest(MediaRequest, frozen=True, kw_only=True):
    """A request to moderate each of `inputs`; an input consists of Text and Image parts."""

    inputs: tuple[tuple[Part, ...], ...]


class ImageRequest(MediaRequest, frozen=True, kw_only=True):
    """A request to generate images from `prompt`, or to edit `images`.

    `negative_prompt` describes content that they shall not show. `n` is the number of images. `size` is "auto" or width and
    height in pixels, as in "1024x1536"; `aspect_ratio` ("16:9") with `resolution` ("1K") is the alternative. Transparent pixels
    of `mask` mark the area of the first image that may change. `quality`, `style`, `background` ("transparent"), `moderation`
    (its strictness), `input_fidelity` (how closely an edit keeps the input images) and `output_format` (png, jpeg, webp) are
    words of the vendors; `output_compression` is 0 to 100. `watermark` and `prompt_extend` (the vendor improves the prompt) are
    switches; `seed` repeats a result. With `stream`, up to `partial_images` unfinished images precede the result.
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
    """A request to convert `text` to speech. `voice` is a vendor's name; `speed` 1 is normal.

    `format` is mp3, opus, aac, flac, wav or pcm. `instructions` describe the manner of speaking, `language` is a code such as
    "en". pcm has 24,000 samples per second, one channel, 16 bits, little-endian. With `stream` the audio arrives in chunks.
    """

    text: str
    voice: str | None = None
    instructions: str | None = None
    speed: float | None = None
    format: str | None = None
    language: str | None = None
    stream: bool = False


class TranscriptionRequest(MediaRequest, frozen=True, kw_only=True):
    """A request to transcribe `audio`, or to translate it to English with `translate`.

    With `stream` the text arrives as stream events.

    `language` is the spoken language, a code such as "en". `prompt` has words that help to recognise others; `temperature`
    controls the sampling. `timestamps`: the result shall have `words` or `segments` with their times.
    """

    audio: FileSource
    translate: bool = False
    language: str | None = None
    prompt: str | None = None
    temperature: float | None = None
    timestamps: tuple[Literal["word", "segment"], ...] = ()
    stream: bool = False
