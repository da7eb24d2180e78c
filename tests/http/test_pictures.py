"""Pictures that a caller gave: looked at before anything decodes them; whatever is wrong is a 400 for the caller's field."""

from __future__ import annotations

import asyncio
import base64
import io
import struct
import zlib
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tornado_gate.errors import InvalidField
from tornado_gate.http.fetch import FetchedFile, pictures
from tornado_gate.http.fetch.pictures import (
    HEADER_BYTES,
    MAX_BYTES,
    ImageFile,
    check,
    decode,
    inspect,
    parse_image_source,
    read_image,
)
from tornado_gate.types import Call, Caller, Data, FileSource, Link

WIDTH, HEIGHT = 37, 21


def drawn(kind: str, mode: str = "RGB", **options: Any) -> bytes:
    """A picture with some noise in it, written by Pillow."""
    noise = Image.effect_noise((WIDTH, HEIGHT), 80).convert(mode)
    file = io.BytesIO()
    noise.save(file, kind, **options)
    return file.getvalue()


def exif() -> Image.Exif:
    made = Image.Exif()
    made[0x010E] = "x" * 60_000
    return made


PICTURES = {
    "png": (drawn("PNG"), "image/png"),
    "png with alpha": (drawn("PNG", "RGBA"), "image/png"),
    "grey png": (drawn("PNG", "L"), "image/png"),
    "jpeg": (drawn("JPEG"), "image/jpeg"),
    "progressive jpeg": (drawn("JPEG", progressive=True), "image/jpeg"),
    "cmyk jpeg": (drawn("JPEG", "CMYK"), "image/jpeg"),
    "jpeg with exif and a profile": (drawn("JPEG", exif=exif(), icc_profile=b"p" * 150_000), "image/jpeg"),
    "lossy webp": (drawn("WEBP"), "image/webp"),
    "lossless webp": (drawn("WEBP", lossless=True), "image/webp"),
    "webp with alpha": (drawn("WEBP", "RGBA"), "image/webp"),
    "gif": (drawn("GIF", "P"), "image/gif"),
}
PNG, JPEG = PICTURES["png"][0], PICTURES["jpeg"][0]
PROFILED = drawn("JPEG", icc_profile=b"p" * 2_000_000)
"""Its frame header begins behind HEADER_BYTES."""


def announcing(width: int, height: int) -> bytes:
    """The beginning of a PNG of any size."""
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return PNG[:8] + b"\0\0\0\x0d" + header + struct.pack(">I", zlib.crc32(header)) + PNG[33:]


@dataclass(frozen=True)
class File:
    """An upload that lies in memory; `said` is a size that it only claims."""

    data: bytes
    media_type: str = ""
    said: int | None = None
    field: str = "image"
    filename: str = "a"

    @property
    def size(self) -> int:
        return len(self.data) if self.said is None else self.said

    async def read(self, size: int = -1) -> bytes:
        return self.data if size < 0 else self.data[:size]

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self.data


@dataclass
class FakeFetcher:
    data: bytes
    media_type: str
    asked: tuple[str, Collection[str], str] | None = None

    async def fetch(self, url: str, *, kinds: Collection[str], param: str) -> FetchedFile:
        self.asked = (url, kinds, param)
        return FetchedFile(media_type=self.media_type, data=self.data, url=url)


def call(fetcher: FakeFetcher | None = None) -> Call:
    return Call(id="r", operation="image_edits", format="f", caller=Caller(id="c", account="a"), fetcher=fetcher)


def given_as(data: bytes, media_type: str = "") -> list[FileSource]:
    """The ways in which a picture comes with its request."""
    return [File(data, media_type), Data(media_type=media_type, base64=base64.b64encode(data).decode())]


def got(source: FileSource, fetcher: FakeFetcher | None = None) -> ImageFile:
    return asyncio.run(read_image(call(fetcher), source, "image.0"))


def catch_refusal(source: FileSource, fetcher: FakeFetcher | None = None) -> InvalidField:
    """What both the look at the header and the whole picture say of it, which must be the same."""
    with pytest.raises(InvalidField) as whole:
        got(source, fetcher)
    assert (whole.value.status, whole.value.param) == (400, "image.0")
    assert "'image.0'" in whole.value.message or whole.value.code == "wrong_media_type"
    if not isinstance(source, Link):
        with pytest.raises(InvalidField) as header:
            asyncio.run(check(source, "image.0"))
        assert (header.value.code, header.value.message) == (whole.value.code, whole.value.message)
    return whole.value


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_known_by_its_bytes(name: str) -> None:
    data, media_type = PICTURES[name]
    for declared in ("", media_type, "application/octet-stream"):
        for source in given_as(data, declared):
            assert asyncio.run(check(source, "image.0")) == (media_type, WIDTH, HEIGHT)
            assert got(source) == ImageFile(data=data, media_type=media_type, width=WIDTH, height=HEIGHT)


@pytest.mark.parametrize("name", PICTURES)
def test_a_file_cut_off_anywhere_is_known_or_refused(name: str) -> None:
    data, media_type = PICTURES[name]
    for end in [*range(0, min(len(data), 64)), *range(64, len(data), 64)]:
        try:
            assert inspect(data[:end], media_type, "image") == (media_type, WIDTH, HEIGHT)
        except InvalidField as error:
            assert (error.param, error.status) == ("image", 400)


@pytest.mark.parametrize("source", given_as(PROFILED, "image/jpeg"))
def test_a_jpeg_may_have_a_large_profile_before_its_header(source: FileSource) -> None:
    with pytest.raises(InvalidField):
        inspect(PROFILED[:HEADER_BYTES], "image/jpeg", "image")
    assert asyncio.run(check(source, "image")) == ("image/jpeg", WIDTH, HEIGHT)
    assert got(source).width == WIDTH


@settings(max_examples=300, deadline=None)
@given(
    beginning=st.sampled_from([b"", PNG[:16], PNG[:30], JPEG[:4], JPEG[:24], b"GIF89a", b"RIFF\0\0\0\0WEBPVP8"]),
    noise=st.binary(max_size=200),
    declared=st.sampled_from(["", "image/png", "image/jpeg", "image/svg+xml", "text/plain", "nonsense", "\0"]),
)
def test_bytes_that_are_no_picture_are_a_400(beginning: bytes, noise: bytes, declared: str) -> None:
    for source in given_as(beginning + noise, declared):
        try:
            picture = got(source)
        except InvalidField as error:
            assert (error.param, error.status) == ("image.0", 400)
        else:
            assert picture.media_type in pictures.IMAGE_MEDIA_TYPES
            assert picture.width * picture.height <= pictures.MAX_PIXELS


@pytest.mark.parametrize(
    ("data", "declared", "code"),
    [
        (b"", "", "wrong_media_type"),
        (b"", "image/png", "wrong_media_type"),
        (b"this is a text", "image/png", "wrong_media_type"),
        (b"this is a text", "", "wrong_media_type"),
        (b"this is a text", "text/plain", "wrong_media_type"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "image/svg+xml", "wrong_media_type"),
        (JPEG, "image/png", "wrong_media_type"),
        (b"%PDF-1.7", "", "wrong_media_type"),
        (drawn("BMP"), "image/bmp", "wrong_media_type"),
        (PNG[:20], "image/png", "invalid_image"),
        (JPEG[:100], "", "invalid_image"),
        (announcing(0, 10), "image/png", "invalid_image"),
        (announcing(60_000, 60_000), "image/png", "image_too_large"),
        (announcing(2**32 - 1, 1), "image/png", "image_too_large"),
    ],
)
def test_what_is_no_picture_or_too_large_a_one_is_refused(data: bytes, declared: str, code: str) -> None:
    for source in given_as(data, declared):
        assert catch_refusal(source).code == code


def test_as_many_pixels_as_are_allowed_pass() -> None:
    assert got(File(announcing(8192, 8192))).width == 8192
    assert catch_refusal(File(announcing(8192, 8193))).code == "image_too_large"


def test_a_file_of_too_many_bytes_is_refused_before_it_is_read() -> None:
    assert catch_refusal(File(b"", said=MAX_BYTES + 1)).code == "image_too_large"
    assert got(File(PNG, said=MAX_BYTES)).width == WIDTH
    assert catch_refusal(Data(media_type="", base64="A" * (MAX_BYTES // 3 * 4 + 8))).code == "image_too_large"
    huge = FakeFetcher(PNG + bytes(MAX_BYTES), "image/png")
    assert catch_refusal(Link(url="https://site.test/a.png"), huge).code == "image_too_large"


def test_a_message_shows_little_of_what_was_declared() -> None:
    assert len(catch_refusal(File(PNG, "image/" + "x" * 10_000)).message) < 400


def test_a_picture_at_an_address_is_fetched() -> None:
    fetcher = FakeFetcher(PNG, "image/png")
    picture = got(Link(url="https://site.test/a"), fetcher)
    assert picture == ImageFile(data=PNG, media_type="image/png", width=WIDTH, height=HEIGHT)
    assert fetcher.asked == ("https://site.test/a", ("image/",), "image.0")


def test_what_was_fetched_is_looked_at_too() -> None:
    link, avif = Link(url="https://site.test/a"), b"\0\0\0\x20ftypavif\0\0\0\0avifmif1"
    assert catch_refusal(link, FakeFetcher(avif, "image/avif")).code == "wrong_media_type"
    assert catch_refusal(link, FakeFetcher(announcing(60_000, 60_000), "image/png")).code == "image_too_large"


def test_an_address_is_refused_where_nothing_fetches_it() -> None:
    assert "is a URL" in catch_refusal(Link(url="https://site.test/a")).message


def test_an_address_is_not_looked_at_before_it_is_fetched() -> None:
    fetcher = FakeFetcher(b"", "")
    assert asyncio.run(check(Link(url="https://site.test/a"), "image")) is None
    assert fetcher.asked is None


# Base64


def decoded(text: str) -> bytes:
    return asyncio.run(decode(text, "image"))


def escaped(text: str) -> str:
    return text.replace("+", "%2B").replace("/", "%2f").replace("=", "%3D")


def wrapped(text: str) -> str:
    return "\r\n".join(text[start : start + 76] for start in range(0, len(text), 76)) + "\n"


WRITTEN = [
    lambda data: base64.b64encode(data).decode(),
    lambda data: base64.b64encode(data).decode().rstrip("="),
    lambda data: base64.urlsafe_b64encode(data).decode(),
    lambda data: base64.urlsafe_b64encode(data).decode().rstrip("="),
    lambda data: base64.encodebytes(data).decode(),
    lambda data: wrapped(base64.b64encode(data).decode()),
    lambda data: escaped(base64.b64encode(data).decode()),
    lambda data: wrapped(base64.b64encode(data).decode()).replace("\r", "%0D").replace("\n", "%0a"),
]
"""How base64 is written: in both alphabets, with and without padding, as MIME does, as a URL does."""


@settings(max_examples=150, deadline=None)
@given(data=st.binary(max_size=200), way=st.sampled_from(WRITTEN), slice_chars=st.integers(1, 30))
def test_base64_is_read_however_it_is_written_and_sliced(data: bytes, way: Any, slice_chars: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pictures, "DECODED_CHARS", slice_chars)
        assert decoded(way(data)) == data


@settings(max_examples=300, deadline=None)
@given(
    text=st.one_of(st.text(max_size=60), st.text("AQg=-_+/% \n2BFDbfd3", max_size=60)),
    slice_chars=st.sampled_from([1, 2, 3, 4, 5, 7, 64]),
)
def test_any_text_is_base64_or_a_400_wherever_it_is_sliced(text: str, slice_chars: int) -> None:
    def outcome() -> bytes | str:
        try:
            return decoded(text)
        except InvalidField as error:
            return error.code

    whole = outcome()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pictures, "DECODED_CHARS", slice_chars)
        assert outcome() == whole


NOT_BASE64 = [
    "A", "AAAAA", "AA=A", "AAAA=AAAA", "AAA*", "A%41A", "AAA%", "AAA%3", "%", "AAAA,AAAA", "ÄÄÄÄ", "\ud800AAA", "AAAA\0",
]  # fmt: skip


@pytest.mark.parametrize("text", NOT_BASE64)
def test_what_is_not_base64_is_refused_by_its_field(text: str) -> None:
    with pytest.raises(InvalidField) as caught:
        decoded(text)
    assert (caught.value.param, caught.value.code) == ("image", "invalid_base64")
    assert catch_refusal(Data(media_type="image/png", base64=text)).code == "invalid_base64"


def test_base64_that_goes_wrong_late_is_refused_when_it_is_decoded() -> None:
    text = base64.b64encode(PNG + bytes(2 * HEADER_BYTES)).decode()[:-4] + "*"
    asyncio.run(check(Data(media_type="", base64=text), "image.0"))
    with pytest.raises(InvalidField, match="not base64"):
        got(Data(media_type="", base64=text))


def test_a_beginning_may_end_anywhere() -> None:
    async def main() -> None:
        for way in WRITTEN:
            text = way(PNG)
            for end in range(len(text)):
                beginning = await decode(text[:end], "image", whole=False)
                assert PNG.startswith(beginning)
                assert len(beginning) >= end // 12 * 3, "at worst every sign is escaped"

    asyncio.run(main())


def test_decoding_a_large_picture_gives_the_event_loop_its_turn() -> None:
    data = PNG + bytes(15 * 1024 * 1024)
    source = Data(media_type="image/png", base64=base64.b64encode(data).decode())

    async def main() -> int:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counter = asyncio.create_task(count())
        picture = await read_image(call(), source, "image")
        counter.cancel()
        assert picture.data == data
        return turns

    assert asyncio.run(main()) >= 20


# What a caller writes


@pytest.mark.parametrize(
    ("written", "source"),
    [
        ("https://site.test/a.png", Link(url="https://site.test/a.png")),
        ("HTTP://site.test/a.png", Link(url="HTTP://site.test/a.png")),
        ("data:image/png;base64,AAAA", Data(media_type="image/png", base64="AAAA")),
        ("DATA:Image/PNG;BASE64,AAAA", Data(media_type="image/png", base64="AAAA")),
        ("data:image/png;charset=utf-8;name=a.png;base64,AAAA", Data(media_type="image/png", base64="AAAA")),
        ("data:;base64,AAAA", Data(media_type="", base64="AAAA")),
        ("data:image/png ; base64,AA%3D%3D", Data(media_type="image/png", base64="AA%3D%3D")),
        ("iVBORw0KGgo", Data(media_type="", base64="iVBORw0KGgo")),
        ("httpAAAA", Data(media_type="", base64="httpAAAA")),
    ],
)
def test_a_picture_is_an_address_a_data_url_or_base64(written: str, source: FileSource) -> None:
    assert parse_image_source(written, "image") == source


NO_SOURCES = [
    "", "ftp://site.test/a.png", "file:///etc/passwd", "gs://bucket/a.png", "javascript:alert(1)", "data:", "data:image/png,AAAA",
    "data:image/png;utf8,AAAA", "data:image/png;base64", " data:image/png;base64,AAAA",
]  # fmt: skip


@pytest.mark.parametrize("written", NO_SOURCES)
def test_any_other_address_is_refused_by_its_field(written: str) -> None:
    with pytest.raises(InvalidField) as caught:
        parse_image_source(written, "images.1.image_url")
    assert (caught.value.param, caught.value.code) == ("images.1.image_url", "invalid_url")


@settings(max_examples=200, deadline=None)
@given(written=st.one_of(st.text(max_size=40), st.text("data:;base64,/= httpxA", max_size=40)))
def test_any_text_is_a_source_or_a_400(written: str) -> None:
    try:
        source = parse_image_source(written, "image.0")
        if isinstance(source, Data):
            got(source)
    except InvalidField as error:
        assert error.param == "image.0"


def test_a_picture_in_a_data_url_is_read() -> None:
    for way in WRITTEN:
        source = parse_image_source("data:image/jpeg;base64," + way(JPEG), "image")
        assert got(source).data == JPEG
