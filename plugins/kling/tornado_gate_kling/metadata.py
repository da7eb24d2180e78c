"""Vendor options in a request's `metadata`: known members are sent, the others are reported as dropped.

Source: the tables of https://app.klingai.com/global/dev/document-api/apiReference/model/textToVideo and …/imageToVideo.
Two members are not accepted from callers: callback_url, a URL that the upstream would call, and external_task_id, which
the gateway sets.
"""

from __future__ import annotations

from typing import Any, Final

from marshmallow import Schema

from tornado_gate.codec.fields import Array, Boolean, Number, Object, OneOf, String, first_fault
from tornado_gate.errors import InvalidField
from tornado_gate.http.fetch.pictures import parse_image_source
from tornado_gate.types import Call, VideoRequest
from tornado_gate_kling.address import IMAGE_KIND, TEXT_KIND, Kind
from tornado_gate_kling.images import prepare_image
from tornado_gate_kling.models import find_model

_IMAGE_MEMBERS: Final = ("image_tail", "static_mask")
_MODE_OF_QUALITY: Final = {
    "high": "pro",
    "hd": "pro",
    "pro": "pro",
    "standard": "std",
    "std": "std",
    "medium": "std",
    "low": "std",
}
"""The vendor's `mode` by the gateway's `quality_level`."""


class MetadataSchema(Schema):
    """A schema that checks types only. The upstream validates the values for each model."""

    negative_prompt = String()
    mode = String()
    quality_level = String()
    cfg_scale = Number(least=0, most=1)
    camera_control = Object()
    sound = OneOf(by_type={str: String(choices=("on", "off")), bool: Boolean()})
    multi_shot = Boolean()
    shot_type = String()
    multi_prompt = Array(Object())
    voice_list = Array(Object())
    aspect_ratio = String()
    image_tail = String()
    static_mask = String()
    dynamic_masks = Array(Object())
    element_list = Array(Object())


_METADATA_SCHEMA: Final = MetadataSchema()

_KIND_OF_MEMBER: Final[dict[str, Kind]] = {
    "aspect_ratio": TEXT_KIND,
    "image_tail": IMAGE_KIND,
    "static_mask": IMAGE_KIND,
    "dynamic_masks": IMAGE_KIND,
    "element_list": IMAGE_KIND,
}


def choose_kind(request: VideoRequest) -> Kind:
    """Return the kind of the request. A last frame (`image_tail`) alone also makes it an image-to-video request."""
    return IMAGE_KIND if request.image is not None or request.metadata.get("image_tail") is not None else TEXT_KIND


async def parse_metadata(call: Call, request: VideoRequest) -> dict[str, Any]:
    """Return the body members from `metadata`. Reports unsupported ones to `call.drop_field`. Raises InvalidField."""
    field = request.field_name("metadata")
    metadata = {name: value for name, value in request.metadata.items() if value is not None}
    _check_members({name: value for name, value in metadata.items() if name in _METADATA_SCHEMA.fields}, field)
    kind, model = choose_kind(request), find_model(call.target.upstream_model)
    unknown = {"cfg_scale": not model.cfg_scale, "sound": not model.sound}
    body: dict[str, Any] = {}
    for name, value in metadata.items():
        param = f"{field}.{name}"
        if name not in _METADATA_SCHEMA.fields or _KIND_OF_MEMBER.get(name, kind) != kind or unknown.get(name, False):
            call.drop_field(param)
        elif name in _IMAGE_MEMBERS:
            body[name], _ = await prepare_image(call, parse_image_source(value, param), param)
        elif name == "sound":
            body[name] = {True: "on", False: "off"}.get(value, value)
        elif name == "quality_level":
            _set_mode(call, body, metadata.get("mode") or "", value, param)
        else:
            body[name] = value
    return body


def _check_members(wishes: dict[str, Any], field: str) -> None:
    errors = _METADATA_SCHEMA.validate(wishes)
    if errors:
        path, message = first_fault(errors)
        name = ".".join(map(str, [field, *path]))
        raise InvalidField(name, f"'{name}' {message}.")


def _set_mode(call: Call, body: dict[str, Any], mode: str, level: str, param: str) -> None:
    """Set `mode` from the gateway's `quality_level`. An explicit vendor `mode` wins."""
    meant = _MODE_OF_QUALITY.get(level.lower())
    if meant is None or mode not in ("", meant):
        call.drop_field(param)
    else:
        body["mode"] = meant
