"""Videos: a generated or an input image with the text of the prompt, and moving shapes over it.

No model is involved, as for images: the content follows from the hash of the prompt, the colours that it names and
the seed, and the same order gives the same file. The file is an MP4 of H.264 that all players support: 4:2:0, its
index in front of the frames. H.264 cannot store 4:2:0 with an odd width or height; such a video is 4:4:4, of exactly
the requested size, which some players do not support. Only the body of `make_video` imports Pillow and PyAV, so they
are loaded in the process where it runs: `POOL.run_reporting(progress, make_video, order, path)`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from tornado_gate.codec.media_types import parse_image_size
from tornado_gate.types.value import Value
from tornado_gate_demo_media.video_order import VideoOrder
from tornado_gate_local.errors import InvalidArgument
from tornado_gate_local.worker import report_progress

MIN_SIDE_PIXELS: Final = 64
MAX_SIDE_PIXELS: Final = 4_096
MIN_SECONDS: Final = 1.0
MAX_SECONDS: Final = 60.0
MIN_FPS: Final = 1
MAX_FPS: Final = 60
MAX_TOTAL_PIXELS: Final = 4_000_000_000  # of all frames: a minute of 1920x1080 at 30 fps has 3,732,480,000
MAX_IMAGE_PIXELS: Final = 50_000_000  # equals `files.MAX_PIXELS`, which cannot be imported without Pillow
MEDIA_TYPE: Final = "video/mp4"
UNFINISHED_SUFFIX: Final = ".part"  # the suffix of the path until the file is complete


class VideoOutput(Value, frozen=True, kw_only=True):
    """A finished file. `seconds` is its duration: the number of frames divided by `fps`."""

    path: str
    width: int
    height: int
    seconds: float
    fps: int
    frames: int
    media_type: str = MEDIA_TYPE


def make_video(order: VideoOrder, path: str, progress: Callable[[float], None] = report_progress) -> VideoOutput:
    """Write the video to `path`; the file appears, or is replaced, when it is complete.

    Until then it is `path` + ".part": that file remains when the process is killed, and is removed when this function
    fails. `progress` gets the share of encoded frames, increasing, and 1 when the file is in place. Memory does not
    grow with the number of frames. Raises InvalidArgument for "prompt", "width", "height", "seconds", "fps" and "image".
    """
    check_order(order)
    from tornado_gate_demo_media import video_file, video_scene

    scene = video_scene.VideoScene(order)
    unfinished = path + UNFINISHED_SUFFIX
    try:
        video_file.write_video(order, scene, unfinished, progress)
        os.replace(unfinished, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(unfinished)
        raise
    progress(1.0)
    return VideoOutput(
        path=path,
        width=order.width,
        height=order.height,
        seconds=order.frames / order.fps,
        fps=order.fps,
        frames=order.frames,
    )


def check_order(order: VideoOrder) -> None:
    """Check an order without decoding its image. Fast; needs no library.

    Raises InvalidArgument as `make_video`.
    """
    if not order.prompt.strip():
        raise InvalidArgument("prompt", "The prompt of a video must not be empty.")
    for param, pixels in (("width", order.width), ("height", order.height)):
        if not MIN_SIDE_PIXELS <= pixels <= MAX_SIDE_PIXELS:
            raise InvalidArgument(
                param, f"The {param} must be {MIN_SIDE_PIXELS} to {MAX_SIDE_PIXELS} pixels, not {pixels}."
            )
    if not MIN_SECONDS <= order.seconds <= MAX_SECONDS:
        raise InvalidArgument(
            "seconds", f"The duration must be {MIN_SECONDS:g} to {MAX_SECONDS:g} seconds, not {order.seconds:g}."
        )
    if not MIN_FPS <= order.fps <= MAX_FPS:
        raise InvalidArgument("fps", f"The frame rate must be {MIN_FPS} to {MAX_FPS} frames a second, not {order.fps}.")
    most = MAX_TOTAL_PIXELS // (order.width * order.height * (2 if order.has_odd_side else 1))
    if order.frames > most:
        raise InvalidArgument(
            "seconds",
            f"At {order.width}x{order.height} and {order.fps} frames a second a video can last "
            f"{most * 10 // order.fps / 10:g} seconds at most. Request a shorter or a smaller one.",
        )
    if order.image is not None:
        _check_image(order.image)


def _check_image(data: bytes) -> None:
    size = parse_image_size(data)
    if size is not None and size[0] * size[1] > MAX_IMAGE_PIXELS:
        raise InvalidArgument(
            "image", f"The image has {size[0]}x{size[1]} pixels; the limit is {MAX_IMAGE_PIXELS:,} pixels in total."
        )
