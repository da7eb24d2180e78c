"""Bodies with ``input`` and ``parameters``, for generations and edits.

The members are the contract's; ``seed``, ``response_format``, ``stream`` and ``user`` are accepted in addition.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from marshmallow import ValidationError

from tornado_gate.codec.checks import need_string, raise_invalid
from tornado_gate.codec.fields import (
    Array,
    BodySchema,
    Boolean,
    FunctionField,
    Integer,
    Object,
    String,
    check,
    get_schema,
)
from tornado_gate.types import text_maps
from tornado_gate.types.text_maps import TEXT, WORD, words
from tornado_gate_openai.fields.images import IMAGE, IMAGE_WORDS, USER_TEXT, make_model_field, make_stream_field
from tornado_gate_openai.fields.object_ids import OBJECT_IDS

MAX_MESSAGES: Final = 100
MAX_ITEMS: Final = 100

_VENDOR_MEMBERS: Final = ("prompt", "images")
"""Members that only bodies with ``prompt`` have."""
_SIZE_PATTERN: Final = re.compile(r"[1-9]\d{0,4}\*[1-9]\d{0,4}|[124][kK]")


def is_input_style(body: Mapping[str, Any], *, edits: bool, form: bool) -> bool:
    """Return whether an unchecked body has this shape. An ambiguous body has the contract's shape: for edits, this one."""
    if form:
        return False
    if any(body.get(name) is not None for name in _VENDOR_MEMBERS):
        return False
    return edits or "input" in body or "parameters" in body


def _check_size(size: Any) -> None:
    need_string(size, "parameters.size")
    if _SIZE_PATTERN.fullmatch(size) is None:
        raise_invalid("parameters.size", f"must be WIDTH*HEIGHT, such as '1024*1024', not '{size[:50]}'")


class _ParametersSchema(BodySchema):
    texts = text_maps.Object(kind="other", members=dict(IMAGE_WORDS))

    n = Integer(least=1, most=10, allow_none=True)
    negative_prompt = String(allow_none=True, text=USER_TEXT)
    prompt_extend = Boolean(allow_none=True)
    seed = Integer(allow_none=True)
    size = FunctionField(
        _check_size,
        allow_none=True,
        text=WORD,
        description="`WIDTH*HEIGHT`, or `1K`, `2K` or `4K`.",
        keywords={"type": "string"},
    )
    watermark = Boolean(allow_none=True)


class _TextItemSchema(BodySchema):
    texts = text_maps.Object(members={"image": IMAGE})

    text = String(required=True, text=TEXT)


def _need_one_content(item: Mapping[str, Any]) -> None:
    has_image = item.get("image") is not None
    if has_image == (item.get("text") is not None):
        raise ValidationError(
            "must have either 'image' or 'text', not both" if has_image else "must have 'image' or 'text'"
        )


class _EditItemSchema(BodySchema):
    texts = text_maps.Object()
    object_rules = (_need_one_content,)

    image = String(allow_none=True, text=IMAGE, description="An address or base64.")
    text = String(allow_none=True, text=TEXT)


class _MessageSchema(BodySchema):
    texts = text_maps.Object()

    role = String(required=True, text=WORD)
    content = Array(Object(_TextItemSchema), required=True, least=1, most=MAX_ITEMS)


class _EditMessageSchema(_MessageSchema):
    content = Array(Object(_EditItemSchema), required=True, least=1, most=MAX_ITEMS)


class _InputSchema(BodySchema):
    texts = text_maps.Object(kind="user", members={"prompt": USER_TEXT, "negative_prompt": USER_TEXT})

    messages = Array(Object(_MessageSchema), required=True, least=1, most=MAX_MESSAGES)


class _EditInputSchema(_InputSchema):
    messages = Array(Object(_EditMessageSchema), required=True, least=1, most=MAX_MESSAGES)


def _need_text(body: Mapping[str, Any]) -> None:
    for message in body["input"]["messages"]:
        for item in message["content"]:
            if item.get("text"):
                return
    raise_invalid("input.messages", 'must have a text that describes the image: a content item {"text": "..."}')


def _need_image(body: Mapping[str, Any]) -> None:
    for message in body["input"]["messages"]:
        for item in message["content"]:
            if item.get("image") is not None:
                return
    raise_invalid("input.messages", 'must have an image to edit: a content item {"image": "URL or base64"}')


def _need_image_and_text(body: Mapping[str, Any]) -> None:
    _need_image(body)
    _need_text(body)


class InputBodySchema(BodySchema):
    """A body with ``input`` and ``parameters``."""

    texts = text_maps.Object(kind="other", members=words("watermark", "seed"))
    rules = (_need_text,)

    model = make_model_field()
    input = Object(_InputSchema, required=True, description="`messages` with texts.")
    parameters = Object(_ParametersSchema, allow_none=True)
    response_format = String(choices=("url", "b64_json"), allow_none=True, text=WORD)
    stream = make_stream_field()
    user = String(allow_none=True)


class EditInputBodySchema(InputBodySchema):
    """A body with ``input`` and ``parameters``, whose messages have an image to edit."""

    rules = (_need_image_and_text,)
    ids = OBJECT_IDS

    input = Object(_EditInputSchema, required=True, description="`messages` with texts and images.")


_INPUT_SCHEMA: Final = get_schema(InputBodySchema)
_EDIT_INPUT_SCHEMA: Final = get_schema(EditInputBodySchema)


def check_input_generation(body: Mapping[str, Any]) -> None:
    """Raise InvalidField for the first invalid member of a generation. Each content item must be a text."""
    check(_INPUT_SCHEMA, body)


def check_input_of_edit(body: Mapping[str, Any]) -> None:
    """Raise InvalidField for the first invalid member of an edit, which needs an image and a text."""
    check(_EDIT_INPUT_SCHEMA, body)


def iterate_images(body: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the images of a checked body, each with its path."""
    for number, message in enumerate(body["input"]["messages"]):
        for index, item in enumerate(message["content"]):
            if item.get("image") is not None:
                yield item["image"], f"input.messages.{number}.content.{index}.image"
