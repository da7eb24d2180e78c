"""Bodies and forms with ``prompt`` or an image. Unknown members are accepted.

Source: openai-python 3.52, types/image_generate_params.py, image_edit_params.py and image_input_reference_param.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from marshmallow import ValidationError

from tornado_gate.codec.checks import raise_invalid, refuse_value
from tornado_gate.codec.fields import (
    Array,
    BodySchema,
    File,
    FunctionField,
    Integer,
    Object,
    String,
    check,
    describe_type,
    get_schema,
)
from tornado_gate.types import text_maps
from tornado_gate.types.text_maps import MEDIA, WORD, Shape, Text, words
from tornado_gate_openai.fields.object_ids import OBJECT_IDS
from tornado_gate_openai.wire.images import is_true

MAX_IMAGES: Final = 16
"""Maximum number of images of one edit."""
USER_TEXT: Final = Text(kind="user")
IMAGE: Final = text_maps.Object(kind="other", members={"image_url": MEDIA, **words("file_id")}, string=MEDIA)
"""An image: an address, data, or an object with one of them or with the id of a file."""
IMAGE_WORDS: Final[Mapping[str, Shape]] = words(
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
"""Words of requests, and of the upstreams' responses and events."""


def make_model_field(*, required: bool = True) -> String:
    """Return the field for the name of a model. A form without one has the model that the core has chosen."""
    return String(required=required, filled=True, text=WORD, description="The name of a model of this gateway.")


def _check_stream(stream: Any) -> None:
    if not isinstance(stream, bool) and stream not in ("true", "false"):
        shown = f"'{stream[:50]}'" if isinstance(stream, str) else describe_type(stream)
        raise_invalid("stream", f"must be true or false, as a boolean or a string, not {shown}")


def make_stream_field() -> FunctionField:
    """Return the field for ``stream``: a boolean (vendor), or the string "true" or "false" (contract)."""
    return FunctionField(
        _check_stream,
        allow_none=True,
        text=WORD,
        description="Answer with server-sent events; also as a string.",
        keywords={"anyOf": [{"type": "boolean"}, {"type": "string", "enum": ["true", "false"]}]},
    )


def _need_one_source(reference: Mapping[str, Any]) -> None:
    if (reference.get("image_url") is None) == (reference.get("file_id") is None):
        raise ValidationError("must have either 'image_url' or 'file_id'")


class ReferenceSchema(BodySchema):
    """An image by its address, as data, or by the id of a file."""

    texts = IMAGE
    object_rules = (_need_one_source,)

    image_url = String(allow_none=True, text=MEDIA)
    file_id = String(allow_none=True, text=WORD)


class ImagesBodySchema(BodySchema):
    """The common members of generations, edits and variations."""

    texts = text_maps.Object(
        kind="other",
        members={
            **IMAGE_WORDS,
            **words("watermark", "seed"),
            "negative_prompt": USER_TEXT,
            **dict.fromkeys(("image", "images", "mask"), IMAGE),
        },
    )

    model = make_model_field()
    n = Integer(least=1, most=10, allow_none=True, text=WORD)
    response_format = String(choices=("url", "b64_json"), allow_none=True, text=WORD)
    size = String(allow_none=True, text=WORD)
    user = String(allow_none=True, example="my-user")


def _need_stream(body: Mapping[str, Any]) -> None:
    if body.get("partial_images") and not is_true(body.get("stream")):
        refuse_value("partial_images", "requires 'stream' to be true")


class GenerationBodySchema(ImagesBodySchema):
    """The body of ``POST /v1/images/generations``."""

    rules = (_need_stream,)

    prompt = String(required=True, filled=True, text=USER_TEXT, description="What the image shows.")
    background = String(choices=("transparent", "opaque", "auto"), allow_none=True, text=WORD, example="transparent")
    complexity = String(choices=("low", "medium", "high"), allow_none=True, text=WORD, example="low")
    frame_count = Integer(least=2, most=16, allow_none=True, text=WORD, example=4)
    frame_duration_ms = Integer(least=1, allow_none=True, text=WORD)
    input_fidelity = String(choices=("high", "low"), allow_none=True, text=WORD, example="high")
    moderation = String(choices=("low", "auto"), allow_none=True, text=WORD, example="low")
    output_compression = Integer(least=0, most=100, allow_none=True, text=WORD)
    output_format = String(choices=("png", "jpeg", "webp", "gif", "svg"), allow_none=True, text=WORD)
    partial_images = Integer(least=0, most=3, allow_none=True, text=WORD)
    quality = String(allow_none=True, text=WORD, example="high")
    safety_identifier = String(allow_none=True, example="my-person")
    stream = make_stream_field()
    style = String(allow_none=True, text=WORD, example="vivid")
    svg = Object(allow_none=True)


class EditBodySchema(GenerationBodySchema):
    """The JSON body of ``POST /v1/images/edits``. Each image is an object with a URL or a file id."""

    ids = OBJECT_IDS

    images = Array(Object(ReferenceSchema), required=True, least=1, most=MAX_IMAGES)
    mask = Object(ReferenceSchema, allow_none=True)


class EditFormSchema(GenerationBodySchema):
    """The form of ``POST /v1/images/edits``. Members of ``svg`` are fields such as ``svg[model]``."""

    model = make_model_field(required=False)
    image = File(needed=True, description="An image; `image[]` for several.")
    mask = File(description="Where its pixels are transparent the image is changed.")


class VariationFormSchema(ImagesBodySchema):
    """The form of ``POST /v1/images/variations``."""

    model = make_model_field(required=False)
    image = File(needed=True)


_GENERATION_SCHEMA: Final = get_schema(GenerationBodySchema)
_EDIT_SCHEMA: Final = get_schema(EditBodySchema)
_EDIT_FORM_SCHEMA: Final = get_schema(EditFormSchema)
_VARIATION_SCHEMA: Final = get_schema(VariationFormSchema)


def check_generation(body: Mapping[str, Any]) -> None:
    """Raise InvalidField for the first invalid member of a generation."""
    check(_GENERATION_SCHEMA, body)


def check_json_edit(body: Mapping[str, Any]) -> None:
    """Raise InvalidField for the first invalid member of an edit in JSON."""
    check(_EDIT_SCHEMA, body)


def check_edit_form(body: Mapping[str, Any]) -> None:
    """Raise InvalidField for the first invalid text field of an edit's form."""
    check(_EDIT_FORM_SCHEMA, body)


def check_variation(body: Mapping[str, Any]) -> None:
    """Raise InvalidField for the first invalid text field of a variation's form."""
    check(_VARIATION_SCHEMA, body)
