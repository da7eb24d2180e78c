"""The parameters of a video. Pure."""

from __future__ import annotations

from tornado_gate.types.value import Value


class VideoOrder(Value, frozen=True, kw_only=True):
    """`width` and `height` in pixels; `fps` is frames a second; orders with another `seed` look different.

    `image` is the bytes of an image file: the first frame, scaled and cropped to the size, and the background of all
    other frames. `sound` adds a track with the spoken prompt, cut at the end of the video. `watermark` adds a mark
    with the origin of the video to every frame.
    """

    prompt: str
    width: int = 1_280
    height: int = 720
    seconds: float = 4.0
    fps: int = 24
    seed: int = 0
    image: bytes | None = None
    sound: bool = False
    watermark: bool = False

    @property
    def frames(self) -> int:
        return round(self.seconds * self.fps)

    @property
    def has_odd_side(self) -> bool:
        """Whether width or height is odd: then chroma is not subsampled, which is about twice the work for each pixel."""
        return bool(self.width % 2 or self.height % 2)
