"""Videos: a job that is begun, asked about, fetched and deleted, each by a request of its own.

The wire format is in `tornado_gate.wire.openai_videos`; here is where the requests go, and what a missing job means.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from tornado_gate.codec.multipart import FormBody
from tornado_gate.errors import UnsupportedOperation, UpstreamRefused
from tornado_gate.http import upstream
from tornado_gate.types import (
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
    Whole,
)
from tornado_gate.types.value import Value
from tornado_gate.wire import openai_videos
from tornado_gate_openai.answers import json_object
from tornado_gate_openai.body import applied, changes
from tornado_gate_openai.endpoints import VIDEOS
from tornado_gate_openai.facts import Facts

_NAMES: Final[Mapping[str, tuple[str, ...]]] = {"size": ("width", "height"), openai_videos.PICTURE: ("image",)}
"""The vocabulary's names of wire fields, where they differ."""

AnyVideo = VideoRequest | VideoPoll | VideoDownload | VideoCancel

ABOUT_A_JOB: Final = "about a job"
"""The context of a request whose 404 is an answer: there is no such job. No other request of this plugin has a context."""
LOST: Final = "lost"
"""The context of that answer."""
_GONE: Final = (404, 410)


class Asked(Value, frozen=True, kw_only=True):
    """One request: `path` is below the upstream's address, `context` is for `call_upstream`."""

    path: str
    method: str = "POST"
    body: dict[str, Any] | FormBody | None = None
    context: str | None = None


async def asked(call: Call, facts: Facts, request: AnyVideo) -> Asked:
    """What is sent. What cannot be said is reported to `call.lose`.

    Raises UnsupportedOperation for a question about a job whose name is not known: the vendor takes no name of ours.
    """
    match request:
        case VideoRequest(remix_of=None):
            return Asked(path=VIDEOS, body=await _begun(call, facts, request))
        case VideoRequest(remix_of=Mapping() as earlier):
            body = _changed(call, facts, request, openai_videos.render_remix(call, request))
            return Asked(path=f"{_job(earlier)}/remix", body=body)
        case VideoPoll(operation=Mapping() as operation):
            return Asked(path=_job(operation), method="GET", context=ABOUT_A_JOB)
        case VideoDownload(operation=operation, index=0):
            return Asked(path=f"{_job(operation)}/content", method="GET")
        case VideoCancel(operation=operation):
            return Asked(path=_job(operation), method="DELETE", context=ABOUT_A_JOB)
    raise UnsupportedOperation(f"The provider '{call.target.provider}' cannot say this of its videos.")


def _job(operation: Mapping[str, Any]) -> str:
    return f"{VIDEOS}/{openai_videos.job_path(operation)}"


async def _begun(call: Call, facts: Facts, request: VideoRequest) -> dict[str, Any] | FormBody:
    body = _changed(call, facts, request, openai_videos.render_request(call, request))
    files: list[Upload] = []
    if request.image is not None and openai_videos.PICTURE in facts.drop:
        call.lose(request.field_name("image"))
    elif request.image is not None:
        field = facts.rename.get(openai_videos.PICTURE, openai_videos.PICTURE)
        files.append(await openai_videos.picture_file(call, request.image, request.field_name("image"), field))
    return body if facts.video_json and not files else FormBody(body, files)


def _changed(call: Call, facts: Facts, request: VideoRequest, body: Mapping[str, Any]) -> dict[str, Any]:
    def lose(name: str) -> None:
        for ours in _NAMES.get(name, (name,)):
            call.lose(request.field_name(ours))

    return applied(changes(facts, body, lose), body)


async def call_about_job(call: Call, outgoing: UpstreamRequest) -> UpstreamResponse:
    """The default call, but that a job which the upstream does not know is no error."""
    try:
        return await upstream.call_upstream(call, outgoing)
    except UpstreamRefused as refused:
        if refused.status not in _GONE:
            raise
        return UpstreamResponse(chunks=Whole(b""), context=LOST)


async def events(
    call: Call, request: VideoRequest | VideoPoll | VideoCancel, incoming: UpstreamResponse
) -> AsyncIterator[StreamEvent]:
    """Where the job stands. The iterator raises UpstreamError for an answer that is none."""
    if incoming.context == LOST:
        yield VideoOperation(status="lost")
    elif isinstance(request, VideoCancel):
        await incoming.read()
        yield VideoOperation(status="lost")  # the upstream has forgotten it
    else:
        yield openai_videos.parse_video(await json_object(call, incoming), incoming.headers)
