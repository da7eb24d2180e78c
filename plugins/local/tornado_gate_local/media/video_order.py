"""What a video is made from. Pure."""

from __future__ import annotations

from tornado_gate.types.value import Value


class VideoOrder(Value, frozen=True, kw_only=True):
    """`width` and `height` in pixels; `fps` frames a second; orders that differ in `seed` look different.

    `image` is a picture's file: it is the first frame, scaled and cropped to cover it, and what all others show behind
    the words. `sound` adds a track with the prompt spoken, cut where the video ends. `watermark` says in every frame
    where the video comes from.
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
        """Whether a side is, which takes whole planes of colour and so about twice the work for each pixel."""
        return bool(self.width % 2 or self.height % 2)
