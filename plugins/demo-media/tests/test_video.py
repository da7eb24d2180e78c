"""Videos that are made: every file is decoded again and looked at."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from io import BytesIO
from itertools import pairwise
from pathlib import Path

import av
import pytest
from PIL import Image, ImageChops, ImageDraw, ImageStat

from tornado_gate.types import replace
from tornado_gate_demo_media import video_file
from tornado_gate_demo_media.video import VideoOutput, make_video
from tornado_gate_demo_media.video_order import VideoOrder

PROMPT = "A quiet lake between mountains at dawn"
SMALL = VideoOrder(prompt=PROMPT, width=320, height=180, seconds=2, fps=12)
QUADRANTS = ((200, 30, 40), (30, 180, 60), (20, 60, 200), (220, 200, 50))


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "video.mp4")


def made(order: VideoOrder, path: str) -> VideoOutput:
    return make_video(order, path, lambda share: None)


def pictures(path: str) -> list[Image.Image]:
    with av.open(path) as file:
        return [frame.to_image() for frame in file.decode(video=0)]


def photo(size: tuple[int, int] = (400, 300), kind: str = "PNG") -> bytes:
    """A picture with something to recognise: four fields of colour."""
    width, height = size
    image = Image.new("RGB", size)
    draw = ImageDraw.Draw(image)
    for number, colour in enumerate(QUADRANTS):
        left, top = number % 2 * width // 2, number // 2 * height // 2
        draw.rectangle((left, top, left + width // 2, top + height // 2), fill=colour)
    buffer = BytesIO()
    image.save(buffer, kind)
    return buffer.getvalue()


def quadrants(image: Image.Image) -> list[list[float]]:
    """The mean colour of each."""
    width, height = image.width // 2, image.height // 2
    corners = [(0, 0), (width, 0), (0, height), (width, height)]
    return [ImageStat.Stat(image.crop((x, y, x + width, y + height))).mean for x, y in corners]


def unlike(one: Image.Image, other: Image.Image) -> float:
    """How far apart pixels are on average, of 255."""
    return sum(ImageStat.Stat(ImageChops.difference(one, other)).mean) / 3


def boxes(data: bytes) -> Iterator[bytes]:
    """The names of the outermost boxes of an MP4 file (ISO/IEC 14496-12 4.2)."""
    at = 0
    while at < len(data):
        length = int.from_bytes(data[at : at + 4], "big")
        yield data[at + 4 : at + 8]
        at += length if length != 1 else int.from_bytes(data[at + 8 : at + 16], "big")


@pytest.mark.parametrize(
    ("width", "height", "seconds", "fps"),
    [
        (1_280, 720, 1, 24),
        (720, 1_280, 1.5, 10),
        (64, 64, 2.3, 60),
        (66, 98, 3, 1),
        (64, 4_096, 1, 2),
        (4_096, 64, 1, 2),
        (322, 242, 1.27, 7),
    ],
)
def test_the_file_has_the_size_the_rate_and_the_length_that_were_asked_for(path, width, height, seconds, fps):
    video = made(VideoOrder(prompt=PROMPT, width=width, height=height, seconds=seconds, fps=fps), path)
    frames = round(seconds * fps)
    assert video == VideoOutput(path=path, width=width, height=height, seconds=frames / fps, fps=fps, frames=frames)
    assert video.media_type == "video/mp4"
    with av.open(path) as file:
        stream = file.streams.video[0]
        assert "mp4" in file.format.name
        assert (stream.codec_context.name, stream.codec_context.pix_fmt) == ("h264", "yuv420p")
        assert stream.average_rate == fps
        assert stream.duration * stream.time_base == Fraction(frames, fps)
        assert file.duration / 1_000_000 == pytest.approx(seconds, abs=1 / fps)
        assert file.streams.audio == ()
        decoded = list(file.decode(stream))
        assert {(frame.width, frame.height) for frame in decoded} == {(width, height)}
        assert [frame.time for frame in decoded] == pytest.approx([number / fps for number in range(frames)], abs=1e-3)


@pytest.mark.parametrize(("width", "height"), [(65, 64), (64, 65), (321, 179)])
def test_an_odd_size_is_kept_to_the_pixel_and_so_are_its_colours(path, width, height):
    order = replace(SMALL, width=width, height=height, image=photo())
    made(order, path)
    first = pictures(path)[0]
    assert first.size == (width, height)
    for colour, wanted in zip(quadrants(first), QUADRANTS, strict=True):
        assert colour == pytest.approx(wanted, abs=12)
    with av.open(path) as file:
        assert file.streams.video[0].codec_context.pix_fmt == "yuv444p"


def test_the_index_lies_in_front_of_the_frames_so_that_playing_can_begin_at_once(path):
    made(SMALL, path)
    names = list(boxes(Path(path).read_bytes()))
    assert names[0] == b"ftyp"
    assert names.index(b"moov") < names.index(b"mdat")


def test_players_are_told_how_the_colours_are_stored_and_find_a_key_frame_every_two_seconds(path):
    made(replace(SMALL, seconds=5, fps=4), path)
    with av.open(path) as file:
        context = file.streams.video[0].codec_context
        assert (context.colorspace, context.color_primaries, context.color_trc, context.color_range) == (6, 6, 6, 1)
        keys = [packet.pts * packet.time_base for packet in file.demux(video=0) if packet.is_keyframe]
    assert keys == [0, 2, 4]


@pytest.mark.parametrize("image", [None, photo()])
def test_every_frame_differs_from_the_one_before_and_the_last_from_the_first(path, image):
    made(replace(SMALL, image=image), path)
    frames = pictures(path)
    assert all(unlike(one, other) > 0.1 for one, other in pairwise(frames))
    assert unlike(frames[0], frames[-1]) > 2


@pytest.mark.parametrize("seconds", range(1, 13))
def test_however_long_the_video_its_last_frame_is_unlike_its_first(path, seconds):
    made(replace(SMALL, width=64, height=64, seconds=seconds, fps=4), path)
    frames = pictures(path)
    assert unlike(frames[0], frames[-1]) > 2


def test_the_words_of_the_prompt_are_drawn_in_the_middle(path):
    made(replace(SMALL, width=640, height=360), path)
    middle = pictures(path)[0].convert("L").crop((100, 80, 540, 280))
    counts = middle.histogram()
    assert sum(counts[225:]) > 1_500  # letters
    assert sum(counts[:140]) > 15_000  # the panel behind them
    assert middle.getextrema()[1] > 245


def test_other_words_of_the_same_length_look_otherwise_where_the_words_are(path):
    images = []
    for prompt in ("red house", "red mouse"):
        made(replace(SMALL, prompt=prompt, image=photo()), path)
        images.append(pictures(path)[-1])
    words = (25, 108, 295, 165)
    one, other = (image.crop(words).convert("L") for image in images)
    assert ImageChops.difference(one, other).getextrema()[1] > 120
    above = (0, 45, 320, 105)  # the ball's colour differs too, so below its path
    assert unlike(images[0].crop(above), images[1].crop(above)) < 1


def test_a_prompt_of_any_length_is_drawn_and_one_that_differs_after_what_is_drawn_looks_otherwise(path):
    frames = []
    for ending in "ab":
        made(replace(SMALL, prompt="many words " * 5_000 + ending, width=64, height=64, seconds=1), path)
        frames.append(pictures(path)[0])
    assert unlike(*frames) > 3


@pytest.mark.parametrize("prompt", ["\0", "\u200b", "湖の朝", "👩\u200d👩\u200d👧", "\ud800", "e\u0301", "\n\na\tb"])
@pytest.mark.parametrize("sound", [False, True])
def test_no_prompt_is_too_strange(path, prompt, sound):
    made(VideoOrder(prompt=prompt, width=64, height=64, seconds=1, fps=2, sound=sound), path)
    assert len(pictures(path)) == 2


@pytest.mark.parametrize("size", [(400, 300), (900, 200), (120, 800), (3, 2)])
@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "BMP"])
def test_the_first_frame_is_the_given_picture_scaled_to_cover_it(path, size, kind):
    made(replace(SMALL, seconds=1, image=photo(size, kind)), path)
    wanted = Image.open(BytesIO(photo(size, kind))).convert("RGB")
    scale = max(320 / size[0], 180 / size[1])
    wide, high = round(size[0] * scale), round(size[1] * scale)
    left, top = (wide - 320) // 2, (high - 180) // 2
    wanted = wanted.resize((wide, high), Image.Resampling.BICUBIC).crop((left, top, left + 320, top + 180))
    first = pictures(path)[0]
    for colour, expected in zip(quadrants(first), quadrants(wanted), strict=True):
        assert colour == pytest.approx(expected, abs=8)


def test_the_given_picture_stays_behind_the_words_to_the_end(path):
    made(replace(SMALL, image=photo()), path)
    last = pictures(path)[-1]
    assert last.getpixel((8, 60)) == pytest.approx(QUADRANTS[0], abs=20)
    assert last.getpixel((310, 60)) == pytest.approx(QUADRANTS[1], abs=20)


def test_a_given_picture_is_turned_upright_and_white_where_it_is_transparent(path):
    image = Image.new("RGB", (64, 128), (200, 30, 40))
    image.paste((20, 60, 200), (0, 64, 64, 128))
    exif = Image.Exif()
    exif[0x0112] = 8  # to be turned by a quarter to the left
    turned, clear = BytesIO(), BytesIO()
    image.save(turned, "JPEG", exif=exif)
    Image.new("RGBA", (64, 64), (0, 0, 0, 0)).save(clear, "PNG")
    made(replace(SMALL, width=128, height=64, seconds=1, image=turned.getvalue()), path)
    first = pictures(path)[0]
    assert first.getpixel((20, 32)) == pytest.approx((200, 30, 40), abs=12)
    assert first.getpixel((108, 32)) == pytest.approx((20, 60, 200), abs=12)
    made(replace(SMALL, width=64, height=64, seconds=1, image=clear.getvalue()), path)
    assert min(pictures(path)[0].getpixel((32, 32))) > 250


@pytest.mark.parametrize("image", [None, photo()])
def test_a_watermark_is_in_every_frame_and_elsewhere_nothing_changes(path, image):
    order = replace(SMALL, width=640, height=360, seconds=1, fps=4, image=image)
    made(order, path)
    plain = pictures(path)
    made(replace(order, watermark=True), path)
    marked = pictures(path)
    where = (480, 330, 640, 355)
    for one, other in zip(plain, marked, strict=True):
        difference = ImageChops.difference(one, other).convert("L")
        assert difference.crop(where).getextrema()[1] > 60
        difference.paste(0, where)
        assert ImageStat.Stat(difference).mean[0] < 0.2


def test_a_colour_that_the_prompt_names_is_the_colour_of_the_video(path):
    made(replace(SMALL, prompt="something blue"), path)
    red, green, blue = pictures(path)[0].getpixel((310, 5))
    assert blue > max(red, green)
    made(replace(SMALL, prompt="something red"), path)
    red, green, blue = pictures(path)[0].getpixel((310, 5))
    assert red > max(green, blue)


def test_sound_is_the_prompt_spoken_and_as_long_as_the_pictures(path):
    made(replace(SMALL, seconds=4, sound=True), path)
    with av.open(path) as file:
        stream = file.streams.audio[0]
        assert stream.codec_context.name == "aac"
        assert stream.duration * stream.time_base == 4
        assert file.duration == 4_000_000
        resampler = av.AudioResampler(format="s16", layout="mono")
        pieces = [piece for frame in file.decode(stream) for piece in resampler.resample(frame)]
        samples = memoryview(b"".join(bytes(piece.planes[0])[: 2 * piece.samples] for piece in pieces)).cast("h")
    second = 24_000
    assert len(samples) == pytest.approx(4 * second, abs=2_048)
    assert max(samples[:second]) > 2_000
    assert max(map(abs, samples[-second // 4 :])) < 200  # nothing more to say
    assert len(pictures(path)) == 48


def test_the_pictures_are_the_same_with_sound_as_without_it(path):
    made(SMALL, path)
    silent = [bytes(frame.tobytes()) for frame in pictures(path)]
    made(replace(SMALL, sound=True), path)
    assert [bytes(frame.tobytes()) for frame in pictures(path)] == silent


def test_the_same_order_gives_the_same_file_and_another_seed_or_prompt_another(tmp_path):
    def content(order: VideoOrder) -> bytes:
        path = tmp_path / "a.mp4"
        made(order, str(path))
        return path.read_bytes()

    first = content(SMALL)
    assert content(replace(SMALL)) == first
    assert content(replace(SMALL, seed=1)) != first
    assert content(replace(SMALL, prompt=PROMPT + "!")) != first


def test_progress_grows_frame_by_frame_up_to_one_when_the_file_is_there(path):
    heard: list[tuple[float, bool]] = []
    make_video(SMALL, path, lambda share: heard.append((share, Path(path).exists())))
    shares = [share for share, _ in heard]
    assert shares == pytest.approx([(number + 1) / 24 for number in range(24)])
    assert [there for _, there in heard] == [False] * 23 + [True]


def test_progress_of_many_frames_is_told_a_hundred_times(path):
    heard: list[float] = []
    make_video(VideoOrder(prompt=PROMPT, width=64, height=64, seconds=20, fps=30), path, heard.append)
    assert len(heard) == 100
    assert 0 < heard[0] < 0.02
    assert all(one < other for one, other in pairwise(heard))
    assert heard[-1] == 1


def test_a_video_of_one_frame_is_a_video(path):
    made(replace(SMALL, seconds=1, fps=1, image=photo()), path)
    with av.open(path) as file:
        assert file.duration == 1_000_000
    assert len(pictures(path)) == 1


def test_what_was_at_the_path_stays_until_the_new_file_is_whole(path):
    Path(path).write_bytes(b"before")
    seen: list[bytes] = []
    make_video(SMALL, path, lambda share: seen.append(Path(path).read_bytes()[:6]))
    assert set(seen[:-1]) == {b"before"}
    assert seen[-1] != b"before"


def test_a_failure_midway_leaves_nothing(path, tmp_path):
    def fail(share: float) -> None:
        assert Path(path + ".part").exists()
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        make_video(SMALL, path, fail)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("width", "height"), [(320, 180), (101, 67)])
def test_without_h264_it_is_mpeg4_of_the_same_size_and_length(path, monkeypatch, width, height):
    monkeypatch.setattr(av, "codecs_available", {"mpeg4"})
    assert video_file.choose_codec() == "mpeg4"
    made(replace(SMALL, width=width, height=height, image=photo()), path)
    monkeypatch.undo()
    assert video_file.choose_codec() == "libx264"
    with av.open(path) as file:
        assert file.streams.video[0].codec_context.name == "mpeg4"
        assert file.duration == 2_000_000
    frames = pictures(path)
    assert len(frames) == 24
    assert frames[0].size == (width, height)
    for colour, wanted in zip(quadrants(frames[0]), QUADRANTS, strict=True):
        assert colour == pytest.approx(wanted, abs=15)
