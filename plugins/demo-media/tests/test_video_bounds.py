"""The bounds of videos: what is refused, by the name of what is wrong."""

from __future__ import annotations

from io import BytesIO

import pytest
from PIL import Image

from tornado_gate.types import replace
from tornado_gate_demo_media.video import check_order, make_video
from tornado_gate_demo_media.video_order import VideoOrder
from tornado_gate_local.errors import InvalidArgument

SMALL = VideoOrder(prompt="A quiet lake", width=320, height=180, seconds=2, fps=12)


def whole() -> bytes:
    """A PNG."""
    buffer = BytesIO()
    Image.effect_noise((40, 40), 50).save(buffer, "PNG")
    return buffer.getvalue()


def header(width: int, height: int) -> bytes:
    """A PNG that says it is that large, and has no pixels."""
    return whole()[:16] + width.to_bytes(4, "big") + height.to_bytes(4, "big") + whole()[24:]


@pytest.mark.parametrize(
    ("param", "wrong"),
    [
        ("prompt", {"prompt": ""}),
        ("prompt", {"prompt": " \n"}),
        ("width", {"width": 63}),
        ("width", {"width": 4_097}),
        ("width", {"width": -1_280}),
        ("height", {"height": 0}),
        ("height", {"height": 10**9}),
        ("seconds", {"seconds": 0}),
        ("seconds", {"seconds": 0.99}),
        ("seconds", {"seconds": 60.01}),
        ("seconds", {"seconds": float("nan")}),
        ("seconds", {"seconds": float("inf")}),
        ("seconds", {"width": 4_096, "height": 4_096, "seconds": 60, "fps": 60}),
        ("seconds", {"width": 1_920, "height": 1_080, "seconds": 33, "fps": 60}),
        ("seconds", {"width": 1_919, "height": 1_080, "seconds": 60, "fps": 30}),
        ("fps", {"fps": 0}),
        ("fps", {"fps": 61}),
        ("image", {"image": b""}),
        ("image", {"image": b"no picture"}),
        ("image", {"image": whole()[:-40]}),
        ("image", {"image": header(60_000, 60_000)}),
    ],
)
def test_what_cannot_be_made_is_refused_by_name_and_leaves_no_file(tmp_path, param, wrong):
    with pytest.raises(InvalidArgument) as raised:
        make_video(replace(SMALL, **wrong), str(tmp_path / "video.mp4"))
    assert raised.value.param == param
    assert raised.value.message
    assert list(tmp_path.iterdir()) == []


def test_a_huge_picture_is_refused_from_its_header_before_anything_is_decoded():
    with pytest.raises(InvalidArgument, match="60000x60000") as raised:
        check_order(replace(SMALL, image=header(60_000, 60_000)))
    assert raised.value.param == "image"


@pytest.mark.parametrize(
    "allowed",
    [
        {"width": 1_920, "height": 1_080, "seconds": 60, "fps": 30},
        {"width": 1_280, "height": 720, "seconds": 60, "fps": 60},
        {"width": 64, "height": 64, "seconds": 60, "fps": 60},
        {"width": 4_096, "height": 4_096, "seconds": 1, "fps": 60},
        {"width": 4_095, "height": 4_095, "seconds": 1, "fps": 60},
    ],
)
def test_what_is_within_the_bounds_is_not_refused(allowed):
    check_order(replace(SMALL, **allowed))


def test_the_refusal_of_too_much_work_says_how_long_it_may_be():
    order = replace(SMALL, width=4_096, height=4_096, seconds=10, fps=60)
    with pytest.raises(InvalidArgument, match=r"can last 3\.9 seconds"):
        check_order(order)
    check_order(replace(order, seconds=3.9))
