"""Bodies and forms of video requests to the common request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.codec.checks import raise_invalid, raise_missing
from tornado_gate.errors import InvalidField
from tornado_gate.http.fetch import pictures
from tornado_gate.types import Call, FileSource, Upload, VideoRequest, WireRequest
from tornado_gate_openai.fields.videos import (
    ModelBounds,
    check_remix,
    check_required_fields,
    check_video,
    select_unknown,
)
from tornado_gate_openai.format.dialect import Dialect, choose_dialect
from tornado_gate_openai.format.videos.forms import parse_form
from tornado_gate_openai.format.videos.reply_options import Kind

_IMAGE_FIELDS: Final = ("input_reference", "image")
"""Names of the form field with the image."""


def choose_video_dialect(call: Call) -> Dialect:
    """Return the caller's dialect: the contract's, or the vendor's for its SDKs. The setting in conf overrides both."""
    return choose_dialect(call.headers, within_contract=True, override=call.dialect)


async def parse_video_request(call: Call, wire: WireRequest, kind: Kind | None) -> VideoRequest:
    """Parse the common request of a route that creates a video. `kind` is None for the unified routes. Raises InvalidField."""
    body = parse_form(wire.json) if wire.form else dict(wire.json)
    if body.get("model") is None:
        body["model"] = call.model
    files = _select_images(call, wire, body)
    check_video(body)
    _require_all(call, wire, body, pictured=bool(files), kind=kind)
    bounds = ModelBounds(call)
    seconds, length = bounds.read_seconds(body)
    width, height, sized = bounds.read_size(body)
    bounds.check_bound("fps", body.get("fps"), "fps")
    bounds.check_bound("n", body.get("n"), "n")
    image, field = await _find_image(body, files)
    if body.get("response_format") not in (None, "url"):
        call.drop_field("response_format")
    names = {"seconds": length, "image": field, "webhook": "webhook_url"}
    return VideoRequest(
        model=body["model"],
        prompt=body["prompt"],
        wire_format=wire.route.wire_format,
        user=body.get("user"),
        image=image,
        seconds=seconds,
        width=width,
        height=height,
        fps=body.get("fps"),
        seed=body.get("seed"),
        n=body.get("n"),
        watermark=body.get("watermark"),
        metadata=body.get("metadata") or {},
        webhook=body.get("webhook_url"),
        extra=select_unknown(body),
        names=names | ({"width": "size", "height": "size"} if sized else {}),
    )


def parse_remix_request(wire: WireRequest) -> VideoRequest:
    """Parse a remix. The model and all other values are taken from the earlier video. Raises InvalidField."""
    body = wire.json
    check_remix(body)
    return VideoRequest(
        model="",
        prompt=body["prompt"],
        wire_format=wire.route.wire_format,
        user=body.get("user"),
        metadata=body.get("metadata") or {},
        webhook=body.get("webhook_url"),
        extra=select_unknown(body, remix=True),
        names={"webhook": "webhook_url"},
    )


def _require_all(call: Call, wire: WireRequest, body: Mapping[str, Any], *, pictured: bool, kind: Kind | None) -> None:
    """Raise InvalidField for a missing required field.

    The contract's forms require ``seconds``, ``size`` and an image. The vendor's SDK sends a form for every video, so its forms
    do not.
    """
    pictured = pictured or any(body.get(name) is not None for name in _IMAGE_FIELDS)
    if wire.form and choose_video_dialect(call) == "contract":
        check_required_fields(body, "seconds", "size")
        if not pictured:
            raise_missing("input_reference")
    if kind == "image" and not pictured:
        raise_missing("image")


def _select_images(call: Call, wire: WireRequest, body: Mapping[str, Any]) -> list[Upload]:
    """Return the form's image files. Other files are reported as dropped. Raises InvalidField for an image field with text."""
    if wire.form and isinstance(body.get("input_reference"), str):
        raise_invalid("input_reference", "must be a file: its part of the form needs a filename")
    images = [file for file in wire.files if file.field.removesuffix("[]") in _IMAGE_FIELDS]
    for file in wire.files:
        if file not in images:
            call.drop_field(file.field)
    return images


async def _find_image(body: Mapping[str, Any], files: list[Upload]) -> tuple[FileSource | None, str]:
    """Return the video's first frame, or None, and the name of its field. Raises InvalidField for an invalid image."""
    candidates: list[tuple[FileSource, str]] = [(file, file.field.removesuffix("[]")) for file in files]
    reference, image = body.get("input_reference"), body.get("image")
    if reference is not None:
        candidates.append(_parse_reference(reference))
    if image is not None:
        candidates.append((pictures.parse_image_source(image, "image"), "image"))
    if len(candidates) > 1:
        raise_invalid(candidates[1][1], "is a second image; a video request may have only one")
    for source, param in candidates:
        await pictures.check(source, param)
    return candidates[0] if candidates else (None, "image")


def _parse_reference(reference: Mapping[str, Any]) -> tuple[FileSource, str]:
    param = "input_reference.image_url"
    if reference.get("image_url") is None:
        message = "'input_reference.file_id' is not supported. Send 'input_reference.image_url' or an uploaded file."
        raise InvalidField("input_reference.file_id", message, code="unsupported_value")
    return pictures.parse_image_source(reference["image_url"], param), param
