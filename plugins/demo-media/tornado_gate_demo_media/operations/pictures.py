"""New images and edits. See `tornado_gate_demo_media.images` for their content.

The files of an edit are read once it has a slot: at most as many requests as there are workers hold files at a time,
`MAX_INPUT_BYTES` each; those that wait leave their files in the core's storage. Each worker returns one image at a
time, and one response holds at most `MAX_OUTPUT_BYTES` of images.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final

from tornado_gate.errors import InvalidField
from tornado_gate.http.fetch import pictures
from tornado_gate.types import Call, FileSource, GeneratedImage, ImageRequest, ImageResult, StreamEvent, Usage
from tornado_gate.types.value import Value
from tornado_gate_demo_media.image_orders import EditOrder, ImageOrder, ImageOutput, OutputOptions
from tornado_gate_demo_media.images import MAX_INPUTS, check_finish, compute_size, edit_image, make_image, parse_size
from tornado_gate_local.errors import InvalidArgument
from tornado_gate_local.operations.work import (
    ConcurrencyLimit,
    OperationWork,
    drop_unknown,
    make_all,
    make_field_error,
    make_path,
)
from tornado_gate_local.words import count_tokens
from tornado_gate_local.workers import POOL

MAX_IMAGES: Final = 10
DEFAULT_SIZE: Final = (1_024, 1_024)
PIXELS_PER_TOKEN: Final = 1_024
MAX_INPUT_BYTES: Final = 128 * 1024 * 1024
MAX_OUTPUT_BYTES: Final = 256 * 1024 * 1024

EDITS: Final = ConcurrencyLimit(POOL.size, most_waiting=200)
REFUSED_FIELDS: Final = {"ratio": "aspect_ratio", "size": "resolution"}


@dataclass(frozen=True, slots=True)
class ImageWork(OperationWork):
    """`size` is width and height; None for an edit that keeps the size of its first image."""

    call: Call
    request: ImageRequest
    finish: OutputOptions
    size: tuple[int, int] | None

    async def events(self) -> AsyncIterator[StreamEvent]:
        """The images as one event. Raises InvalidField."""
        try:
            yield await (self._edit_images() if self.request.images else self._create_images())
        except InvalidArgument as error:
            raise make_field_error(self.request, error) from None

    async def _create_images(self) -> ImageResult:
        width, height = self.size or DEFAULT_SIZE
        orders = [
            ImageOrder(prompt=self.request.prompt, width=width, height=height, variant=variant, finish=self.finish)
            for variant in self._list_variants()
        ]
        return self._make_result(await make_all(make_image, orders, self._make_size_limit()), image_tokens=0)

    async def _edit_images(self) -> ImageResult:
        async with EDITS.take_place():
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
                for variant in self._list_variants()
            ]
            made = await make_all(edit_image, orders, self._make_size_limit())
            return self._make_result(made, given.tokens)

    def _list_variants(self) -> range:
        """The variants of the images; different seeds have no variant in common."""
        first = MAX_IMAGES * (self.request.seed or 0)
        return range(first, first + (self.request.n or 1))

    def _make_size_limit(self) -> Callable[[ImageOutput], None]:
        """A function that adds up the sizes of all images and raises InvalidField above the limit."""
        left = MAX_OUTPUT_BYTES

        def count(picture: ImageOutput) -> None:
            nonlocal left
            left -= len(picture.data)
            if left < 0:
                message = (
                    f"The images together exceed the limit of {MAX_OUTPUT_BYTES:,} bytes. Request fewer images or webp."
                )
                raise InvalidField(self.request.field_name("n"), message)

        return count

    def _make_result(self, made: list[ImageOutput], image_tokens: int) -> ImageResult:
        """Tokens: those of the prompt, and one for 1,024 pixels of every input and output image."""
        first = made[0]
        return ImageResult(
            images=tuple(GeneratedImage(data=picture.data, media_type=picture.media_type) for picture in made),
            model=self.call.target.upstream_model,
            created=int(time.time()),
            usage=Usage(
                input_tokens=count_tokens([self.request.prompt]) + image_tokens,
                image_tokens=image_tokens,
                output_tokens=sum(count_pixel_tokens(picture.width, picture.height) for picture in made),
            ),
            background="transparent" if first.transparent else "opaque",
            output_format=self.finish.format,
            size=f"{first.width}x{first.height}",
        )


def prepare(call: Call, request: ImageRequest) -> ImageWork:
    """Raises InvalidField for unsupported values."""
    if request.n is not None and not 1 <= request.n <= MAX_IMAGES:
        raise InvalidField(request.field_name("n"), f"The number of images must be 1 to {MAX_IMAGES}, not {request.n}.")
    if len(request.images) > MAX_INPUTS:
        raise InvalidField(
            request.field_name("images"), f"An edit takes at most {MAX_INPUTS} images, not {len(request.images)}."
        )
    if request.mask is not None and not request.images:
        raise InvalidField(
            request.field_name("mask"), "A mask needs an image to edit. Send an image or remove the mask."
        )
    finish = OutputOptions(
        format=request.output_format or "png",
        background=request.background or "auto",
        compression=request.output_compression,
        watermark=bool(request.watermark),
    )
    try:
        check_finish(finish)
        size = _parse_explicit_size(request)
    except InvalidArgument as error:
        raise make_field_error(request, error) from None
    size = size or _compute_size(request)
    _report_drops(call, request, finish)
    return ImageWork(call, request, finish, size)


def _parse_explicit_size(request: ImageRequest) -> tuple[int, int] | None:
    return None if request.size in (None, "auto") else parse_size(request.size or "")


def _compute_size(request: ImageRequest) -> tuple[int, int] | None:
    """The size from aspect ratio and resolution; None without both. Raises InvalidField."""
    if request.aspect_ratio is None and request.resolution is None:
        return None
    try:
        return compute_size(request.aspect_ratio or "1:1", request.resolution or "1K")
    except InvalidArgument as error:
        raise make_field_error(request, error, REFUSED_FIELDS) from None


def _report_drops(call: Call, request: ImageRequest, finish: OutputOptions) -> None:
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
            call.drop_field(request.field_name(ours))
    drop_unknown(call, request)


def count_pixel_tokens(width: int, height: int) -> int:
    """One token for every 1,024 pixels, rounded up."""
    return -(-width * height // PIXELS_PER_TOKEN)


class InputFiles(Value, frozen=True):
    """The files of an edit; `tokens` counts the images without the mask."""

    images: tuple[bytes, ...]
    mask: bytes | None
    tokens: int

    hidden_fields = frozenset({"images", "mask"})


async def read_files(call: Call, request: ImageRequest) -> InputFiles:
    """Read all files and check their headers. Raises InvalidField for the first invalid one, and above the size limit."""
    images: list[bytes] = []
    tokens, left = 0, MAX_INPUT_BYTES
    for number, source in enumerate(request.images):
        param = make_path(request, "images", number, len(request.images) > 1)
        picture = await _read_image(call, source, param, left)
        images.append(picture.data)
        left -= len(picture.data)
        tokens += count_pixel_tokens(picture.width, picture.height)
    if request.mask is None:
        return InputFiles(tuple(images), None, tokens)
    mask = await _read_image(call, request.mask, request.field_name("mask"), left)
    return InputFiles(tuple(images), mask.data, tokens)


async def _read_image(call: Call, source: FileSource, param: str, left: int) -> pictures.ImageFile:
    """An image of at most `left` bytes, checked before it is decoded. Raises InvalidField."""
    known = getattr(source, "size", 0)
    picture = None
    if known <= left:
        picture = await pictures.read_image(call, source, param)
    if picture is None or len(picture.data) > left:
        message = f"The images of one request exceed the limit of {MAX_INPUT_BYTES:,} bytes. Send smaller images."
        raise InvalidField(param, message, code="image_too_large")
    return picture
