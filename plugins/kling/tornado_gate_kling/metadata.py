"""The further wishes of a request, its `metadata`: known names go up, all others are lost by their own.

Source: the tables of https://app.klingai.com/global/dev/document-api/apiReference/model/textToVideo and …/imageToVideo. What is
not taken from a caller: callback_url, which would have the upstream call anybody, and external_task_id, which is the gateway's.
"""

from __future__ import annotations

from typing import Any, Final

from marshmallow import Schema

from tornado_gate.codec.fields import Array, Boolean, Number, Object, OneOf, String, first_fault
from tornado_gate.errors import InvalidField
from tornado_gate.http.fetch.pictures import source_of
from tornado_gate.types import Call, VideoRequest
from tornado_gate_kling.address import IMAGE, TEXT, Kind
from tornado_gate_kling.images import sendable
from tornado_gate_kling.models import model_of

_PICTURES: Final = ("image_tail", "static_mask")
_MODES: Final = {
    "high": "pro",
    "hd": "pro",
    "pro": "pro",
    "standard": "std",
    "std": "std",
    "medium": "std",
    "low": "std",
}
"""Words for `quality_level`, which is the gateway's name for the vendor's `mode`."""


class Wishes(Schema):
    """Shapes only: which values a model knows is the upstream's to say."""

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


_SCHEMA: Final = Wishes()

_ONLY: Final[dict[str, Kind]] = {
    "aspect_ratio": TEXT,
    "image_tail": IMAGE,
    "static_mask": IMAGE,
    "dynamic_masks": IMAGE,
    "element_list": IMAGE,
}


def kind_of(request: VideoRequest) -> Kind:
    """A last picture is enough for the upstream to make a video of pictures."""
    return IMAGE if request.image is not None or request.metadata.get("image_tail") is not None else TEXT


async def wishes_of(call: Call, request: VideoRequest) -> dict[str, Any]:
    """The fields of the upstream's body that `metadata` asks for. Raises InvalidField; tells what is lost."""
    field = request.field_name("metadata")
    given = {name: value for name, value in request.metadata.items() if value is not None}
    _check({name: value for name, value in given.items() if name in _SCHEMA.fields}, field)
    kind, model = kind_of(request), model_of(call.target.upstream_model)
    unknown = {"cfg_scale": not model.cfg_scale, "sound": not model.sound}
    body: dict[str, Any] = {}
    for name, value in given.items():
        param = f"{field}.{name}"
        if name not in _SCHEMA.fields or _ONLY.get(name, kind) != kind or unknown.get(name, False):
            call.lose(param)
        elif name in _PICTURES:
            body[name], _ = await sendable(call, source_of(value, param), param)
        elif name == "sound":
            body[name] = {True: "on", False: "off"}.get(value, value)
        elif name == "quality_level":
            _set_mode(call, body, given.get("mode") or "", value, param)
        else:
            body[name] = value
    return body


def _check(wishes: dict[str, Any], field: str) -> None:
    errors = _SCHEMA.validate(wishes)
    if errors:
        path, message = first_fault(errors)
        name = ".".join(map(str, [field, *path]))
        raise InvalidField(name, f"'{name}' {message}.")


def _set_mode(call: Call, body: dict[str, Any], mode: str, level: str, param: str) -> None:
    """The vendor's own word, where it was given, stands above the gateway's."""
    meant = _MODES.get(level.lower())
    if meant is None or mode not in ("", meant):
        call.lose(param)
    else:
        body["mode"] = meant
