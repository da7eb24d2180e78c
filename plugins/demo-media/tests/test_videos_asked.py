"""What a video may be like, what is lost, and that looking at a request begins nothing."""

from __future__ import annotations

import base64
import struct
import zlib

import pytest

import tornado_gate_local as local
from tornado_gate.errors import InvalidField
from tornado_gate.types import Data, VideoRequest
from tornado_gate_demo_media.operations import videos as operation_module


def make_request(**fields) -> VideoRequest:
    return VideoRequest(**{"model": "local-video", "prompt": "A red fox", **fields})


def header_of_png(width: int, height: int) -> Data:
    """The beginning of one, without the picture."""
    content = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + content + struct.pack(">I", zlib.crc32(content))
    return Data(media_type="image/png", base64=base64.b64encode(data).decode())


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": " "}, "prompt"),
        ({"seconds": 0}, "seconds"),
        ({"seconds": 0.9}, "seconds"),
        ({"seconds": 61}, "seconds"),
        ({"seconds": float("nan")}, "seconds"),
        ({"width": 63, "height": 64}, "width"),
        ({"width": 64, "height": 4_097}, "height"),
        ({"width": 0, "height": 64}, "width"),
        ({"width": 64, "height": -1}, "height"),
        ({"fps": 0}, "fps"),
        ({"fps": 61}, "fps"),
        ({"n": 0}, "n"),
        ({"n": 5}, "n"),
        ({"width": 4_096, "height": 4_096, "seconds": 60, "fps": 60}, "seconds"),
        ({"image": Data(media_type="image/png", base64="aGVsbG8=")}, "image"),
        ({"image": header_of_png(8_000, 8_000)}, "image"),
    ],
)
@pytest.mark.gen_test
async def test_what_no_video_can_be_like_is_refused_in_the_callers_words(refusal, fields, param):
    assert (await refusal(make_request(**fields))).param == param
    spelled = {param: f"parameters.{param}"}
    assert (await refusal(make_request(**fields, names=spelled))).param == f"parameters.{param}"


@pytest.mark.parametrize(
    "fields",
    [
        {"seconds": 1, "fps": 1},
        {"seconds": 60, "width": 1_920, "height": 1_080, "fps": 30},
        {"width": 64, "height": 64, "seconds": 60, "fps": 60},
        {"width": 4_096, "height": 4_096},
        {"n": 4, "seed": -3},
        {"seed": 2**53},
    ],
)
@pytest.mark.gen_test
async def test_the_widest_bounds_are_allowed(call, fields):
    await local.translate_request(call, make_request(**fields))
    assert call.losses == []


@pytest.mark.parametrize(
    ("fields", "lost"),
    [
        ({"metadata": {"negative_prompt": "snow", "style": "noir", "quality_level": 3}},
         ["metadata.negative_prompt", "metadata.style", "metadata.quality_level"]),
        ({"metadata": {"style": None}}, []),
        ({"metadata": {"style": "noir"}, "names": {"metadata": "options"}}, ["options.style"]),
        ({"extra": {"camera": "still", "nothing": None, "store": True}}, ["camera"]),
        ({"user": "ann", "watermark": True, "seed": 1, "n": 2, "fps": 12, "webhook": "https://example.com/"}, []),
    ],
)  # fmt: skip
@pytest.mark.gen_test
async def test_what_has_no_effect_is_reported(call, fields, lost):
    await local.translate_request(call, make_request(**fields))
    assert call.losses == lost


@pytest.mark.gen_test
async def test_who_is_strict_gets_an_error_for_it(make_call):
    with pytest.raises(InvalidField) as caught:
        await local.translate_request(make_call(strict=True), make_request(metadata={"style": "noir"}))
    assert caught.value.param == "metadata.style"


@pytest.mark.gen_test
async def test_looking_at_a_request_begins_nothing(call, temporary, monkeypatch):
    def jobs_here():
        raise AssertionError("jobs were touched")

    monkeypatch.setattr(operation_module, "get_loop_jobs", jobs_here)
    await local.translate_request(call, make_request())
    assert list(temporary.iterdir()) == []
