"""Videos that begin with a picture from a file, read by the worker process and so never held by the gateway's own."""

from __future__ import annotations

from collections import deque
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

from tornado_gate.types.value import replace
from tornado_gate_local.media.errors import MediaError
from tornado_gate_local.media.video import VideoOutput, make_video
from tornado_gate_local.media.video_order import VideoOrder
from tornado_gate_local.media.worker import report_progress

Source = tuple[Literal["picture", "video"], str]
"""The path of a picture's file, or of a video whose last frame is the picture."""


def make_video_from(order: VideoOrder, path: str, source: Source | None) -> VideoOutput:
    """`make_video`, begun by `source` where there is one; says at once that it has begun. Only for worker processes."""
    report_progress(0.0)
    match source:
        case ("picture", file):
            order = replace(order, image=Path(file).read_bytes())
        case ("video", file):
            order = replace(order, image=read_last_frame(file))
    return make_video(order, path)


def read_last_frame(path: str) -> bytes:
    """As a PNG. Raises MediaError when there is none."""
    import av

    with av.open(path) as file:
        stream = file.streams.video[0]
        if stream.duration:
            file.seek(stream.duration, stream=stream)  # to the last key frame before the end
        last: deque[Any] = deque(file.decode(stream), maxlen=1)
    if not last:
        raise MediaError("image", "The earlier video has no frame to begin with.")
    buffer = BytesIO()
    last[0].to_image().save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()
