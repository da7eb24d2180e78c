"""Whole responses: body to `ImageResult`, and `ImageResult` to the JSON text of a body.

Source: openai-python 3.52, types/images_response.py and image.py.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import orjson

from tornado_gate.codec.media_types import sniff
from tornado_gate.errors import UpstreamError
from tornado_gate.types import GeneratedImage, ImageResult, Usage
from tornado_gate.wire.schemas import is_array_of_objects, wrong_format_error
from tornado_gate_openai.wire.chat import find_error
from tornado_gate_openai.wire.images.base64_slices import decode, encode
from tornado_gate_openai.wire.images.usage import parse_usage, render_usage

ImageFetcher = Callable[[str], Awaitable[bytes]]
"""Downloads the image at an upstream's URL and returns its bytes."""
ImageSaver = Callable[[GeneratedImage, int], Awaitable[str]]
"""Stores the image with this index, from 0, and returns its URL."""

_SETTING_MEMBERS: Final = ("background", "output_format", "quality", "size")
_VENDOR_MEMBERS: Final = ("safety_identifier", "svg_usage")
"""Members of the vendor's response that are kept in `ImageResult.extra`."""


async def parse_response(body: Any, *, fetch: ImageFetcher | None = None) -> ImageResult:
    """Parse the images in an upstream's response. `fetch` downloads images that the response gives by URL.

    Raises the error in the body, and UpstreamError for a response without images.
    """
    if (error := find_error(body)) is not None:
        raise error
    if not isinstance(body, Mapping) or not is_array_of_objects(body.get("data")) or not body["data"]:
        raise wrong_format_error()
    settings = {name: body[name] for name in _SETTING_MEMBERS if isinstance(body.get(name), str)}
    images = [await _parse_image(entry, settings.get("output_format", ""), fetch) for entry in body["data"]]
    created = body.get("created")
    return ImageResult(
        images=tuple(images),
        created=created if isinstance(created, int) and not isinstance(created, bool) else None,
        usage=parse_usage(body.get("usage")),
        extra={name: body[name] for name in _VENDOR_MEMBERS if body.get(name) is not None},
        **settings,
    )


async def _parse_image(entry: Mapping[str, Any], output_format: str, fetch: ImageFetcher | None) -> GeneratedImage:
    inline, address = entry.get("b64_json"), entry.get("url")
    if isinstance(inline, str) and inline:
        data = await decode(inline)
    elif isinstance(address, str) and address[:5].lower() == "data:":
        data = await decode(address)
    elif isinstance(address, str) and address:
        if fetch is None:
            raise UpstreamError(
                "The upstream returned an image URL instead of base64 data. Use a model that returns base64."
            )
        data = await fetch(address)
    else:
        raise wrong_format_error()
    revised = entry.get("revised_prompt")
    return GeneratedImage(
        data=data,
        media_type=find_media_type(data, output_format),
        revised_prompt=revised if isinstance(revised, str) and revised else None,
    )


def find_media_type(data: bytes, output_format: str) -> str:
    """Return an image's media type from its content, else from `output_format`. Raises UpstreamError for another file type."""
    seen = sniff(data)
    if seen.startswith("image/"):
        return seen
    if seen:
        raise UpstreamError(f"The upstream returned a file of type '{seen}' instead of an image. Retry the request.")
    return {"svg": "image/svg+xml", "": "image/png"}.get(output_format, f"image/{output_format}")


def get_format(media_type: str) -> str:
    """Return the vendor's ``output_format`` for a media type: png, jpeg, webp."""
    return media_type.partition("/")[2].partition("+")[0]


async def render_response(
    result: ImageResult,
    *,
    created: int,
    save_image: ImageSaver | None,
    usage: Usage | None,
    details: bool,
    revised: Callable[[GeneratedImage], str | None] = lambda image: image.revised_prompt,
) -> bytes:
    """Return the JSON text of the response. `created` (Unix seconds) is used if the upstream sends none.

    `save_image` stores an image and returns its URL; without it the images are inline base64. A `usage` of None is left out.
    With `details` the response includes the image settings. `revised` returns the revised prompt of an image or None.
    """
    entries = []
    for index, image in enumerate(result.images):
        rest = {} if (words := revised(image)) is None else {"revised_prompt": words}
        if save_image is None:
            entries.append(await insert_image(image.data, rest))
        else:
            entries.append(orjson.dumps({"url": await save_image(image, index), **rest}))
    body: dict[str, Any] = {"created": result.created or created}
    if details:
        body |= {name: value for name in _SETTING_MEMBERS if (value := getattr(result, name)) and value != "auto"}
        body |= {name: result.extra[name] for name in _VENDOR_MEMBERS if name in result.extra}
    body["data"] = []
    text = orjson.dumps(body).removesuffix(b"]}") + b",".join(entries) + b"]"
    return text + (b"}" if usage is None else b"," + orjson.dumps({"usage": render_usage(usage)})[1:])


async def insert_image(data: bytes, rest: Mapping[str, Any]) -> bytes:
    """Return the JSON text of an object with the members `rest` and ``b64_json``; base64 needs no JSON escaping."""
    others = orjson.dumps(rest)[:-1]
    encoded = await encode(data)
    return b"".join((others, b"," if rest else b"", b'"b64_json":"', encoded, b'"}'))
