"""Pictures and sounds: made by libraries of others, and read back by them; and forms as an upstream gets them."""

from __future__ import annotations

import base64
import io
import math
import struct
import wave
from dataclasses import dataclass, field, replace
from email.parser import BytesParser
from email.policy import HTTP

import av
from PIL import Image

from tests.support.upstream import RecordedRequest

RATE = 24_000
"""Samples a second of sound that has no header."""

Colour = tuple[int, ...]
RED, CLEAR, OPAQUE = (200, 30, 30), (0, 0, 0, 0), (0, 0, 0, 255)


def picture_file(size: tuple[int, int] = (64, 64), colour: Colour = RED, kind: str = "PNG") -> bytes:
    """A picture of one colour; with four numbers it has transparency."""
    return written(Image.new("RGBA" if len(colour) == 4 else "RGB", size, colour), kind)


def written(picture: Image.Image, kind: str = "PNG") -> bytes:
    file = io.BytesIO()
    picture.save(file, kind)
    return file.getvalue()


def mask_file(size: tuple[int, int]) -> bytes:
    """A mask whose left half may change."""
    mask = Image.new("RGBA", size, OPAQUE)
    mask.paste(CLEAR, (0, 0, size[0] // 2, size[1]))
    return written(mask)


def decoded(data: bytes | str | None) -> Image.Image:
    """A picture, every pixel of it read; from base64 when it is a string."""
    assert data, "there is no picture"
    picture = Image.open(io.BytesIO(base64.b64decode(data) if isinstance(data, str) else data))
    picture.load()
    return picture


def least_alpha(picture: Image.Image) -> int:
    """0 where some of it can be seen through, 255 where nothing can."""
    lowest = picture.convert("RGBA").getchannel("A").getextrema()[0]
    assert isinstance(lowest, int)
    return lowest


def data_url(data: bytes, media_type: str = "image/png") -> str:
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


@dataclass(frozen=True, slots=True)
class Sound:
    """`seconds` are counted from the samples; `loudest` is of 1."""

    format: str
    rate: int
    channels: int
    seconds: float
    loudest: float


def heard(data: bytes) -> Sound:
    """A file of sound, every sample of it decoded."""
    with av.open(io.BytesIO(data), "r") as container:
        stream = container.streams.audio[0]
        resampler = av.AudioResampler(format="s16", layout="mono", rate=RATE)
        decoded_frames = [*container.decode(stream), None]
        frames = [piece for frame in decoded_frames for piece in resampler.resample(frame)]
        samples = b"".join(bytes(frame.planes[0])[: 2 * frame.samples] for frame in frames)
        plain = heard_raw(samples)
        return replace(plain, format=container.format.name, rate=stream.rate, channels=stream.channels)


def heard_raw(data: bytes) -> Sound:
    """Sound without a header: 24,000 samples a second, one channel, 16 bits, little-endian."""
    samples = struct.unpack(f"<{len(data) // 2}h", data)
    return Sound("pcm", RATE, 1, len(samples) / RATE, max(map(abs, samples)) / 2**15)


def sound_file(seconds: float = 0.5) -> bytes:
    """A WAV file with one tone."""
    tone = (round(9000 * math.sin(index / 10)) for index in range(round(seconds * RATE)))
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(RATE)
        writer.writeframes(b"".join(struct.pack("<h", sample) for sample in tone))
    return file.getvalue()


@dataclass(frozen=True, slots=True)
class FormFile:
    name: str
    filename: str
    media_type: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Form:
    """What arrived: `fields` are pairs of name and text in their order."""

    fields: list[tuple[str, str]]
    files: list[FormFile]

    @property
    def texts(self) -> dict[str, str]:
        assert len(dict(self.fields)) == len(self.fields), "a field came twice"
        return dict(self.fields)


def form_in(request: RecordedRequest) -> Form:
    """A form as an independent parser reads it."""
    head = f"Content-Type: {request.headers['content-type']}\r\n\r\n".encode()
    message = BytesParser(policy=HTTP).parsebytes(head + request.body)
    assert message.is_multipart(), f"not a form: {request.headers['content-type']}"
    assert not message.defects
    form = Form([], [])
    for part in message.iter_parts():
        name = part.get_param("name", header="content-disposition")
        data = part.get_payload(decode=True)
        assert isinstance(name, str)
        assert isinstance(data, bytes)
        filename = part.get_filename()
        if filename is None:
            form.fields.append((name, data.decode()))
        else:
            form.files.append(FormFile(name, filename, part.get_content_type(), data))
    return form
