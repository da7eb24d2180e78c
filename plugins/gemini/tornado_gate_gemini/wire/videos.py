"""Veo's ``:predictLongRunning`` wire format: the client half. Pure.

A video is a long-running operation that is started and polled; the finished operation contains the URLs of the files.

Source: https://ai.google.dev/gemini-api/docs/video; google-genai 3.4, _operations_converters.py
(_GenerateVideosOperation_from_mldev and its parts) for responses, and models.py of its versions below 3
(_GenerateVideosConfig_to_mldev, _Image_to_mldev) for requests; google.rpc.Code for the numbers of an operation's error, which
differ from HTTP's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.errors import InvalidField, UpstreamError
from tornado_gate.http.upstream_errors import key_refused
from tornado_gate.types import Call, Data, VideoOperation, VideoRequest
from tornado_gate_gemini.wire.generate import find_error
from tornado_gate_gemini.wire.generate.json_values import drop_none, read_count, read_object, read_objects, read_string

POLL_SECONDS: Final = 10.0
"""The poll interval in the vendor's examples, in seconds."""

_RESOLUTIONS: Final = {720: "720p", 1080: "1080p", 2160: "4k"}
"""By the shorter side in pixels."""
_NEGATIVE_PROMPT: Final = "negative_prompt"
_MAX_MESSAGE_LENGTH: Final = 2000
_STATUS_NAMES: Final = (
    "", "cancelled", "unknown", "invalid_argument", "deadline_exceeded", "not_found", "already_exists",
    "permission_denied", "resource_exhausted", "failed_precondition", "aborted", "out_of_range", "unimplemented",
    "internal", "unavailable", "data_loss", "unauthenticated",
)  # fmt: skip
"""Names of google.rpc.Code, by number."""
_BLOCKED_CODE: Final = "content_policy_violation"
_ACCOUNT_CODES: Final = ("permission_denied", "unauthenticated")


def render_video_request(call: Call, request: VideoRequest, picture: Data | None) -> dict[str, Any]:
    """The body of ``:predictLongRunning``; `picture` is the first frame. Reports unsupported fields to `call.drop_field`.

    The supported durations, resolutions and numbers of videos depend on the model; the upstream validates them. Raises
    InvalidField for a duration that is not a whole number of seconds, and for a negative prompt that is not a string.
    """
    for name in ("fps", "watermark", "user"):
        if getattr(request, name) is not None:
            call.drop_field(request.field_name(name))
    for name, value in request.extra.items():
        if value is not None:
            call.drop_field(name)
    ratio, resolution = _choose_shape(call, request)
    image = None if picture is None else {"bytesBase64Encoded": picture.base64, "mimeType": picture.media_type}
    parameters = drop_none(
        aspectRatio=ratio,
        resolution=resolution,
        durationSeconds=_round_seconds(request),
        negativePrompt=_get_negative_prompt(call, request),
        seed=request.seed,
        sampleCount=request.n if request.n != 1 else None,  # many models reject this field and return one video
    )
    body: dict[str, Any] = {"instances": [drop_none(prompt=request.prompt, image=image)]}
    return {**body, "parameters": parameters} if parameters else body


def _choose_shape(call: Call, request: VideoRequest) -> tuple[str | None, str | None]:
    """Aspect ratio and resolution. An unsupported size is reported as dropped; its orientation is kept."""
    width, height = request.width, request.height
    if width is None or height is None:
        return None, None
    long, short = max(width, height), min(width, height)
    resolution = _RESOLUTIONS.get(short)
    exact = long * 9 == short * 16
    if not exact or resolution is None:
        call.drop_field(request.field_name("width"))
        call.drop_field(request.field_name("height"))
    ratio = None if width == height else "16:9" if width > height else "9:16"
    return ratio, resolution if exact else None


def _round_seconds(request: VideoRequest) -> int | None:
    if request.seconds is None:
        return None
    if request.seconds != int(request.seconds):
        name = request.field_name("seconds")
        raise InvalidField(name, f"'{name}' must be a whole number of seconds for this model, not {request.seconds:g}.")
    return int(request.seconds)


def _get_negative_prompt(call: Call, request: VideoRequest) -> str | None:
    """``metadata.negative_prompt``, the only supported member of `request.metadata`; the others are reported as dropped."""
    field = request.field_name("metadata")
    for name, value in request.metadata.items():
        if name != _NEGATIVE_PROMPT and value is not None:
            call.drop_field(f"{field}.{name}")
    prompt = request.metadata.get(_NEGATIVE_PROMPT)
    if prompt is not None and not isinstance(prompt, str):
        raise InvalidField(f"{field}.{_NEGATIVE_PROMPT}", f"'{field}.{_NEGATIVE_PROMPT}' must be a string.")
    return prompt or None


def parse_operation(body: Any) -> VideoOperation:
    """The state of an operation: {"name"}, and when it is done {"name", "videos": [URL, …]}.

    Raises the upstream's error, and UpstreamError for a body that is not an operation.
    """
    name = read_string(read_object(body).get("name"))
    if not name:
        raise find_error(body) or UpstreamError(
            "The upstream's response is not an operation: it has no 'name'.", advice="Check the provider's base_url."
        )
    if body.get("error"):
        return _make_failed_operation(name, read_object(body["error"]))
    if body.get("done") is not True:
        return VideoOperation(status="running", operation={"name": name}, poll_after=POLL_SECONDS)
    answer = read_object(read_object(body.get("response")).get("generateVideoResponse"))
    samples = [
        read_string(read_object(sample.get("video")).get("uri"))
        for sample in read_objects(answer.get("generatedSamples"))
    ]
    videos = [uri for uri in samples if uri]
    if not videos and (reason := _find_filter_reason(answer)):
        return VideoOperation(status="failed", operation={"name": name}, error=reason, code=_BLOCKED_CODE)
    return VideoOperation(status="completed", operation={"name": name, "videos": videos}, videos=len(videos))


def _find_filter_reason(answer: Mapping[str, Any]) -> str:
    """The reason when the vendor's safety filter removed all videos, else ""."""
    reasons = answer.get("raiMediaFilteredReasons")
    reason = " ".join(filter(None, map(read_string, reasons))) if isinstance(reasons, list) else ""
    if reason:
        return reason[:_MAX_MESSAGE_LENGTH]
    return "The upstream's safety filter removed all videos." if read_count(answer.get("raiMediaFilteredCount")) else ""


def _make_failed_operation(name: str, error: Mapping[str, Any]) -> VideoOperation:
    """The failed operation. The upstream's message is kept, except for errors about the gateway's own API key."""
    number = read_count(error.get("code")) or 0
    code = _STATUS_NAMES[number] if number < len(_STATUS_NAMES) else ""
    message = read_string(error.get("message"))[:_MAX_MESSAGE_LENGTH]
    if code in _ACCOUNT_CODES or "API key" in message:
        refused = key_refused()
        message, code = refused.message, refused.code
    return VideoOperation(status="failed", operation={"name": name}, error=message, code=code)
