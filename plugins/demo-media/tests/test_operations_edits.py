"""Edits through the hooks: pictures from JSON, forms and addresses; masks; what is refused; how many are read at a time."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from dataclasses import dataclass
from io import BytesIO
from types import SimpleNamespace

import pytest
from PIL import Image

import tornado_gate_local as local
from tornado_gate.errors import InvalidField, UpstreamOverloaded
from tornado_gate.types import Data, ImageRequest, ImageResult, Link, replace
from tornado_gate_demo_media.operations import pictures
from tornado_gate_local.operations.work import ConcurrencyLimit
from tornado_gate_local.words import count_tokens


def file_of(size=(96, 64), kind="PNG", mode="RGB", colour=(200, 30, 40)) -> bytes:
    buffer = BytesIO()
    Image.new(mode, size, colour).save(buffer, kind)
    return buffer.getvalue()


def inside(data: bytes, media_type: str = "image/png") -> Data:
    return Data(media_type=media_type, base64=base64.b64encode(data).decode())


@dataclass
class FormFile:
    """A file of a form; counts how often it was read."""

    data: bytes
    field: str = "image[]"
    filename: str = "a.png"
    media_type: str = "image/png"
    reads: int = 0

    @property
    def size(self) -> int:
        return len(self.data)

    async def read(self, size: int = -1) -> bytes:
        self.reads += 1
        return self.data if size < 0 else self.data[:size]

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self.data


class Fetcher:
    """Gives the same file at every address."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.asked: list[tuple[str, str]] = []

    async def fetch(self, url, *, kinds, param):
        self.asked.append((url, param))
        return SimpleNamespace(data=self.data, media_type="image/png")


def make_request(*images, **fields) -> ImageRequest:
    return ImageRequest(**{"model": "local-image-edit", "prompt": "make it gray", "images": images, **fields})


def opened(found: ImageResult) -> Image.Image:
    image = Image.open(BytesIO(found.images[0].data))
    image.load()
    return image


def is_gray(pixel) -> bool:
    return len(set(pixel[:3])) == 1


@pytest.fixture
def result(work, call):
    async def run(request: ImageRequest, call=call) -> ImageResult:
        (found,) = await work(request, call)
        assert isinstance(found, ImageResult)
        return found

    return run


@pytest.fixture
def error(work):
    """Why an edit failed when its files were looked at."""

    async def run(request: ImageRequest) -> InvalidField:
        with pytest.raises(InvalidField) as caught:
            await work(request)
        return caught.value

    return run


@pytest.mark.parametrize("kind", ["json", "form", "address"])
@pytest.mark.gen_test(timeout=50)
async def test_a_picture_is_edited_wherever_it_comes_from_and_keeps_its_size(result, call, kind):
    data = file_of()
    fetcher = Fetcher(data)
    source = {"json": inside(data), "form": FormFile(data), "address": Link(url="https://e.test/a.png")}[kind]
    found = await result(make_request(source), replace(call, fetcher=fetcher))
    image = opened(found)
    assert (image.size, image.mode, found.size, found.background) == ((96, 64), "RGB", "96x64", "opaque")
    assert is_gray(image.getpixel((40, 20)))
    assert fetcher.asked == ([("https://e.test/a.png", "images")] if kind == "address" else [])


@pytest.mark.gen_test(timeout=50)
async def test_a_size_and_a_format_may_be_asked_for(result):
    found = await result(make_request(inside(file_of()), size="256x128", output_format="webp"))
    assert (opened(found).size, opened(found).format) == ((256, 128), "WEBP")


@pytest.mark.gen_test(timeout=50)
async def test_transparency_is_kept_and_said(result):
    found = await result(make_request(inside(file_of(mode="RGBA", colour=(200, 30, 40, 100)))))
    assert opened(found).mode == "RGBA"
    assert found.background == "transparent"


@pytest.mark.gen_test(timeout=50)
async def test_only_what_is_transparent_in_the_mask_is_edited(result):
    mask = Image.new("RGBA", (96, 64), (0, 0, 0, 255))
    mask.paste((0, 0, 0, 0), (0, 0, 48, 64))
    buffer = BytesIO()
    mask.save(buffer, "PNG")
    image = opened(await result(make_request(inside(file_of()), mask=inside(buffer.getvalue()))))
    assert is_gray(image.getpixel((10, 30)))
    assert image.getpixel((80, 30)) == (200, 30, 40)


@pytest.mark.gen_test(timeout=50)
async def test_several_edits_of_several_pictures_differ_and_each_file_is_read_once(result):
    files = [FormFile(file_of()), FormFile(file_of((64, 64), "JPEG"), media_type="image/jpeg")]
    found = await result(make_request(*files, prompt="something nobody understands", n=3))
    assert len({made.data for made in found.images}) == 3
    assert [file.reads for file in files] == [1, 1]


@pytest.mark.gen_test(timeout=50)
async def test_tokens_count_the_pixels_of_what_came_and_of_what_was_made(result):
    found = await result(make_request(inside(file_of((64, 64))), inside(file_of((32, 33))), size="96x96"))
    assert found.usage.image_tokens == 4 + 2
    assert found.usage.input_tokens == count_tokens(["make it gray"]) + 6
    assert found.usage.output_tokens == 9


@pytest.mark.gen_test(timeout=50)
async def test_base64_in_the_other_alphabet_and_without_padding_is_read(result):
    data = file_of()
    text = base64.urlsafe_b64encode(data).decode().rstrip("=")
    read = await pictures.read_files(None, make_request(Data(media_type="", base64=text)))
    assert read.images == (data,)


@pytest.mark.parametrize(
    ("source", "code"),
    [
        (Data(media_type="image/png", base64="###"), "invalid_base64"),
        (Data(media_type="image/png", base64="A"), "invalid_base64"),
        (inside(b"no picture at all"), "wrong_media_type"),
        (inside(file_of(), "image/jpeg"), "wrong_media_type"),
        (FormFile(b""), "wrong_media_type"),
        (inside(file_of()[:12]), "invalid_image"),
        (inside(file_of()[:40]), "invalid_value"),  # a header is there, the pixels are not
    ],
)
@pytest.mark.gen_test(timeout=50)
async def test_a_file_that_is_no_picture_is_refused_by_its_place(error, source, code):
    alone = await error(make_request(source, names={"images": "image", "images.0": "image"}))
    assert (alone.param, alone.code) == ("image", code)
    second = await error(make_request(inside(file_of()), source, names={"images": "image"}))
    assert (second.param, second.code) == ("image.1", code)


@pytest.mark.parametrize("data", [file_of((10, 10)), file_of(mode="RGBA", colour=(0, 0, 0, 255)), b"nothing"])
@pytest.mark.gen_test(timeout=50)
async def test_a_mask_that_does_not_fit_leaves_nothing_to_edit_or_is_none_is_refused(error, data):
    assert (
        await error(make_request(inside(file_of()), mask=inside(data), names={"mask": "the mask"}))
    ).param == "the mask"


@pytest.mark.gen_test
async def test_a_mask_without_a_picture_and_too_many_pictures_are_refused_at_once(refusal):
    assert (await refusal(make_request(mask=inside(file_of())))).param == "mask"
    assert (await refusal(make_request(*[inside(file_of())] * 17, names={"images": "image"}))).param == "image"


@pytest.mark.gen_test(timeout=50)
async def test_files_that_are_too_large_together_are_refused_and_the_last_is_not_even_read(error, monkeypatch):
    data = file_of()
    monkeypatch.setattr(pictures, "MAX_INPUT_BYTES", 2 * len(data))
    files = [FormFile(data), FormFile(data), FormFile(data)]
    refused = await error(make_request(*files))
    assert (refused.param, refused.code) == ("images.2", "image_too_large")
    assert [file.reads for file in files] == [1, 1, 0]


@pytest.mark.gen_test(timeout=50)
async def test_only_as_many_requests_as_there_are_places_hold_their_files(monkeypatch, call):
    monkeypatch.setattr(pictures, "EDITS", ConcurrencyLimit(2, most_waiting=50))
    held = most = 0
    both, release = asyncio.Event(), asyncio.Event()

    async def make_all(maker, orders, limit):
        nonlocal held, most
        held += 1
        most = max(most, held)
        if held == 2:
            both.set()
        await release.wait()
        held -= 1
        raise InvalidField("prompt", "enough")

    monkeypatch.setattr(pictures, "make_all", make_all)
    files = [FormFile(file_of()) for _ in range(20)]

    async def edit(file: FormFile) -> None:
        request = make_request(file)
        incoming = await local.call_upstream(call, await local.translate_request(call, request))
        with pytest.raises(InvalidField):
            await anext(local.translate_response(call, request, incoming))

    async with asyncio.TaskGroup() as group:
        for file in files:
            group.create_task(edit(file))
        await both.wait()
        await asyncio.sleep(0)
        assert sum(file.reads for file in files) == 2
        release.set()
    assert most == 2
    assert sum(file.reads for file in files) == 20


@pytest.mark.gen_test
async def test_a_line_that_is_too_long_is_an_overload_and_those_who_leave_it_make_room():
    places = ConcurrencyLimit(1, most_waiting=1)

    async def wait() -> None:
        async with places.take_place():
            pass

    async with places.take_place():
        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0)
        with pytest.raises(UpstreamOverloaded):
            await wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0)
    await waiting


def test_places_serve_one_event_loop_after_another():
    places = ConcurrencyLimit(1, most_waiting=5)

    async def compete() -> int:
        done = 0

        async def one() -> None:
            nonlocal done
            async with places.take_place():
                await asyncio.sleep(0)
                done += 1

        await asyncio.gather(*(one() for _ in range(4)))
        return done

    assert [asyncio.run(compete()) for _ in range(2)] == [4, 4]
