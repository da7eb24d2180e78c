"""Texts of OpenAI's images, transcriptions and videos.

Addresses of images and videos in answers are no texts, because the gateway signs them. Files of a form are not
reviewed. Source: openai-python 3.52, types/.
"""

from __future__ import annotations

from typing import Final

from tornado_gate.types.text_maps import (
    DATA,
    MEDIA,
    OTHER,
    TEXT,
    WORD,
    Derived,
    Events,
    Object,
    Shape,
    Text,
    TextMap,
    words,
)
from tornado_gate.wire.text_shapes import ERROR, USAGE

_USER: Final = Text(kind="user")

_IMAGE_WORDS: Final = words(
    "model",
    "size",
    "quality",
    "background",
    "output_format",
    "response_format",
    "moderation",
    "input_fidelity",
    "style",
)
_REFERENCE: Final = Object(kind="other", members={"image_url": MEDIA, **words("file_id")}, string=MEDIA)
_DASHSCOPE_INPUT: Final = Object(
    kind="user",
    members={
        "prompt": _USER,
        "negative_prompt": _USER,
        "messages": Object(
            members={
                **words("role"),
                "content": Object(members={"text": TEXT, "image": _REFERENCE}),
            }
        ),
    },
)
_IMAGE_REQUEST: Final = Object(
    kind="other",
    members={
        **_IMAGE_WORDS,
        **words("n", "stream", "partial_images", "output_compression", "watermark", "seed", "complexity"),
        "prompt": _USER,
        "negative_prompt": _USER,
        **dict.fromkeys(("image", "images", "mask", "image[]"), _REFERENCE),
        "input": _DASHSCOPE_INPUT,
        "parameters": Object(kind="other", members={**_IMAGE_WORDS, "negative_prompt": _USER}),
    },
)
_IMAGE: Final[dict[str, Shape]] = {
    **_IMAGE_WORDS,
    **words("url", "type", "object", "event_id"),
    "b64_json": DATA,
    "revised_prompt": Text(kind="assistant"),
    "usage": USAGE,
    "error": ERROR,
}
IMAGES: Final = TextMap(
    request=_IMAGE_REQUEST,
    response=Object(kind="other", members={**_IMAGE, "data": Object(kind="other", members=_IMAGE)}),
    event=Object(kind="other", members=_IMAGE, ends={"error": ("/",)}),
)

_SEGMENT: Final = Object(kind="assistant", members={**words("id", "type", "speaker"), "text": TEXT, "word": TEXT})
_SPOKEN: Final[dict[str, Shape]] = {
    **words("type", "task", "language", "event_id", "segment_id"),
    "text": Text(kind="assistant"),
    "transcript": Text(kind="assistant"),
    "segments": _SEGMENT,
    "words": _SEGMENT,
    "logprobs": Derived(),
    "usage": USAGE,
    "error": ERROR,
}
TRANSCRIPTIONS: Final = TextMap(
    request=Object(
        kind="other",
        members={
            **words("model", "language", "response_format", "stream", "temperature", "chunking_strategy", "include"),
            **words("include[]", "timestamp_granularities", "timestamp_granularities[]"),
            "prompt": _USER,
            "known_speaker_references": MEDIA,
            "known_speaker_references[]": MEDIA,
        },
    ),
    response=Object(kind="other", members=_SPOKEN),
    event=Events(
        shapes={
            "transcript.text.delta": Object(
                kind="assistant",
                members={**_SPOKEN, "delta": Text(delta=True, place="/text"), "logprobs": Derived(of="/text")},
            ),
            "transcript.text.done": Object(kind="assistant", members=_SPOKEN, ends={"type": ("/",)}),
        },
        other=Object(kind="assistant", members=_SPOKEN, ends={"error": ("/",)}),
    ),
)

_VIDEO_WORDS: Final = words(
    "model", "size", "seconds", "duration", "resolution", "aspect_ratio", "quality", "status", "object", "id", "task_id",
    "remixed_from_video_id", "width", "height", "n", "fps", "seed", "mode", "first_id", "last_id", "type",
)  # fmt: skip
_FIRST_PICTURE: Final = Object(
    kind="other", members={"image_url": MEDIA, "data": MEDIA, **words("file_id", "type", "media_type")}, string=MEDIA
)
_VIDEO: Final[dict[str, Shape]] = {
    **_VIDEO_WORDS,
    "prompt": _USER,
    "url": WORD,
    "error": ERROR,
    "videos": Object(kind="other", members=words("id", "url")),
}
VIDEOS: Final = TextMap(
    request=Object(
        kind="other",
        members={
            **_VIDEO_WORDS,
            "prompt": _USER,
            "negative_prompt": _USER,
            **dict.fromkeys(
                ("image", "images", "input_reference", "first_frame", "last_frame", "image_tail"), _FIRST_PICTURE
            ),
            "webhook_url": OTHER,
        },
    ),
    response=Object(kind="other", members={**_VIDEO, "data": Object(kind="other", members=_VIDEO)}),
    event=Object(kind="other", members={**_VIDEO, "data": Object(kind="other", members=_VIDEO)}),
)
