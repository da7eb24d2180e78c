"""Streams: frames to stream events, and stream events to frames.

Source: openai-python 3.52, types/image_gen_partial_image_event.py, image_gen_completed_event.py and the same for image_edit.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final, Literal

from tornado_gate.codec.media_types import parse_image_size
from tornado_gate.errors import GateError, UpstreamError
from tornado_gate.streams import sse
from tornado_gate.streams.events import close
from tornado_gate.types import GeneratedImage, ImageRequest, ImageResult, PartialImage, StreamError, StreamEvent, Usage
from tornado_gate.wire.schemas import wrong_format_error
from tornado_gate_openai.wire.chat import find_error, parse_error
from tornado_gate_openai.wire.images.base64_slices import decode
from tornado_gate_openai.wire.images.response import find_media_type, get_format, insert_image
from tornado_gate_openai.wire.images.usage import parse_usage, render_usage, sum_usages

StreamKind = Literal["image_generation", "image_edit"]

PARTIAL_SUFFIX: Final = ".partial_image"
COMPLETED_SUFFIX: Final = ".completed"


def find_frame_error(frame: Any) -> GateError | None:
    """Return the error in a frame, or None."""
    if isinstance(frame, Mapping) and frame.get("type") == "error":
        return parse_error(frame.get("error") or frame)
    return find_error(frame)


async def parse_stream(frames: AsyncIterator[Any]) -> AsyncIterator[StreamEvent]:
    """Yield the events of a stream whose `frames` are JSON values. Each completed image has its own frame.

    Raises UpstreamError for a stream that ends without a completed image.
    """
    images: list[GeneratedImage] = []
    usages: list[Usage] = []
    last: Mapping[str, Any] = {}
    try:
        async for frame in frames:
            if (error := find_frame_error(frame)) is not None:
                yield StreamError(error=error)
                return
            kind = str(frame.get("type")) if isinstance(frame, Mapping) else ""
            if kind.endswith(PARTIAL_SUFFIX):
                data, media_type = await _parse_image(frame)
                yield PartialImage(
                    index=_read_number(frame, "partial_image_index") or 0, data=data, media_type=media_type
                )
            elif kind.endswith(COMPLETED_SUFFIX):
                data, media_type = await _parse_image(frame)
                images.append(GeneratedImage(data=data, media_type=media_type))
                usages += [usage] if (usage := parse_usage(frame.get("usage"))) else []
                last = frame
    finally:
        await close(frames)
    if not images:
        raise UpstreamError("The upstream's image stream ended before an image was complete. Retry the request.")
    yield ImageResult(
        images=tuple(images),
        created=_read_number(last, "created_at"),
        usage=sum_usages(usages),
        background=_read_word(last, "background"),
        output_format=_read_word(last, "output_format"),
        quality=_read_word(last, "quality"),
        size=_read_word(last, "size"),
    )


async def _parse_image(frame: Mapping[str, Any]) -> tuple[bytes, str]:
    text = frame.get("b64_json")
    if not isinstance(text, str):
        raise wrong_format_error()
    data = await decode(text)
    return data, find_media_type(data, _read_word(frame, "output_format") or "")


def _read_word(frame: Mapping[str, Any], name: str) -> str | None:
    value = frame.get(name)
    return value if isinstance(value, str) and value != "auto" else None


def _read_number(frame: Mapping[str, Any], name: str) -> int | None:
    value = frame.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


async def render_stream(
    events: AsyncIterator[StreamEvent], *, what: StreamKind, asked: ImageRequest, created: int
) -> AsyncIterator[bytes]:
    """Yield the frames of a stream; images are always inline base64. Raises the error of a StreamError.

    Settings that the response does not contain come from the request `asked` and from the image data. If several images are
    completed, the last frame reports the usage of all.
    """
    try:
        async for event in events:
            match event:
                case PartialImage():
                    members = {
                        "partial_image_index": event.index,
                        **_render_settings(asked, None, event.data, event.media_type),
                    }
                    yield await _render_frame(what + PARTIAL_SUFFIX, event.data, members | {"created_at": created})
                case ImageResult():
                    for number, image in enumerate(event.images, start=1):
                        usage = (event.usage if number == len(event.images) else None) or Usage()
                        members = _render_settings(asked, event, image.data, image.media_type)
                        members |= {"created_at": event.created or created, "usage": render_usage(usage)}
                        yield await _render_frame(what + COMPLETED_SUFFIX, image.data, members)
                case StreamError(error=error):
                    raise error
    finally:
        await close(events)


def _render_settings(request: ImageRequest, result: ImageResult | None, data: bytes, media_type: str) -> dict[str, Any]:
    words: dict[str, Any] = {
        name: (getattr(result, name) if result else None) or getattr(request, name) or "auto"
        for name in ("background", "quality", "size")
    }
    if words["size"] == "auto" and (size := parse_image_size(data)):
        words["size"] = f"{size[0]}x{size[1]}"
    return words | {"output_format": get_format(media_type)}


async def _render_frame(kind: str, data: bytes, members: Mapping[str, Any]) -> bytes:
    return sse.render(await insert_image(data, {"type": kind, **members}), kind)
