"""Requests for new pictures: body to `ImageRequest`, and back. Pure.

Source: openai-python 3.52, types/image_generate_params.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.types import Call, ImageRequest
from tornado_gate.wire import formats
from tornado_gate.wire.openai_images.families import NO_FAMILY, find_family_by_model

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
"""Fields of one name here and in the vocabulary."""
KNOWN_MEMBERS: Final = (*SHARED_FIELDS, "model", "prompt", "stream", "response_format")

_BYTES_ONLY_FIELDS: Final = ("background", "moderation", "output_compression", "input_fidelity", "partial_images")
"""What only the models that always answer with bytes take."""
_UNSUPPORTED_FIELDS: Final = ("negative_prompt", "prompt_extend", "seed")
"""What this format has no word for."""


def parse_request(body: Mapping[str, Any]) -> ImageRequest:
    """The common request in a body that was checked before.

    How the pictures are to come back (``response_format``) is no word of the vocabulary, and nobody's but the server's.
    """
    return ImageRequest(wire_format=WIRE_FORMAT, **read_fields(body))


def read_fields(body: Mapping[str, Any]) -> dict[str, Any]:
    """The members of an ImageRequest that a body of this vendor's says, without its pictures."""
    fields: dict[str, Any] = {name: body.get(name) for name in SHARED_FIELDS}
    return fields | {
        "model": body["model"],
        "prompt": body["prompt"],
        "stream": is_true(body.get("stream")),
        "extra": {name: value for name, value in body.items() if name not in KNOWN_MEMBERS and value is not None},
    }


def is_true(value: Any) -> bool:
    """Of ``stream``, which the service's contract calls a string."""
    return value is True or value == "true"


def render_request(call: Call, request: ImageRequest, *, answers_bytes: bool) -> dict[str, Any]:
    """The body that asks an upstream for pictures, always for their bytes. What cannot be said is lost by name.

    `answers_bytes` is for the models that answer with bytes unasked and refuse to be asked (gpt-image); the others neither
    stream nor know what those know.
    """
    if request.input_fidelity is not None and answers_bytes:
        call.drop_field(request.field_name("input_fidelity"))
    body = render_shared_fields(call, request, WIRE_FORMAT, answers_bytes=answers_bytes)
    body.pop("input_fidelity", None)
    return body


def render_shared_fields(call: Call, request: ImageRequest, wire_format: str, *, answers_bytes: bool) -> dict[str, Any]:
    """The fields that both ways to ask for pictures have."""
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
    return name in _BYTES_ONLY_FIELDS or (name == "output_format" and value != "png")  # which they answer with


def _drop_unsupported(call: Call, request: ImageRequest, body: dict[str, Any]) -> None:
    """An aspect ratio is said as the size that has it, if there is one."""
    if request.size is None and request.aspect_ratio is not None:
        family = find_family_by_model(call.target.upstream_model) or NO_FAMILY
        if size := family.find_size_of_ratio(request.aspect_ratio):
            body["size"] = size
        else:
            call.drop_field(request.field_name("aspect_ratio"))
    for name in _UNSUPPORTED_FIELDS:
        if getattr(request, name) not in (None, ""):
            call.drop_field(request.field_name(name))
    if request.watermark:  # none is what these models do anyway
        call.drop_field(request.field_name("watermark"))
    if request.resolution not in (None, "1K"):  # of which all named sizes are
        call.drop_field(request.field_name("resolution"))
