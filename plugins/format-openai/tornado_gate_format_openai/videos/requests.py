"""Bodies and forms to the common request: what a video is made of, and how."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.codec.checks import missing, wrong
from tornado_gate.errors import InvalidField
from tornado_gate.http.fetch import pictures
from tornado_gate.types import Call, FileSource, Upload, VideoRequest, WireRequest
from tornado_gate_format_openai.dialect import Dialect, choose
from tornado_gate_format_openai.videos.bodies import Bounds, check_remix, check_video, need, unknown_in
from tornado_gate_format_openai.videos.forms import body_of
from tornado_gate_format_openai.videos.reply_options import Kind

_PICTURES: Final = ("input_reference", "image")
"""Names of a form's file."""


def dialect_of(call: Call) -> Dialect:
    """Whose words a caller expects: the contract's, or the vendor's for its SDKs and where conf says so."""
    return choose(call.headers, within_contract=True, override=call.dialect)


async def video_request(call: Call, wire: WireRequest, kind: Kind | None) -> VideoRequest:
    """The common request of a route that begins a video; `kind` is None for the unified ones. Raises InvalidField."""
    body = body_of(wire.json) if wire.form else dict(wire.json)
    if body.get("model") is None:
        body["model"] = call.model
    files = _files(call, wire, body)
    check_video(body)
    _need_all(call, wire, body, pictured=bool(files), kind=kind)
    bounds = Bounds(call)
    seconds, length = bounds.seconds(body)
    width, height, sized = bounds.sides(body)
    bounds.check("fps", body.get("fps"), "fps")
    bounds.check("n", body.get("n"), "n")
    image, place = await _picture(body, files)
    if body.get("response_format") not in (None, "url"):
        call.lose("response_format")
    names = {"seconds": length, "image": place, "webhook": "webhook_url"}
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
        extra=unknown_in(body),
        names=names | ({"width": "size", "height": "size"} if sized else {}),
    )


def remix_request(wire: WireRequest) -> VideoRequest:
    """The change that a remix makes; model and the rest are those of the earlier video. Raises InvalidField."""
    body = wire.json
    check_remix(body)
    return VideoRequest(
        model="",
        prompt=body["prompt"],
        wire_format=wire.route.wire_format,
        user=body.get("user"),
        metadata=body.get("metadata") or {},
        webhook=body.get("webhook_url"),
        extra=unknown_in(body, remix=True),
        names={"webhook": "webhook_url"},
    )


def _need_all(call: Call, wire: WireRequest, body: Mapping[str, Any], *, pictured: bool, kind: Kind | None) -> None:
    """Raises InvalidField for what must be there.

    The contract's forms have all fields; the vendor's SDK sends a form whatever it was told.
    """
    pictured = pictured or any(body.get(name) is not None for name in _PICTURES)
    if wire.form and dialect_of(call) == "contract":
        need(body, "seconds", "size")
        if not pictured:
            missing("input_reference")
    if kind == "image" and not pictured:
        missing("image")


def _files(call: Call, wire: WireRequest, body: Mapping[str, Any]) -> list[Upload]:
    """The form's pictures. Raises InvalidField for one that is text; other files have no meaning here and are lost."""
    if wire.form and isinstance(body.get("input_reference"), str):
        wrong("input_reference", "must be a file: its part of the form needs a filename")
    found = [file for file in wire.files if file.field.removesuffix("[]") in _PICTURES]
    for file in wire.files:
        if file not in found:
            call.lose(file.field)
    return found


async def _picture(body: Mapping[str, Any], files: list[Upload]) -> tuple[FileSource | None, str]:
    """The picture that the video begins with, looked at, and the name of the field that gave it."""
    given: list[tuple[FileSource, str]] = [(file, file.field.removesuffix("[]")) for file in files]
    reference, image = body.get("input_reference"), body.get("image")
    if reference is not None:
        given.append(_referenced(reference))
    if image is not None:
        given.append((pictures.source_of(image, "image"), "image"))
    if len(given) > 1:
        wrong(given[1][1], "is a second picture; a video begins with one")
    for source, param in given:
        await pictures.check(source, param)
    return given[0] if given else (None, "image")


def _referenced(reference: Mapping[str, Any]) -> tuple[FileSource, str]:
    param = "input_reference.image_url"
    if reference.get("image_url") is None:
        message = (
            "'input_reference.file_id' names a file at a vendor, which is not known here: give 'image_url' or a file."
        )
        raise InvalidField("input_reference.file_id", message, code="unsupported_value")
    return pictures.source_of(reference["image_url"], param), param
