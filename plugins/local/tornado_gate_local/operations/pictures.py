"""New pictures and edits. See `media.images` for what they show.

Files are read when their turn comes: no more requests than there are workers hold files at a time, each `MOST_INPUT_BYTES`
at most; the others leave theirs where the core keeps them. Pictures that are made come back one for each worker at a time,
and one answer holds `MOST_OUTPUT_BYTES` of them.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final

from tornado_gate.errors import InvalidField
from tornado_gate.http.fetch import pictures
from tornado_gate.types import Call, FileSource, ImageRequest, ImageResult, MadeImage, StreamEvent, Usage
from tornado_gate.types.value import Value
from tornado_gate_local.media.errors import MediaError
from tornado_gate_local.media.image_orders import EditOrder, Finish, ImageOrder, Picture
from tornado_gate_local.media.images import MOST_INPUTS, check_finish, edit_image, make_image, parse_size, size_of_ratio
from tornado_gate_local.media.workers import POOL
from tornado_gate_local.operations.work import Places, Work, lose_unknown, make_all, place, refused
from tornado_gate_local.words import count_tokens

MOST_PICTURES: Final = 10
USUAL_SIZE: Final = (1_024, 1_024)
PIXELS_PER_TOKEN: Final = 1_024
MOST_INPUT_BYTES: Final = 128 * 1024 * 1024
MOST_OUTPUT_BYTES: Final = 256 * 1024 * 1024

EDITS: Final = Places(POOL.size, most_waiting=200)
REFUSED_FIELDS: Final = {"ratio": "aspect_ratio", "size": "resolution"}


@dataclass(frozen=True, slots=True)
class Painting(Work):
    """`size` is width and height; None is for an edit that keeps those of its first picture."""

    call: Call
    request: ImageRequest
    finish: Finish
    size: tuple[int, int] | None

    async def events(self) -> AsyncIterator[StreamEvent]:
        """Raises InvalidField."""
        try:
            yield await (self._edited() if self.request.images else self._made())
        except MediaError as error:
            raise refused(self.request, error) from None

    async def _made(self) -> ImageResult:
        width, height = self.size or USUAL_SIZE
        orders = [
            ImageOrder(prompt=self.request.prompt, width=width, height=height, variant=variant, finish=self.finish)
            for variant in self._variants()
        ]
        return self._result(await make_all(make_image, orders, self._limit()), image_tokens=0)

    async def _edited(self) -> ImageResult:
        async with EDITS.one():
            given = await read_files(self.call, self.request)
            orders = [
                EditOrder(
                    instruction=self.request.prompt,
                    images=given.images,
                    mask=given.mask,
                    size=self.size,
                    variant=variant,
                    finish=self.finish,
                )
                for variant in self._variants()
            ]
            made = await make_all(edit_image, orders, self._limit())
            return self._result(made, given.tokens)

    def _variants(self) -> range:
        """Another seed gives none of the pictures that this one gives."""
        first = MOST_PICTURES * (self.request.seed or 0)
        return range(first, first + (self.request.n or 1))

    def _limit(self) -> Callable[[Picture], None]:
        """Counts the bytes of all pictures. What it calls raises InvalidField when they are too many."""
        left = MOST_OUTPUT_BYTES

        def count(picture: Picture) -> None:
            nonlocal left
            left -= len(picture.data)
            if left < 0:
                message = (
                    f"The pictures together have more than {MOST_OUTPUT_BYTES:,} bytes; ask for fewer, or for webp."
                )
                raise InvalidField(self.request.field_name("n"), message)

        return count

    def _result(self, made: list[Picture], image_tokens: int) -> ImageResult:
        """Tokens: those of the prompt, and one for 1,024 pixels of every picture that came or was made."""
        first = made[0]
        return ImageResult(
            images=tuple(MadeImage(data=picture.data, media_type=picture.media_type) for picture in made),
            model=self.call.target.upstream_model,
            created=int(time.time()),
            usage=Usage(
                input_tokens=count_tokens([self.request.prompt]) + image_tokens,
                image_tokens=image_tokens,
                output_tokens=sum(pixel_tokens(picture.width, picture.height) for picture in made),
            ),
            background="transparent" if first.transparent else "opaque",
            output_format=self.finish.format,
            size=f"{first.width}x{first.height}",
        )


def prepare(call: Call, request: ImageRequest) -> Painting:
    """Raises InvalidField for what no picture can be like."""
    if request.n is not None and not 1 <= request.n <= MOST_PICTURES:
        raise InvalidField(request.field_name("n"), f"1 to {MOST_PICTURES} pictures can be asked for, not {request.n}.")
    if len(request.images) > MOST_INPUTS:
        raise InvalidField(request.field_name("images"), f"At most {MOST_INPUTS} images can be given.")
    if request.mask is not None and not request.images:
        raise InvalidField(request.field_name("mask"), "A mask needs an image that it belongs to.")
    finish = Finish(
        format=request.output_format or "png",
        background=request.background or "auto",
        compression=request.output_compression,
        watermark=bool(request.watermark),
    )
    try:
        check_finish(finish)
        size = _explicit_size(request)
    except MediaError as error:
        raise refused(request, error) from None
    size = size or _size_of_ratio(request)
    _report_losses(call, request, finish)
    return Painting(call, request, finish, size)


def _explicit_size(request: ImageRequest) -> tuple[int, int] | None:
    return None if request.size in (None, "auto") else parse_size(request.size or "")


def _size_of_ratio(request: ImageRequest) -> tuple[int, int] | None:
    """The size in other words; None when those are missing too. Raises InvalidField."""
    if request.aspect_ratio is None and request.resolution is None:
        return None
    try:
        return size_of_ratio(request.aspect_ratio or "1:1", request.resolution or "1K")
    except MediaError as error:
        raise refused(request, error, REFUSED_FIELDS) from None


def _report_losses(call: Call, request: ImageRequest, finish: Finish) -> None:
    sized = request.size not in (None, "auto")
    lost = {
        "negative_prompt": bool(request.negative_prompt),
        "aspect_ratio": sized and request.aspect_ratio is not None,
        "resolution": sized and request.resolution is not None,
        "quality": request.quality not in (None, "auto"),
        "style": request.style is not None,
        "moderation": request.moderation not in (None, "auto"),
        "output_compression": finish.format == "png" and finish.compression not in (None, 100),
        "input_fidelity": request.input_fidelity is not None,
        "prompt_extend": bool(request.prompt_extend),
        "partial_images": bool(request.partial_images),
    }
    for ours, is_lost in lost.items():
        if is_lost:
            call.lose(request.field_name(ours))
    lose_unknown(call, request)


def pixel_tokens(width: int, height: int) -> int:
    """One for 1,024 pixels or a part of them."""
    return -(-width * height // PIXELS_PER_TOKEN)


class Given(Value, frozen=True):
    """The files of a request; `tokens` is what its pictures count, the mask not."""

    images: tuple[bytes, ...]
    mask: bytes | None
    tokens: int

    unshown = frozenset({"images", "mask"})


async def read_files(call: Call, request: ImageRequest) -> Given:
    """Read and look at all files. Raises InvalidField for the first that is wrong, or when they are too large together."""
    images: list[bytes] = []
    tokens, left = 0, MOST_INPUT_BYTES
    for number, source in enumerate(request.images):
        param = place(request, "images", number, len(request.images) > 1)
        picture = await _read(call, source, param, left)
        images.append(picture.data)
        left -= len(picture.data)
        tokens += pixel_tokens(picture.width, picture.height)
    if request.mask is None:
        return Given(tuple(images), None, tokens)
    mask = await _read(call, request.mask, request.field_name("mask"), left)
    return Given(tuple(images), mask.data, tokens)


async def _read(call: Call, source: FileSource, param: str, left: int) -> pictures.Picture:
    """A file of at most `left` bytes, looked at before anything decodes it."""
    known = getattr(source, "size", 0)
    picture = None
    if known <= left:
        picture = await pictures.picture_of(call, source, param)
    if picture is None or len(picture.data) > left:
        message = f"The images together have more than {MOST_INPUT_BYTES:,} bytes."
        raise InvalidField(param, message, code="image_too_large")
    return picture
