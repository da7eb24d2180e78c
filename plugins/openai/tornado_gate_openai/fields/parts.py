"""The content parts of chat messages. Parts of unknown types are accepted: the upstream may support them.

Source: openai-python 3.52, types/chat/chat_completion_content_part_*_param.py; members of other vendors, such as ``video_url``.
"""

from __future__ import annotations

from typing import Any, Final

from tornado_gate.codec.fields import (
    Array,
    BodySchema,
    Declared,
    Object,
    OneOf,
    String,
    Unchecked,
    Variants,
    make_shape,
)
from tornado_gate.types import text_maps
from tornado_gate.types.text_maps import DATA, MEDIA, OTHER, TEXT, WORD
from tornado_gate.wire.text_shapes import CACHE_CONTROL
from tornado_gate_openai.fields.object_ids import OBJECT_IDS

_IMAGE_DETAILS: Final = ("auto", "low", "high", "original")


def _list_parts() -> dict[str | None, type[PartSchema]]:
    return _PARTS


class PartSchema(BodySchema):
    """A content part of any type."""

    texts = text_maps.Object(members={"video_url": text_maps.Object(members={"url": MEDIA}, string=MEDIA)})
    ids = OBJECT_IDS

    type = String(
        required=True,
        text=WORD,
        description="`text`, `image_url`, `input_audio`, `file`, `refusal`; other types go upstream.",
    )
    cache_control = Unchecked(text=CACHE_CONTROL)
    prompt_cache_breakpoint = Unchecked(text=CACHE_CONTROL)
    content = Unchecked(lambda: PART)


PART: Final[Variants] = Variants(PartSchema, _list_parts)
CONTENT: Final[dict[type, Declared[Any]]] = {str: String(), list: Array(PART)}
"""The fields of ``content``, by the type of its value."""


class TextPartSchema(PartSchema):
    text = String(required=True, text=TEXT)


class RefusalPartSchema(PartSchema):
    refusal = String(required=True, text=TEXT)


class ImageUrlSchema(BodySchema):
    texts = text_maps.Object(string=MEDIA)

    url = String(required=True, text=MEDIA, description="An address, or a data URL.")
    detail = String(choices=_IMAGE_DETAILS, allow_none=True, text=WORD)


class ImagePartSchema(PartSchema):
    image_url = Object(ImageUrlSchema, required=True)


class InputAudioSchema(BodySchema):
    texts = text_maps.Object(string=MEDIA)

    data = String(required=True, text=DATA)
    format = String(required=True, text=WORD)


class AudioPartSchema(PartSchema):
    input_audio = Object(InputAudioSchema, required=True)


class FileSchema(BodySchema):
    texts = text_maps.Object()

    file_data = String(allow_none=True, text=MEDIA)
    file_id = String(allow_none=True, text=WORD)
    filename = String(allow_none=True, text=OTHER)


class FilePartSchema(PartSchema):
    file = Object(FileSchema, required=True)


_PARTS: Final[dict[str | None, type[PartSchema]]] = {
    "text": TextPartSchema,
    "refusal": RefusalPartSchema,
    "image_url": ImagePartSchema,
    "input_audio": AudioPartSchema,
    "file": FilePartSchema,
}


def make_content(**options: Any) -> OneOf:
    """Return the field of a text or content parts, which is not null."""
    return OneOf(
        by_type=CONTENT, required=True, error_messages={"null": "must be a string or an array, not null"}, **options
    )


def _make_part_shape() -> text_maps.Object:
    shape = make_shape(PART)
    assert isinstance(shape, text_maps.Object)
    return shape


PART_SHAPE: Final = _make_part_shape()
