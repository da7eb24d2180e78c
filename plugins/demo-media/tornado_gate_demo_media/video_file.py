"""Encode frames to an MP4 file with PyAV. Only for worker processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Final, Protocol, cast

import av
from av.audio.stream import AudioStream
from av.container import OutputContainer
from av.video.reformatter import ColorPrimaries, ColorRange, ColorTrc
from av.video.stream import VideoStream

from tornado_gate_demo_media import encode, speech
from tornado_gate_demo_media.video_order import VideoOrder
from tornado_gate_demo_media.voices import SAMPLE_RATE

KEY_FRAME_SECONDS: Final = 2  # the largest distance of key frames, for seeking
STEPS: Final = 100  # the largest number of progress reports
LETTERS_A_SECOND: Final = 30  # no voice is faster, so the rest of the prompt would be cut anyway

# One thread: there is a worker for each processor, and the file does not depend on the machine. No latency: each frame
# is encoded before its progress is reported. The rate factor is the codec's default; text stays sharp.
_H264_OPTIONS = {"preset": "ultrafast", "tune": "zerolatency", "crf": "23", "threads": "1"}
_MPEG4_OPTIONS = {"threads": "1"}
_MPEG4_BITS_A_PIXEL = 0.15
_MATRIX_OF_BT601 = 6  # ISO/IEC 23091-2 8.3; PyAV has only FFmpeg's numbers for conversion by a name, which differ


class FrameSource(Protocol):
    """A source of frames."""

    pixel_format: str

    def make_frame(self, number: int) -> av.VideoFrame:
        """Frame `number`, counted from 0."""


def choose_codec() -> str:
    """H.264 where FFmpeg was built with it, else MPEG-4 part 2."""
    return "libx264" if "libx264" in av.codecs_available else "mpeg4"


def write_video(order: VideoOrder, frames: FrameSource, path: str, progress: Callable[[float], None]) -> None:
    """Write the whole file; `progress` gets shares below 1. The index is at the front, so that playback can start early."""
    with av.open(path, "w", format="mp4", options={"movflags": "+faststart"}) as container:
        video = _add_video_stream(container, order, frames.pixel_format)
        sound = _write_sound(container, order) if order.sound else iter(())
        told = 0
        for number in range(order.frames):
            if number % order.fps == 0:
                next(sound, None)  # one second of sound, so that sound and frames alternate in the file
            frame = frames.make_frame(number)
            frame.pts, frame.time_base, frame.duration = number, Fraction(1, order.fps), 1
            container.mux(video.encode(frame))
            done = number + 1
            if done < order.frames and done * STEPS // order.frames > told:
                told = done * STEPS // order.frames
                progress(done / order.frames)
        container.mux(video.encode(None))
        for _ in sound:
            pass


def _add_video_stream(container: OutputContainer, order: VideoOrder, pixel_format: str) -> VideoStream:
    name = choose_codec()
    options = _H264_OPTIONS if name == "libx264" else _MPEG4_OPTIONS
    stream = cast(VideoStream, container.add_stream(name, rate=order.fps, options=options))
    stream.width, stream.height = order.width, order.height
    stream.pix_fmt = pixel_format if name == "libx264" else "yuv420p"  # MPEG-4 part 2 supports it for odd sizes too
    stream.gop_size = KEY_FRAME_SECONDS * order.fps
    stream.codec_context.time_base = Fraction(1, order.fps)
    stream.colorspace = _MATRIX_OF_BT601
    stream.color_range = ColorRange.MPEG
    stream.color_primaries = ColorPrimaries.SMPTE170M
    stream.color_trc = ColorTrc.SMPTE170M
    if name != "libx264":
        stream.bit_rate = round(order.width * order.height * order.fps * _MPEG4_BITS_A_PIXEL)
    return stream


def _write_sound(container: OutputContainer, order: VideoOrder) -> Iterator[None]:
    """The spoken prompt, then silence, exactly as long as the frames. Each step writes one second."""
    stream = container.add_stream("aac", rate=SAMPLE_RATE, layout="mono")
    stream.bit_rate = encode.BITS_PER_SECOND
    return _write_sound_seconds(container, stream, order)


def _write_sound_seconds(container: OutputContainer, stream: AudioStream, order: VideoOrder) -> Iterator[None]:
    seconds = order.frames / order.fps
    pcm = speech.speak(order.prompt.strip()[: round(LETTERS_A_SECOND * seconds)])
    length = 2 * round(seconds * SAMPLE_RATE)
    pcm = pcm[:length].ljust(length, b"\0")
    for start in range(0, length, 2 * SAMPLE_RATE):
        frame = encode.make_frame(pcm[start : start + 2 * SAMPLE_RATE], SAMPLE_RATE)
        frame.pts, frame.time_base = start // 2, Fraction(1, SAMPLE_RATE)
        container.mux(stream.encode(frame))
        yield
    container.mux(stream.encode(None))
