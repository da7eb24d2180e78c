"""What a body of the vendor's shape may hold. Nothing is converted but the fields of a form; unknown fields pass.

Source: openai-python 3.52, types/image_generate_params.py, image_edit_params.py and image_input_reference_param.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from marshmallow import validate

from tornado_gate.codec.checks import need_array, need_object, optional_string, wrong
from tornado_gate.codec.fields import Body, Checked, Integer, Object, String, check, named
from tornado_gate.errors import InvalidField
from tornado_gate.wire.openai_images import is_true

MOST_PICTURES: Final = 16
"""To edit at once."""

_INTEGER: Final = re.compile(r"-?[0-9]{1,18}")
_INTEGERS: Final = ("n", "output_compression", "partial_images", "frame_count", "frame_duration_ms")


def check_stream(stream: Any) -> None:
    """The contract calls it a string, the vendor a boolean."""
    if not isinstance(stream, bool) and stream not in ("true", "false"):
        shown = f"'{stream[:50]}'" if isinstance(stream, str) else named(stream)
        wrong("stream", f"must be true or false, as a boolean or a string, not {shown}")


def check_references(images: Any) -> None:
    """Where the pictures to edit are."""
    need_array(images, "images")
    if not images:
        wrong("images", "must not be empty")
    if len(images) > MOST_PICTURES:
        wrong("images", f"has {len(images)} items; {MOST_PICTURES} are allowed")
    for index, image in enumerate(images):
        check_reference(image, f"images.{index}")


def check_reference(value: Any, path: str) -> None:
    """Where a picture is: ``image_url`` or ``file_id``."""
    need_object(value, path)
    for name in ("image_url", "file_id"):
        optional_string(value, name, path)
    if (value.get("image_url") is None) == (value.get("file_id") is None):
        wrong(path, "must have one of 'image_url' and 'file_id'")


class AnswerBody(Body):
    """What generations, edits and variations have in common."""

    model = String(required=True, validate=validate.Length(min=1, error="must not be empty"))
    n = Integer(least=1, most=10, allow_none=True)
    response_format = String(choices=("url", "b64_json"), allow_none=True)
    size = String(allow_none=True)
    user = String(allow_none=True)


class GenerationBody(AnswerBody):
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
    stream = Checked(check_stream, allow_none=True)
    style = String(allow_none=True)
    svg = Object(allow_none=True)


class EditBody(GenerationBody):
    """The body of ``POST /v1/images/edits`` in JSON: pictures are objects that say where they are."""

    images = Checked(check_references, required=True)
    mask = Checked(lambda mask: check_reference(mask, "mask"), allow_none=True)


_GENERATION: Final = GenerationBody()
_EDIT: Final = EditBody()
_VARIATION: Final = AnswerBody()


def check_generation(body: Mapping[str, Any]) -> None:
    """Raises InvalidField for the first field of a body, or of a form's fields, that is wrong."""
    check(_GENERATION, body)
    if body.get("partial_images") and not is_true(body.get("stream")):
        raise InvalidField("partial_images", "'partial_images' needs 'stream' to be true.")


def check_json_edit(body: Mapping[str, Any]) -> None:
    """The same for edits in JSON."""
    check(_EDIT, body)
    check_generation(body)


def check_variation(body: Mapping[str, Any]) -> None:
    """The same for the fields of a variation's form."""
    check(_VARIATION, body)


def from_form(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The text fields of a form with their numbers as numbers. What is none stays a string, which is an error later."""
    return {
        name: int(value) if name in _INTEGERS and isinstance(value, str) and _INTEGER.fullmatch(value) else value
        for name, value in fields.items()
    }
