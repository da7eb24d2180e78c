"""Veo's ``:predictLongRunning``: the client half. Pure.

A video is a long-running operation that is begun and asked about; its answer says where the files are.

Source: https://ai.google.dev/gemini-api/docs/video; google-genai 3.4, _operations_converters.py
(_GenerateVideosOperation_from_mldev and its parts) for answers, and models.py of its versions below 3
(_GenerateVideosConfig_to_mldev, _Image_to_mldev) for requests; google.rpc.Code for the numbers of an operation's error,
which are not those of HTTP.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.errors import InvalidField, UpstreamError
from tornado_gate.http.upstream_errors import key_refused
from tornado_gate.types import Call, Data, VideoOperation, VideoRequest
from tornado_gate.wire.gemini_generate import error_of
from tornado_gate.wire.gemini_generate.json_values import count, given, items, mapping, string

POLL_SECONDS: Final = 10.0
"""What the vendor's own examples wait between two looks."""

_RESOLUTIONS: Final = {720: "720p", 1080: "1080p", 2160: "4k"}
"""By the shorter side."""
_NEGATIVE: Final = "negative_prompt"
_LONGEST: Final = 2000
_CODES: Final = (
    "", "cancelled", "unknown", "invalid_argument", "deadline_exceeded", "not_found", "already_exists",
    "permission_denied", "resource_exhausted", "failed_precondition", "aborted", "out_of_range", "unimplemented",
    "internal", "unavailable", "data_loss", "unauthenticated",
)  # fmt: skip
"""Names of google.rpc.Code, by number."""
_BLOCKED: Final = "content_policy_violation"
_ABOUT_OUR_KEY: Final = ("permission_denied", "unauthenticated")


def render_video_request(call: Call, request: VideoRequest, picture: Data | None) -> dict[str, Any]:
    """The body of ``:predictLongRunning``; `picture` is what the video begins with. What cannot be said is lost by name.

    Which lengths, resolutions and numbers of videos there are depends on the model and is the upstream's to say. Raises
    InvalidField for a length that is no whole number of seconds, and for a negative prompt that is no text.
    """
    for name in ("fps", "watermark", "user"):
        if getattr(request, name) is not None:
            call.lose(request.field_name(name))
    for name, value in request.extra.items():
        if value is not None:
            call.lose(name)
    ratio, resolution = _shape(call, request)
    image = None if picture is None else {"bytesBase64Encoded": picture.base64, "mimeType": picture.media_type}
    parameters = given(
        aspectRatio=ratio,
        resolution=resolution,
        durationSeconds=_whole_seconds(request),
        negativePrompt=_negative_prompt(call, request),
        seed=request.seed,
        sampleCount=request.n if request.n != 1 else None,  # of which many models know nothing: they make one
    )
    body: dict[str, Any] = {"instances": [given(prompt=request.prompt, image=image)]}
    return {**body, "parameters": parameters} if parameters else body


def _shape(call: Call, request: VideoRequest) -> tuple[str | None, str | None]:
    """Aspect ratio and resolution. Of a size that is neither, the caller hears that it is lost, and gets its orientation."""
    width, height = request.width, request.height
    if width is None or height is None:
        return None, None
    long, short = max(width, height), min(width, height)
    resolution = _RESOLUTIONS.get(short)
    exact = long * 9 == short * 16
    if not exact or resolution is None:
        call.lose(request.field_name("width"))
        call.lose(request.field_name("height"))
    ratio = None if width == height else "16:9" if width > height else "9:16"
    return ratio, resolution if exact else None


def _whole_seconds(request: VideoRequest) -> int | None:
    if request.seconds is None:
        return None
    if request.seconds != int(request.seconds):
        name = request.field_name("seconds")
        raise InvalidField(name, f"'{name}' must be a whole number of seconds for this model, not {request.seconds:g}.")
    return int(request.seconds)


def _negative_prompt(call: Call, request: VideoRequest) -> str | None:
    """The only one of a caller's further wishes that has a word here."""
    place = request.field_name("metadata")
    for name, value in request.metadata.items():
        if name != _NEGATIVE and value is not None:
            call.lose(f"{place}.{name}")
    wanted = request.metadata.get(_NEGATIVE)
    if wanted is not None and not isinstance(wanted, str):
        raise InvalidField(f"{place}.{_NEGATIVE}", f"'{place}.{_NEGATIVE}' must be a string.")
    return wanted or None


def parse_operation(body: Any) -> VideoOperation:
    """Where an operation stands: {"name"}, and when it is done {"name", "videos": [address, …]}.

    Raises the error that the body is, and UpstreamError for one that is no operation.
    """
    name = string(mapping(body).get("name"))
    if not name:
        raise error_of(body) or UpstreamError("The upstream's answer is JSON, but no operation.")
    if body.get("error"):
        return _failed(name, mapping(body["error"]))
    if body.get("done") is not True:
        return VideoOperation(status="running", operation={"name": name}, poll_after=POLL_SECONDS)
    answer = mapping(mapping(body.get("response")).get("generateVideoResponse"))
    samples = [string(mapping(sample.get("video")).get("uri")) for sample in items(answer.get("generatedSamples"))]
    videos = [uri for uri in samples if uri]
    if not videos and (reason := _filtered(answer)):
        return VideoOperation(status="failed", operation={"name": name}, error=reason, code=_BLOCKED)
    return VideoOperation(status="completed", operation={"name": name, "videos": videos}, videos=len(videos))


def _filtered(answer: Mapping[str, Any]) -> str:
    """Why the vendor's safety filter left no video, "" when it did not."""
    reasons = answer.get("raiMediaFilteredReasons")
    said = " ".join(filter(None, map(string, reasons))) if isinstance(reasons, list) else ""
    if said:
        return said[:_LONGEST]
    return "The upstream's safety filter left no video." if count(answer.get("raiMediaFilteredCount")) else ""


def _failed(name: str, error: Mapping[str, Any]) -> VideoOperation:
    """The upstream's words are kept, but for a fault of our own key, of which callers learn nothing."""
    number = count(error.get("code")) or 0
    code = _CODES[number] if number < len(_CODES) else ""
    said = string(error.get("message"))[:_LONGEST]
    if code in _ABOUT_OUR_KEY or "API key" in said:
        refused = key_refused()
        said, code = refused.message, refused.code
    return VideoOperation(status="failed", operation={"name": name}, error=said, code=code)
