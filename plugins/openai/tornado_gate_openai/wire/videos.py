"""OpenAI's videos API: the client half. A video is a job that is created, polled, downloaded and deleted.

The vendor's SDKs create a job with a form, with or without an image. The users of `render_request` do the same. Compatible
servers use a few more status words; words with a clear meaning are accepted too.

Source: openai-python 3.52, resources/videos.py, types/video.py, video_create_params.py, video_remix_params.py and
video_create_error.py. The SDK takes its polling interval from the header ``openai-poll-after-ms``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal
from urllib.parse import quote

from tornado_gate.codec.media_types import get_extension
from tornado_gate.errors import UpstreamError
from tornado_gate.http.fetch.pictures import check, read_image
from tornado_gate.http.upstream_errors import KEY_CODES, error_text, key_refused
from tornado_gate.types import Call, Data, FileSource, Link, Upload, VideoOperation, VideoRequest
from tornado_gate_openai.wire.chat.errors import find_error
from tornado_gate_openai.wire.chat.parts import drop_none
from tornado_gate_openai.wire.images import MemoryFile, RenamedUpload

WIRE_FORMAT: Final = "openai-videos"
IMAGE_FIELD: Final = "input_reference"
"""The form field for the first image of a video."""
POLL_AFTER_HEADER: Final = "openai-poll-after-ms"

_Status = Literal["queued", "running", "completed", "failed"]
_STATUSES: Final[Mapping[str, _Status]] = {
    "queued": "queued",
    "in_progress": "running",
    "completed": "completed",
    "failed": "failed",
    # Used by compatible servers, not by the vendor:
    "pending": "running",
    "processing": "running",
    "running": "running",
    "succeeded": "completed",
    "cancelled": "failed",
    "canceled": "failed",
    "expired": "failed",
}
_MAX_CODE_LENGTH: Final = 100
_MAX_PAUSE_SECONDS: Final = 60.0


def render_request(call: Call, request: VideoRequest) -> dict[str, Any]:
    """Return the form fields that create a video, without its image. Fields that the vendor lacks are dropped by name.

    Durations and sizes are not checked here; the upstream rejects unsupported ones, because they depend on its model.
    """
    _drop_unsupported(call, request)
    body = drop_none(
        model=call.target.upstream_model,
        prompt=request.prompt,
        seconds=None if request.seconds is None else f"{request.seconds:g}",
        size=None if request.width is None or request.height is None else f"{request.width}x{request.height}",
    )
    return _add_extra(call, request, body)


def render_remix(call: Call, request: VideoRequest) -> dict[str, Any]:
    """Return the body that remixes an earlier video; the new one keeps its model, duration and size."""
    _drop_unsupported(call, request)
    return _add_extra(call, request, {"prompt": request.prompt})


def _drop_unsupported(call: Call, request: VideoRequest) -> None:
    for name in ("fps", "seed", "watermark", "user"):
        if getattr(request, name) is not None:
            call.drop_field(request.field_name(name))
    if request.n not in (None, 1):
        call.drop_field(request.field_name("n"))
    for name, value in request.metadata.items():
        if value is not None:
            call.drop_field(f"{request.field_name('metadata')}.{name}")


def _add_extra(call: Call, request: VideoRequest, body: dict[str, Any]) -> dict[str, Any]:
    for name, value in request.extra.items():
        if request.wire_format == WIRE_FORMAT:
            body.setdefault(name, value)
        elif value is not None:
            call.drop_field(name)
    return body


async def make_image_upload(call: Call, source: FileSource, param: str, field: str = IMAGE_FIELD) -> Upload:
    """Return the image as a file of the form. Raises InvalidField for the caller's field `param` if it is not an image."""
    if isinstance(source, Data | Link):
        picture = await read_image(call, source, param)
        filename = f"picture.{get_extension(picture.media_type)}"
        return MemoryFile(field=field, filename=filename, media_type=picture.media_type, data=picture.data)
    seen = await check(source, param)
    return RenamedUpload(of=source, field=field, media_type=seen[0] if seen else source.media_type)


def render_job_path(operation: Mapping[str, Any]) -> str:
    """Return the URL path segment of a job. Raises UpstreamError if the stored operation has no id of this provider."""
    job = operation.get("id")
    if not isinstance(job, str) or job in ("", ".", ".."):
        raise UpstreamError(
            "The stored task has no video id of this provider. Create the video again.", code="upstream_lost_task"
        )
    return quote(job, safe="")


def parse_video(body: Mapping[str, Any], headers: Mapping[str, str]) -> VideoOperation:
    """Return the state of a job. Raises the error in the body, or UpstreamError if the body is not a video."""
    job, word = body.get("id"), body.get("status")
    if not isinstance(job, str) or not job or not isinstance(word, str):
        raise find_error(body) or UpstreamError(
            "The upstream returned JSON without a video's id and status.", advice="Check the provider's base_url."
        )
    status = _STATUSES.get(word.lower())
    operation = {"id": job}
    if status is None:
        return VideoOperation(status="unknown", operation=operation, raw=word[:_MAX_CODE_LENGTH])
    error, code = _parse_failure(body.get("error"), word) if status == "failed" else ("", "")
    return VideoOperation(
        status=status,
        operation=operation,
        progress=_read_progress(body.get("progress")),
        duration=_read_seconds(body.get("seconds")) if status == "completed" else None,
        error=error,
        code=code,
        raw=word,
        poll_after=_parse_pause(headers.get(POLL_AFTER_HEADER, "")),
    )


def _parse_failure(error: Any, word: str) -> tuple[str, str]:
    """Return the upstream's error message and code of a failed job; a refused provider key is reported without details."""
    text = error_text(error)
    if not KEY_CODES.isdisjoint(text.names):
        refused = key_refused()
        return refused.message, refused.code
    message = text.message
    if not message and word.lower() != "failed":
        message = f"The upstream reports the video status '{word.lower()}'."
    code = error.get("code") if isinstance(error, Mapping) else None
    return message, code[:_MAX_CODE_LENGTH] if isinstance(code, str) else ""


def _read_progress(value: Any) -> int | None:
    """Return the progress in percent, from 0 to 100, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 100:
        return None
    return int(value)


def _read_seconds(value: Any) -> float | None:
    """Return a duration in seconds, or None. The vendor writes it as a string."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        seconds = float(value)
    except ValueError:
        return None
    return seconds if 0 < seconds < 86_400 else None


def _parse_pause(text: str) -> float | None:
    """Return the polling interval in seconds for a header in milliseconds; None if it is invalid."""
    return (
        min(int(text[:9]) / 1000, _MAX_PAUSE_SECONDS) if text.isascii() and text.isdigit() and int(text[:9]) else None
    )
