"""Render a video request as the upstream's JSON body.

Source: https://app.klingai.com/global/dev/document-api/apiReference/model/textToVideo and …/imageToVideo: model_name,
prompt, duration (seconds as a string), aspect_ratio (16:9, 9:16, 1:1; only without an input image, whose ratio wins
otherwise), image, watermark_info, external_task_id.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Final

from tornado_gate.errors import InvalidField, UnsupportedOperation
from tornado_gate.http.fetch.pictures import ImageFile
from tornado_gate.types import Call, VideoRequest
from tornado_gate_kling.address import TEXT_KIND
from tornado_gate_kling.images import prepare_image
from tornado_gate_kling.metadata import choose_kind, parse_metadata
from tornado_gate_kling.models import describe_seconds, find_model

ASPECT_RATIOS: Final = {Fraction(16, 9): "16:9", Fraction(9, 16): "9:16", Fraction(1): "1:1"}


async def build_body(call: Call, request: VideoRequest) -> dict[str, Any]:
    """Return the request body. Reports unsupported fields to `call.drop_field`. Raises InvalidField."""
    _check_request(call, request)
    body: dict[str, Any] = {"model_name": call.target.upstream_model, "prompt": request.prompt}
    picture: ImageFile | None = None
    if request.image is not None:
        body["image"], picture = await prepare_image(call, request.image, request.field_name("image"))
    body |= await parse_metadata(call, request)
    if request.seconds is not None:
        body["duration"] = _choose_duration(call, request, request.seconds)
    _set_shape(call, request, body, picture)
    if request.watermark is not None:
        body["watermark_info"] = {"enabled": request.watermark}
    if request.task_id:
        body["external_task_id"] = request.task_id
    _drop_unsupported(call, request)
    return body


def _check_request(call: Call, request: VideoRequest) -> None:
    if request.remix_of is not None:
        message = f"The model '{call.model}' does not support remixing an earlier video."
        raise UnsupportedOperation(message, param=request.field_name("remix_of"))
    if choose_kind(request) == TEXT_KIND and not find_model(call.target.upstream_model).text:
        field = request.field_name("image")
        message = f"'{field}' is missing: the model '{call.model}' requires an input image."
        raise InvalidField(field, message, code="missing_required_parameter")


def _choose_duration(call: Call, request: VideoRequest, seconds: float) -> str:
    allowed, field = find_model(call.target.upstream_model).seconds, request.field_name("seconds")
    if allowed and seconds not in allowed:
        raise InvalidField(
            field, f"'{field}' must be {describe_seconds(allowed)} for the model '{call.model}', not {seconds:g}."
        )
    if seconds != int(seconds):
        raise InvalidField(field, f"'{field}' must be a whole number of seconds, not {seconds:g}.")
    return str(int(seconds))


def _set_shape(call: Call, request: VideoRequest, body: dict[str, Any], picture: ImageFile | None) -> None:
    """Set the aspect ratio; `mode` selects the resolution. With an input image, the video has the image's ratio."""
    if request.width is None or request.height is None:
        return
    shape = Fraction(request.width, request.height)
    if choose_kind(request) != TEXT_KIND:
        fits = picture is not None and shape == Fraction(picture.width, picture.height)
    else:
        ratio = ASPECT_RATIOS.get(shape)
        fits = ratio is not None and body.setdefault("aspect_ratio", ratio) == ratio
    if not fits:
        call.drop_field(request.field_name("width"))
        call.drop_field(request.field_name("height"))


def _drop_unsupported(call: Call, request: VideoRequest) -> None:
    for field in ("fps", "seed", "user"):
        if getattr(request, field) is not None:
            call.drop_field(request.field_name(field))
    if request.n is not None and request.n > 1:
        call.drop_field(request.field_name("n"))
    for name in request.extra:
        call.drop_field(name)
