"""Schemas of bodies with ``prompt``. Only fields of a form are converted; unknown fields are accepted.

Source: openai-python 3.52, types/image_generate_params.py, image_edit_params.py and image_input_reference_param.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from marshmallow import validate

from tornado_gate.codec.checks import need_array, need_object, optional_string, raise_invalid, refuse_value
from tornado_gate.codec.fields import BodySchema, FunctionField, Integer, Object, String, check, describe_type
from tornado_gate_openai.wire.images import is_true

MAX_IMAGES: Final = 16
"""Maximum number of images of one edit."""

_INTEGER_PATTERN: Final = re.compile(r"-?[0-9]{1,18}")
_INTEGER_FIELDS: Final = ("n", "output_compression", "partial_images", "frame_count", "frame_duration_ms")


def check_stream(stream: Any) -> None:
    """Raise InvalidField unless `stream` is a boolean (vendor) or the string "true" or "false" (contract)."""
    if not isinstance(stream, bool) and stream not in ("true", "false"):
        shown = f"'{stream[:50]}'" if isinstance(stream, str) else describe_type(stream)
        raise_invalid("stream", f"must be true or false, as a boolean or a string, not {shown}")


def check_references(images: Any) -> None:
    """Raise InvalidField unless ``images`` is an array of 1 to `MAX_IMAGES` image references."""
    need_array(images, "images")
    if not images:
        raise_invalid("images", "must not be empty")
    if len(images) > MAX_IMAGES:
        refuse_value("images", f"has {len(images)} items; at most {MAX_IMAGES} are allowed")
    for index, image in enumerate(images):
        check_reference(image, f"images.{index}")


def check_reference(value: Any, path: str) -> None:
    """Raise InvalidField unless `value` is an object with either ``image_url`` or ``file_id``."""
    need_object(value, path)
    for name in ("image_url", "file_id"):
        optional_string(value, name, path)
    if (value.get("image_url") is None) == (value.get("file_id") is None):
        raise_invalid(path, "must have either 'image_url' or 'file_id'")


class ImagesBodySchema(BodySchema):
    """The common fields of generations, edits and variations."""

    model = String(required=True, validate=validate.Length(min=1, error="must not be empty"))
    n = Integer(least=1, most=10, allow_none=True)
    response_format = String(choices=("url", "b64_json"), allow_none=True)
    size = String(allow_none=True)
    user = String(allow_none=True)


class GenerationBodySchema(ImagesBodySchema):
    """The body of ``POST /v1/images/generations``."""

    prompt = String(required=True, validate=validate.Length(min=1, error="must not be empty"))
    background = String(choices=("transparent", "opaque", "auto"), allow_none=True)
    complexity = String(choices=("low", "medium", "high"), allow_none=True)
    frame_count = Integer(least=2, most=16, allow_none=True)
    frame_duration_ms = Integer(least=1, allow_none=True)
    input_fidelity = String(choices=("high", "low"), allow_none=True)
    moderation = String(choices=("low", "auto"), allow_none=True)
    output_compression = Integer(least=0, most=100, allow_none=True)
    output_format = String(choices=("png", "jpeg", "webp", "gif", "svg"), allow_none=True)
    partial_images = Integer(least=0, most=3, allow_none=True)
    quality = String(allow_none=True)
    safety_identifier = String(allow_none=True)
    stream = FunctionField(check_stream, allow_none=True)
    style = String(allow_none=True)
    svg = Object(allow_none=True)


class EditBodySchema(GenerationBodySchema):
    """The JSON body of ``POST /v1/images/edits``. Each image is an object with a URL or a file id."""

    images = FunctionField(check_references, required=True)
    mask = FunctionField(lambda mask: check_reference(mask, "mask"), allow_none=True)


_GENERATION_SCHEMA: Final = GenerationBodySchema()
_EDIT_SCHEMA: Final = EditBodySchema()
_VARIATION_SCHEMA: Final = ImagesBodySchema()


def check_generation(body: Mapping[str, Any]) -> None:
    """Raise InvalidField for the first invalid field of a generation's body or an edit's form."""
    check(_GENERATION_SCHEMA, body)
    if body.get("partial_images") and not is_true(body.get("stream")):
        refuse_value("partial_images", "requires 'stream' to be true")


def check_json_edit(body: Mapping[str, Any]) -> None:
    """Raise InvalidField for the first invalid field of an edit in JSON."""
    check(_EDIT_SCHEMA, body)
    check_generation(body)


def check_variation(body: Mapping[str, Any]) -> None:
    """Raise InvalidField for the first invalid field of a variation's form."""
    check(_VARIATION_SCHEMA, body)


def parse_form(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the form's text fields with integer fields converted. An invalid integer stays a string, which a check rejects."""
    return {
        name: int(value)
        if name in _INTEGER_FIELDS and isinstance(value, str) and _INTEGER_PATTERN.fullmatch(value)
        else value
        for name, value in fields.items()
    }
