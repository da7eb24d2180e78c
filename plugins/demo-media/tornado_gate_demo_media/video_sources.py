"""Videos that start from an image in a file. The worker process reads it, so the gateway process never holds it."""

from __future__ import annotations

from collections import deque
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

from tornado_gate.types.value import replace
from tornado_gate_demo_media.video import VideoOutput, make_video
from tornado_gate_demo_media.video_order import VideoOrder
from tornado_gate_local.errors import InvalidArgument
from tornado_gate_local.worker import report_progress

Source = tuple[Literal["picture", "video"], str]
"""The path of an image file, or of a video whose last frame is the image."""


def make_video_from(order: VideoOrder, path: str, source: Source | None) -> VideoOutput:
    """`make_video` with the image of `source`, if any; reports progress 0 at once. Only for worker processes."""
    report_progress(0.0)
    match source:
        case ("picture", file):
            order = replace(order, image=Path(file).read_bytes())
        case ("video", file):
            order = replace(order, image=read_last_frame(file))
    return make_video(order, path)


def read_last_frame(path: str) -> bytes:
    """The last frame of a video as PNG. Raises InvalidArgument when the video has no frame."""
    import av

    with av.open(path) as file:
        stream = file.streams.video[0]
        if stream.duration:
            file.seek(stream.duration, stream=stream)  # the last key frame before the end
        last: deque[Any] = deque(file.decode(stream), maxlen=1)
    if not last:
        raise InvalidArgument(
            "image", "The earlier video has no frames, so a remix cannot start from it. Send the request without it."
        )
    buffer = BytesIO()
    last[0].to_image().save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()
