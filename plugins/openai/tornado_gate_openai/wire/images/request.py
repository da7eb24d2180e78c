"""Generation requests: body to `ImageRequest`, and back. No I/O.

Source: openai-python 3.52, types/image_generate_params.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.types import Call, ImageRequest
from tornado_gate_openai.wire import formats
from tornado_gate_openai.wire.images.families import NO_FAMILY, find_family_by_model

WIRE_FORMAT: Final = formats.OPENAI_IMAGES

SHARED_FIELDS: Final = (
    "n",
    "size",
    "quality",
    "style",
    "background",
    "moderation",
    "output_format",
    "output_compression",
    "input_fidelity",
    "partial_images",
    "user",
)
"""Fields with the same name in the body and in `ImageRequest`."""
KNOWN_MEMBERS: Final = (*SHARED_FIELDS, "model", "prompt", "stream", "response_format")

_BYTES_ONLY_FIELDS: Final = ("background", "moderation", "output_compression", "input_fidelity", "partial_images")
"""Fields that only models which always return base64 support."""
_UNSUPPORTED_FIELDS: Final = ("negative_prompt", "prompt_extend", "seed")
"""Fields of `ImageRequest` that this format does not have."""


def parse_request(body: Mapping[str, Any]) -> ImageRequest:
    """Return the common request for a validated body.

    ``response_format`` is not part of it; the format plugin handles it.
    """
    return ImageRequest(wire_format=WIRE_FORMAT, **read_fields(body))


def read_fields(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an `ImageRequest` from a body, without its images and wire format."""
    fields: dict[str, Any] = {name: body.get(name) for name in SHARED_FIELDS}
    return fields | {
        "model": body["model"],
        "prompt": body["prompt"],
        "stream": is_true(body.get("stream")),
        "extra": {name: value for name, value in body.items() if name not in KNOWN_MEMBERS and value is not None},
    }


def is_true(value: Any) -> bool:
    """Return whether ``stream`` is true; the service's contract defines it as a string."""
    return value is True or value == "true"


def render_request(call: Call, request: ImageRequest, *, answers_bytes: bool) -> dict[str, Any]:
    """Return the generation request for an upstream; it always requests base64. Unsupported fields are dropped by name.

    `answers_bytes` is True for models that always return base64 and reject ``response_format`` (gpt-image); other models
    support neither streams nor the fields in `_BYTES_ONLY_FIELDS`.
    """
    if request.input_fidelity is not None and answers_bytes:
        call.drop_field(request.field_name("input_fidelity"))
    body = render_shared_fields(call, request, WIRE_FORMAT, answers_bytes=answers_bytes)
    body.pop("input_fidelity", None)
    return body


def render_shared_fields(call: Call, request: ImageRequest, wire_format: str, *, answers_bytes: bool) -> dict[str, Any]:
    """Return the fields that generations and edits share."""
    body: dict[str, Any] = {"model": call.target.upstream_model, "prompt": request.prompt}
    for name in SHARED_FIELDS:
        value = getattr(request, name)
        if value is None or (name == "partial_images" and not request.stream):
            continue
        if _is_refused(name, value, answers_bytes):
            call.drop_field(request.field_name(name))
        else:
            body[name] = value
    if not answers_bytes:
        body.pop("output_format", None)
        body["response_format"] = "b64_json"
    elif request.stream:
        body["stream"] = True
    _drop_unsupported(call, request, body)
    for name, value in request.extra.items():
        if request.wire_format == wire_format:
            body.setdefault(name, value)
        else:
            call.drop_field(name)
    return body


def _is_refused(name: str, value: Any, answers_bytes: bool) -> bool:
    if answers_bytes:
        return name == "style"
    return name in _BYTES_ONLY_FIELDS or (name == "output_format" and value != "png")  # png is their only format


def _drop_unsupported(call: Call, request: ImageRequest, body: dict[str, Any]) -> None:
    """Report unsupported fields with `call.drop_field`. An aspect ratio becomes the size that has it, if there is one."""
    if request.size is None and request.aspect_ratio is not None:
        family = find_family_by_model(call.target.upstream_model) or NO_FAMILY
        if size := family.find_size_of_ratio(request.aspect_ratio):
            body["size"] = size
        else:
            call.drop_field(request.field_name("aspect_ratio"))
    for name in _UNSUPPORTED_FIELDS:
        if getattr(request, name) not in (None, ""):
            call.drop_field(request.field_name(name))
    if request.watermark:  # False is supported: these models never add one
        call.drop_field(request.field_name("watermark"))
    if request.resolution not in (None, "1K"):  # all named sizes have this resolution
        call.drop_field(request.field_name("resolution"))
