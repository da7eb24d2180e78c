"""Video jobs: create, poll, download and delete, one request each.

The wire format is in `tornado_gate_openai.wire.videos`; this module has the paths, and the handling of unknown jobs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from tornado_gate.codec.multipart import FormBody
from tornado_gate.errors import UnsupportedOperation, UpstreamRefused
from tornado_gate.http import upstream
from tornado_gate.types import (
    BufferedBody,
    Call,
    StreamEvent,
    Upload,
    UpstreamRequest,
    UpstreamResponse,
    VideoCancel,
    VideoDownload,
    VideoOperation,
    VideoPoll,
    VideoRequest,
)
from tornado_gate.types.value import Value
from tornado_gate_openai.provider.answers import read_json_object
from tornado_gate_openai.provider.body import apply_changes, compute_changes
from tornado_gate_openai.provider.endpoints import VIDEOS
from tornado_gate_openai.provider.settings import OpenAISettings
from tornado_gate_openai.wire import videos

_FIELDS_OF_MEMBER: Final[Mapping[str, tuple[str, ...]]] = {
    "size": ("width", "height"),
    videos.IMAGE_FIELD: ("image",),
}
"""By wire field: the common field, where the names differ."""

AnyVideo = VideoRequest | VideoPoll | VideoDownload | VideoCancel

JOB_CONTEXT: Final = "about a job"
"""Context of requests where a 404 means that the job does not exist. Only these requests have a context."""
LOST_CONTEXT: Final = "lost"
"""Context of the response to a request about a job that does not exist."""
_GONE_STATUSES: Final = (404, 410)


class OutgoingVideoCall(Value, frozen=True, kw_only=True):
    """One request: `path` is below the base URL, `context` is for `call_upstream`."""

    path: str
    method: str = "POST"
    body: dict[str, Any] | FormBody | None = None
    context: str | None = None
    file_types: tuple[str, ...] = ()


async def build_request(call: Call, facts: OpenAISettings, request: AnyVideo) -> OutgoingVideoCall:
    """The outgoing request. Reports unsupported fields to `call.drop_field`.

    Raises UnsupportedOperation for a request about a job whose id is unknown: the vendor accepts no id of the gateway.
    """
    match request:
        case VideoRequest(remix_of=None):
            return OutgoingVideoCall(path=VIDEOS, body=await _render_creation(call, facts, request))
        case VideoRequest(remix_of=Mapping() as earlier):
            body = _change_body(call, facts, request, videos.render_remix(call, request))
            return OutgoingVideoCall(path=f"{_get_job_path(earlier)}/remix", body=body)
        case VideoPoll(operation=Mapping() as operation):
            return OutgoingVideoCall(path=_get_job_path(operation), method="GET", context=JOB_CONTEXT)
        case VideoDownload(operation=operation, index=0):
            path = f"{_get_job_path(operation)}/content"
            return OutgoingVideoCall(path=path, method="GET", file_types=("video/",))
        case VideoCancel(operation=operation):
            return OutgoingVideoCall(path=_get_job_path(operation), method="DELETE", context=JOB_CONTEXT)
    raise UnsupportedOperation(f"The provider '{call.target.provider}' does not support this request for videos.")


def _get_job_path(operation: Mapping[str, Any]) -> str:
    return f"{VIDEOS}/{videos.render_job_path(operation)}"


async def _render_creation(call: Call, facts: OpenAISettings, request: VideoRequest) -> dict[str, Any] | FormBody:
    body = _change_body(call, facts, request, videos.render_request(call, request))
    files: list[Upload] = []
    if request.image is not None and videos.IMAGE_FIELD in facts.drop:
        call.drop_field(request.field_name("image"))
    elif request.image is not None:
        field = facts.rename.get(videos.IMAGE_FIELD, videos.IMAGE_FIELD)
        files.append(await videos.make_image_upload(call, request.image, request.field_name("image"), field))
    return body if facts.video_json and not files else FormBody(body, files)


def _change_body(call: Call, facts: OpenAISettings, request: VideoRequest, body: Mapping[str, Any]) -> dict[str, Any]:
    def lose(name: str) -> None:
        for ours in _FIELDS_OF_MEMBER.get(name, (name,)):
            call.drop_field(request.field_name(ours))

    return apply_changes(compute_changes(facts, body, lose), body)


async def call_about_job(call: Call, outgoing: UpstreamRequest) -> UpstreamResponse:
    """Like the default call, but an unknown job gives a response with the context LOST_CONTEXT instead of an error."""
    try:
        return await upstream.call_upstream(call, outgoing)
    except UpstreamRefused as refused:
        if refused.status not in _GONE_STATUSES:
            raise
        return UpstreamResponse(chunks=BufferedBody(b""), context=LOST_CONTEXT)


async def parse_events(
    call: Call, request: VideoRequest | VideoPoll | VideoCancel, incoming: UpstreamResponse
) -> AsyncIterator[StreamEvent]:
    """The state of the job. The iterator raises UpstreamError for an invalid response."""
    if incoming.context == LOST_CONTEXT:
        yield VideoOperation(status="lost")
    elif isinstance(request, VideoCancel):
        await incoming.read()
        yield VideoOperation(status="lost")  # the upstream has deleted the job
    else:
        yield videos.parse_video(await read_json_object(call, incoming), incoming.headers)
