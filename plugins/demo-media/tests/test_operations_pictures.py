"""New pictures through the hooks: every file is opened again. Also what is refused, lost, counted and held in memory."""

from __future__ import annotations

import asyncio
import os
import time
from io import BytesIO

import pytest
from PIL import Image

import tornado_gate_local as local
from tornado_gate.errors import InvalidField
from tornado_gate.types import GeneratedImage, ImageRequest, ImageResult
from tornado_gate_demo_media.images import make_image
from tornado_gate_demo_media.operations import pictures
from tornado_gate_local.operations.work import make_all
from tornado_gate_local.words import count_tokens
from tornado_gate_local.workers import POOL

PROMPT = "A red fox in the snow"


def make_request(**fields) -> ImageRequest:
    return ImageRequest(**{"model": "local-image-1", "prompt": PROMPT, **fields})


def opened(made: GeneratedImage) -> Image.Image:
    image = Image.open(BytesIO(made.data))
    image.load()
    return image


@pytest.fixture
def result(work):
    async def run(request: ImageRequest) -> ImageResult:
        (found,) = await work(request)
        assert isinstance(found, ImageResult)
        return found

    return run


@pytest.mark.gen_test(timeout=50)
async def test_without_a_word_on_size_a_png_of_1024_square_comes(result):
    found = await result(make_request())
    (made,) = found.images
    image = opened(made)
    assert (image.format, image.size, image.mode) == ("PNG", (1_024, 1_024), "RGB")
    assert made.media_type == "image/png"
    assert (found.size, found.output_format, found.background, found.quality) == ("1024x1024", "png", "opaque", None)
    assert found.model == "upstream-name"
    assert made.revised_prompt is None
    assert found.created is not None
    assert abs(found.created - time.time()) < 60


@pytest.mark.parametrize(
    ("fields", "size"),
    [
        ({"size": "256x320"}, (256, 320)),
        ({"size": "1536*1024"}, (1_536, 1_024)),
        ({"size": "auto"}, (1_024, 1_024)),
        ({"aspect_ratio": "16:9", "resolution": "512"}, (672, 384)),
        ({"resolution": "0.5k"}, (512, 512)),
        ({"size": "auto", "aspect_ratio": "1:1"}, (1_024, 1_024)),
        ({"size": "64x64", "aspect_ratio": "16:9"}, (64, 64)),
    ],
)
@pytest.mark.gen_test(timeout=50)
async def test_the_size_is_as_asked_in_pixels_or_as_a_ratio(result, fields, size):
    found = await result(make_request(**fields))
    assert opened(found.images[0]).size == size
    assert found.size == f"{size[0]}x{size[1]}"


@pytest.mark.parametrize(("kind", "mode"), [("png", "RGBA"), ("webp", "RGBA")])
@pytest.mark.gen_test(timeout=50)
async def test_a_transparent_background_is_one(result, kind, mode):
    found = await result(make_request(size="128x128", output_format=kind, background="transparent"))
    image = opened(found.images[0])
    assert (image.format, image.mode) == (kind.upper(), mode)
    assert image.getpixel((0, 0))[3] == 0
    assert image.getchannel("A").getextrema() == (0, 255)
    assert (found.background, found.output_format) == ("transparent", kind)


@pytest.mark.gen_test(timeout=50)
async def test_compression_makes_a_jpeg_smaller(result):
    sizes = []
    for compression in (95, 10):
        found = await result(make_request(size="256x256", output_format="jpeg", output_compression=compression))
        assert opened(found.images[0]).format == "JPEG"
        assert found.images[0].media_type == "image/jpeg"
        sizes.append(len(found.images[0].data))
    assert sizes[0] > sizes[1]


@pytest.mark.gen_test(timeout=50)
async def test_a_watermark_is_at_the_lower_right_only(result):
    plain, marked = [
        opened((await result(make_request(size="400x400", watermark=watermark))).images[0])
        for watermark in (False, True)
    ]
    assert plain.crop((0, 0, 400, 350)).tobytes() == marked.crop((0, 0, 400, 350)).tobytes()
    assert plain.tobytes() != marked.tobytes()


@pytest.mark.gen_test(timeout=50)
async def test_ten_pictures_differ_from_each_other_and_from_those_of_another_seed(result):
    first = await result(make_request(n=10, size="64x64"))
    other = await result(make_request(n=10, size="64x64", seed=1))
    assert len({made.data for made in (*first.images, *other.images)}) == 20
    assert (await result(make_request(n=3, size="64x64", seed=1))).images == other.images[:3]


@pytest.mark.gen_test(timeout=50)
async def test_tokens_are_those_of_the_prompt_and_one_for_1024_pixels(result):
    found = await result(make_request(n=2, size="100x50"))
    assert found.usage.input_tokens == count_tokens([PROMPT])
    assert found.usage.image_tokens == 0
    assert found.usage.output_tokens == 2 * 5  # 5,000 pixels are 4.9 times 1,024


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"size": "large"}, "size"),
        ({"size": "8x8"}, "size"),
        ({"size": "5000x64"}, "size"),
        ({"aspect_ratio": "9:1"}, "aspect_ratio"),
        ({"aspect_ratio": "wide"}, "aspect_ratio"),
        ({"resolution": "8K"}, "resolution"),
        ({"n": 0}, "n"),
        ({"n": 11}, "n"),
        ({"output_format": "gif"}, "output_format"),
        ({"background": "green"}, "background"),
        ({"background": "transparent", "output_format": "jpeg"}, "background"),
        ({"output_compression": 101, "output_format": "webp"}, "output_compression"),
        ({"output_compression": -1}, "output_compression"),
    ],
)
@pytest.mark.gen_test
async def test_what_no_picture_can_be_like_is_refused_before_anything_is_made(refusal, fields, param):
    assert (await refusal(make_request(**fields))).param == param
    spelled = {param: f"parameters.{param}"}
    assert (await refusal(make_request(**fields, names=spelled))).param == f"parameters.{param}"


@pytest.mark.parametrize(
    ("fields", "lost"),
    [
        ({"negative_prompt": "snow"}, ["negative_prompt"]),
        ({"negative_prompt": ""}, []),
        ({"quality": "hd"}, ["quality"]),
        ({"quality": "auto"}, []),
        ({"style": "vivid"}, ["style"]),
        ({"moderation": "low"}, ["moderation"]),
        ({"moderation": "auto"}, []),
        ({"prompt_extend": True}, ["prompt_extend"]),
        ({"prompt_extend": False}, []),
        ({"input_fidelity": "high"}, ["input_fidelity"]),
        ({"stream": True, "partial_images": 2}, ["partial_images"]),
        ({"stream": True, "partial_images": 0}, []),
        ({"output_compression": 50}, ["output_compression"]),
        ({"output_compression": 100}, []),
        ({"output_compression": 50, "output_format": "webp"}, []),
        ({"size": "64x64", "aspect_ratio": "1:1", "resolution": "1K"}, ["aspect_ratio", "resolution"]),
        ({"seed": 3, "user": "ann", "watermark": True, "n": 2}, []),
        ({"extra": {"personGeneration": "ALLOW", "null": None}}, ["personGeneration"]),
    ],
)
@pytest.mark.gen_test
async def test_what_has_no_effect_is_reported(call, fields, lost):
    await local.translate_request(call, make_request(**fields))
    assert call.losses == lost


@pytest.mark.gen_test
async def test_losses_are_in_the_callers_words(make_call):
    request = make_request(negative_prompt="snow", names={"negative_prompt": "parameters.negative_prompt"})
    with pytest.raises(InvalidField) as caught:
        await local.translate_request(make_call(strict=True), request)
    assert caught.value.param == "parameters.negative_prompt"


@pytest.mark.gen_test(timeout=50)
async def test_a_stream_ends_with_its_only_event_the_whole_result(result):
    assert len((await result(make_request(stream=True, size="64x64", n=2))).images) == 2


@pytest.mark.qa
@pytest.mark.gen_test(timeout=50)
async def test_eight_large_pictures_are_made_in_other_processes_while_the_loop_goes_on(work):
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    (found,) = await work(make_request(n=8, size="2048x2048"))
    counting.cancel()
    assert turns > 100
    assert [opened(made).size for made in found.images] == [(2_048, 2_048)] * 8
    assert await POOL.run(os.getpid) != os.getpid()
    assert 0 < POOL.processes <= POOL.size


@pytest.mark.gen_test
async def test_no_more_is_made_at_a_time_than_there_are_workers_and_the_first_failure_ends_the_rest(
    monkeypatch,
):
    running, most, begun = 0, 0, []

    class Pool:
        size = 3

        async def run(self, maker, order):
            nonlocal running, most
            begun.append(order)
            running += 1
            most = max(most, running)
            await asyncio.sleep(0)
            running -= 1
            return maker(order)

    def maker(order: int) -> float:
        if order == 5:
            raise InvalidField("n", "too many")
        return order * 2

    monkeypatch.setattr("tornado_gate_local.operations.work.POOL", Pool())
    seen: list[float] = []
    assert await make_all(maker, range(5), seen.append) == [0, 2, 4, 6, 8] == seen
    assert most == 3
    begun.clear()
    with pytest.raises(InvalidField):
        await make_all(maker, range(100), seen.append)
    assert len(begun) <= 10


@pytest.mark.gen_test(timeout=50)
async def test_pictures_that_are_too_large_together_are_refused(monkeypatch, work):
    monkeypatch.setattr(pictures, "MAX_OUTPUT_BYTES", 1_000)
    with pytest.raises(InvalidField) as caught:
        await work(make_request(n=2, names={"n": "parameters.n"}))
    assert caught.value.param == "parameters.n"


@pytest.mark.gen_test(timeout=50)
async def test_a_caller_who_leaves_ends_the_making(call, monkeypatch):
    began, ended = asyncio.Event(), asyncio.Event()

    class Pool:
        size = 1

        async def run(self, maker, order):
            assert maker is make_image
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

    monkeypatch.setattr("tornado_gate_local.operations.work.POOL", Pool())
    request = make_request(n=3)
    incoming = await local.call_upstream(call, await local.translate_request(call, request))
    reading = asyncio.create_task(anext(local.translate_response(call, request, incoming)))
    await began.wait()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert ended.is_set()
