"""Videos through the hooks: every file is decoded again."""

from __future__ import annotations

import base64
from io import BytesIO

import av
import pytest
from PIL import Image, ImageChops, ImageStat

from tornado_gate.errors import UpstreamRefused
from tornado_gate.types import Data
from tornado_gate_demo_media.operations import videos as operation_module
from tornado_gate_demo_media.operations.video_jobs import get_loop_jobs

pytestmark = pytest.mark.qa


def frames_of(data: bytes) -> list[Image.Image]:
    with av.open(BytesIO(data)) as file:
        return [frame.to_image() for frame in file.decode(video=0)]


def difference(one: Image.Image, other: Image.Image) -> float:
    """The mean over all pixels and channels, of 255."""
    return sum(ImageStat.Stat(ImageChops.difference(one, other)).mean) / 3


def png(colour: str, size: tuple[int, int] = (64, 48)) -> bytes:
    buffer = BytesIO()
    Image.new("RGB", size, colour).save(buffer, "PNG")
    return buffer.getvalue()


class Kept:
    """An Upload."""

    field, filename, media_type = "image", "a.png", "image/png"

    def __init__(self, data: bytes) -> None:
        self.data, self.size = data, len(data)

    async def read(self, size: int = -1) -> bytes:
        return self.data if size < 0 else self.data[:size]

    async def chunks(self):
        yield self.data


@pytest.mark.gen_test(timeout=50)
async def test_without_a_word_on_its_shape_it_is_four_seconds_of_720p(videos):
    done = await videos.made(width=None, height=None)
    assert (done.status, done.progress, done.videos, done.duration) == ("completed", 100, 1, 4.0)
    incoming = await videos.download(done)
    data = await incoming.read()
    assert incoming.headers == {"content-type": "video/mp4", "content-length": str(len(data))}
    with av.open(BytesIO(data)) as file:
        (stream,) = file.streams
        assert (stream.type, stream.codec_context.name) == ("video", "h264")
        assert (stream.width, stream.height, stream.average_rate) == (1_280, 720, 24)
        assert sum(1 for _ in file.decode(video=0)) == 96


@pytest.mark.parametrize(
    ("fields", "size", "frames"),
    [
        ({"width": 64, "height": 128, "seconds": 2, "fps": 5}, (64, 128), 10),
        ({"width": 101, "height": 75, "seconds": 1.5, "fps": 4}, (101, 75), 6),
        ({"width": 4_096, "height": 64, "seconds": 1, "fps": 1}, (4_096, 64), 1),
    ],
)
@pytest.mark.gen_test(timeout=50)
async def test_size_length_and_frames_a_second_are_as_asked(videos, fields, size, frames):
    done = await videos.made(**fields)
    found = frames_of(await videos.file(done))
    assert [image.size for image in found] == [size] * frames
    assert done.duration == fields["seconds"]


@pytest.mark.gen_test(timeout=50)
async def test_several_videos_are_as_many_files_that_all_differ(videos):
    several, other = await videos.made(n=3), await videos.made(n=4, seed=1)
    assert (several.videos, other.videos) == (3, 4)
    files = [await videos.file(several, index) for index in range(3)]
    files += [await videos.file(other, index) for index in range(4)]
    assert len(set(files)) == 7
    assert [len(frames_of(data)) for data in files] == [6] * 7


@pytest.mark.parametrize("index", [-1, 3])
@pytest.mark.gen_test(timeout=50)
async def test_a_video_that_was_not_asked_for_is_not_there(videos, index):
    done = await videos.made(n=3)
    with pytest.raises(UpstreamRefused) as caught:
        await videos.download(done, index)
    assert (caught.value.status, caught.value.code) == (404, "video_not_found")


@pytest.mark.gen_test(timeout=50)
async def test_begun_again_it_is_the_same_file(videos):
    one, other = await videos.made(seed=7), await videos.made(seed=7)
    assert one.operation != other.operation
    assert await videos.file(one) == await videos.file(other) != await videos.file(await videos.made(seed=8))


@pytest.mark.gen_test(timeout=50)
async def test_a_watermark_is_seen_at_the_lower_right(videos):
    fields = {"width": 320, "height": 240, "seconds": 1, "fps": 2}
    plain, marked = [
        frames_of(await videos.file(await videos.made(**fields, watermark=watermark)))[0] for watermark in (None, True)
    ]
    corner, elsewhere = (160, 200, 320, 236), (0, 0, 320, 60)
    assert difference(plain.crop(corner), marked.crop(corner)) > 3 * difference(
        plain.crop(elsewhere), marked.crop(elsewhere)
    )


@pytest.mark.parametrize("kind", ["data", "upload"])
@pytest.mark.gen_test(timeout=50)
async def test_a_picture_that_was_given_is_the_first_frame_and_others_show_the_words(videos, kind):
    picture = png("green")
    source = (
        Data(media_type="image/png", base64=base64.b64encode(picture).decode()) if kind == "data" else Kept(picture)
    )
    first, *_, last = frames_of(await videos.file(await videos.made(image=source)))
    green = Image.new("RGB", first.size, "green")
    assert difference(first, green) < 3
    assert difference(last, green) > 10


@pytest.mark.gen_test(timeout=50)
async def test_a_remix_begins_where_the_earlier_video_ended(videos):
    earlier = await videos.made(prompt="A quiet lake", n=2)
    remix = await videos.made(prompt="A storm", remix_of=earlier.operation)
    before, after = frames_of(await videos.file(earlier)), frames_of(await videos.file(remix))
    assert difference(before[-1], after[0]) < 3 < difference(before[0], after[0])
    assert await videos.file(remix) != await videos.file(earlier)


@pytest.mark.gen_test(timeout=50)
async def test_a_remix_outlives_the_earlier_video(videos):
    earlier = await videos.made(prompt="A quiet lake", seconds=2)
    last = frames_of(await videos.file(earlier))[-1]
    remix = await videos.begin(prompt="A storm", n=3, remix_of=earlier.operation)
    await videos.running(remix)
    await videos.cancel(earlier)
    await videos.ended(remix)
    assert [difference(frames_of(await videos.file(remix, index))[0], last) < 3 for index in range(3)] == [True] * 3


@pytest.mark.gen_test(timeout=50)
async def test_a_remix_of_a_video_that_has_gone_is_a_new_video_of_its_prompt(videos):
    earlier = await videos.made(prompt="A quiet lake")
    await videos.cancel(earlier)
    remix = await videos.made(prompt="A storm", remix_of=earlier.operation)
    assert await videos.file(remix) == await videos.file(await videos.made(prompt="A storm"))


@pytest.mark.gen_test(timeout=50)
async def test_a_remix_of_an_unfinished_video_does_not_wait_for_it(videos):
    earlier = await videos.begin_large()
    remix = await videos.made(prompt="A storm", remix_of=earlier.operation)
    assert await videos.file(remix) == await videos.file(await videos.made(prompt="A storm"))
    await videos.cancel(earlier)


@pytest.mark.gen_test(timeout=50)
async def test_a_file_comes_in_small_pieces_and_whole(videos, monkeypatch):
    monkeypatch.setattr(operation_module, "PIECE_BYTES", 1_000)
    done = await videos.made()
    incoming = await videos.download(done)
    pieces = [piece async for piece in incoming.chunks]
    assert len(pieces) > 3
    assert {len(piece) for piece in pieces[:-1]} == {1_000}
    assert b"".join(pieces) == get_loop_jobs().find(done.operation).get_file(0).read_bytes()
