"""Videos: a request starts a job in the background, polls and downloads refer to it.

`tornado_gate_demo_media.video` says what they show.

The operation of a video is ``{"job": …}``. A job ends with its process and is then "lost"; the core starts it again
with the same result, because the same order gives the same file.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tornado_gate.errors import InvalidField, UpstreamError, UpstreamRefused
from tornado_gate.http.fetch import pictures
from tornado_gate.types import (
    Call,
    StreamEvent,
    UpstreamResponse,
    VideoCancel,
    VideoDownload,
    VideoOperation,
    VideoPoll,
    VideoRequest,
)
from tornado_gate_demo_media.operations.video_jobs import VideoJob, get_loop_jobs
from tornado_gate_demo_media.video import MAX_IMAGE_PIXELS, MEDIA_TYPE, check_order
from tornado_gate_demo_media.video_order import VideoOrder
from tornado_gate_local.errors import InvalidArgument
from tornado_gate_local.operations.work import DownloadWork, OperationWork, drop_unknown, make_field_error

MAX_VIDEOS: Final = 4
DEFAULT_SECONDS: Final = 4.0
DEFAULT_SIZE: Final = (1_280, 720)
DEFAULT_FPS: Final = 24
POLL_SECONDS: Final = 0.5
"""The poll interval: polling costs nothing here, and many videos take only seconds."""
PIECE_BYTES: Final = 256 * 1024
FIELDS: Final[dict[str, str]] = {}  # the names of arguments are those of the common types
FILE_LOST_MESSAGE: Final = "The file of this video is no longer available. Create the video again."


async def prepare(call: Call, request: VideoRequest) -> VideoCreationWork:
    """Raises InvalidField for unsupported values. Starts no job: the core also calls this when it creates a task."""
    if request.n is not None and not 1 <= request.n <= MAX_VIDEOS:
        raise InvalidField(request.field_name("n"), f"The number of videos must be 1 to {MAX_VIDEOS}, not {request.n}.")
    orders = _make_orders(request)
    try:
        check_order(orders[0])
    except InvalidArgument as error:
        raise make_field_error(request, error, FIELDS) from None
    await _check_image(request)
    for name, value in request.metadata.items():
        if value is not None:
            call.drop_field(f"{request.field_name('metadata')}.{name}")
    drop_unknown(call, request)
    return VideoCreationWork(call, request, orders)


def _make_orders(request: VideoRequest) -> tuple[VideoOrder, ...]:
    """One order for each video; different seeds have no order in common."""
    first = MAX_VIDEOS * (request.seed or 0)
    return tuple(
        VideoOrder(
            prompt=request.prompt,
            width=DEFAULT_SIZE[0] if request.width is None else request.width,
            height=DEFAULT_SIZE[1] if request.height is None else request.height,
            seconds=DEFAULT_SECONDS if request.seconds is None else float(request.seconds),
            fps=DEFAULT_FPS if request.fps is None else request.fps,
            seed=seed,
            watermark=bool(request.watermark),
        )
        for seed in range(first, first + (request.n or 1))
    )


async def _check_image(request: VideoRequest) -> None:
    """Check the size of an image in the request by its header. Raises InvalidField."""
    if request.image is None:
        return
    param = request.field_name("image")
    picture = await pictures.check(request.image, param)
    if picture is not None and picture[1] * picture[2] > MAX_IMAGE_PIXELS:
        message = f"'{param}' has {picture[1]}x{picture[2]} pixels; the limit is {MAX_IMAGE_PIXELS:,} pixels in total."
        raise InvalidField(param, message, code="image_too_large")


@dataclass(frozen=True, slots=True)
class VideoCreationWork(OperationWork):
    call: Call
    request: VideoRequest
    orders: tuple[VideoOrder, ...]

    async def events(self) -> AsyncIterator[StreamEvent]:
        """Start the job. Raises InvalidField for the image, and UpstreamOverloaded."""
        request, picture = self.request, None
        if request.image is not None:
            picture = (await pictures.read_image(self.call, request.image, request.field_name("image"))).data
        jobs = get_loop_jobs()
        earlier = None if request.remix_of is None else jobs.find(request.remix_of)
        job = VideoJob(orders=self.orders, task_id=request.task_id)
        jobs.begin(job, picture, earlier)
        yield make_operation(job)


@dataclass(frozen=True, slots=True)
class VideoPollWork(OperationWork):
    request: VideoPoll

    async def events(self) -> AsyncIterator[StreamEvent]:
        job = get_loop_jobs().find(self.request.operation, self.request.task_id)
        yield VideoOperation(status="lost") if job is None else make_operation(job)


@dataclass(frozen=True, slots=True)
class VideoCancelWork(OperationWork):
    request: VideoCancel

    async def events(self) -> AsyncIterator[StreamEvent]:
        """After this event nothing of the job runs and its files are removed."""
        jobs = get_loop_jobs()
        job = jobs.find(self.request.operation)
        if job is not None:
            await jobs.end(job)
        yield VideoOperation(status="failed", error="The video was cancelled by a request.", code="cancelled")


def make_operation(job: VideoJob) -> VideoOperation:
    """The status of a job."""
    return VideoOperation(
        status=job.state,
        operation={"job": job.id},
        progress=job.progress,
        videos=len(job.orders),
        duration=job.seconds if job.state == "completed" else None,
        error=job.error,
        code=job.code,
        poll_after=None if job.is_done else POLL_SECONDS,
    )


@dataclass(frozen=True, slots=True)
class VideoDownloadWork(DownloadWork):
    """The download of a finished video's file."""

    request: VideoDownload

    async def make_response(self) -> UpstreamResponse:
        """Raises UpstreamError for an unknown job or one that is not completed, UpstreamRefused for a wrong index."""
        job = get_loop_jobs().find(self.request.operation)
        if job is None:
            raise UpstreamError(FILE_LOST_MESSAGE, code="upstream_lost_task")
        if job.state != "completed":
            raise UpstreamError(
                "The video is not completed yet. Poll the task and download the file when its status is 'completed'.",
                code="video_not_ready",
            )
        if not 0 <= self.request.index < len(job.orders):
            message = f"Video {self.request.index} does not exist; the job has {len(job.orders)}, counted from 0."
            raise UpstreamRefused(message, status=404, code="video_not_found")
        path = job.get_file(self.request.index)
        try:
            size = (await asyncio.to_thread(path.stat)).st_size
        except OSError:
            raise UpstreamError(FILE_LOST_MESSAGE, code="upstream_lost_task") from None
        headers = {"content-type": MEDIA_TYPE, "content-length": str(size)}
        return UpstreamResponse(headers=headers, chunks=_iterate_pieces(job, path, size))


async def _iterate_pieces(job: VideoJob, path: Path, size: int) -> AsyncIterator[bytes]:
    """The file in pieces. It is open only while a piece is read, so an abandoned download leaves no file open."""
    for position in range(0, size, PIECE_BYTES):
        job.mark_polled()
        try:
            yield await asyncio.to_thread(_read_piece, path, position)
        except OSError:
            raise UpstreamError(FILE_LOST_MESSAGE, code="upstream_lost_task") from None


def _read_piece(path: Path, position: int) -> bytes:
    with path.open("rb", buffering=0) as file:
        file.seek(position)
        return file.read(PIECE_BYTES)
