"""Streams, both ways: frames to events, and events to frames.

Source: openai-python 3.52, types/image_gen_partial_image_event.py, image_gen_completed_event.py and their ``image_edit_`` twins.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final, Literal

from tornado_gate.codec.media_types import image_size
from tornado_gate.errors import GateError, UpstreamError
from tornado_gate.streams import sse
from tornado_gate.streams.events import close
from tornado_gate.types import ImageRequest, ImageResult, MadeImage, PartialImage, StreamError, StreamEvent, Usage
from tornado_gate.wire.openai_chat import error_of, parse_error
from tornado_gate.wire.openai_images.base64_slices import decode
from tornado_gate.wire.openai_images.response import format_of, media_type_of, with_picture
from tornado_gate.wire.openai_images.usage import added, parse_usage, render_usage
from tornado_gate.wire.schemas import no_answer

What = Literal["image_generation", "image_edit"]

PARTIAL: Final = ".partial_image"
COMPLETED: Final = ".completed"


def failure_of(frame: Any) -> GateError | None:
    """The error that a frame is, or None."""
    if isinstance(frame, Mapping) and frame.get("type") == "error":
        return parse_error(frame.get("error") or frame)
    return error_of(frame)


async def parse_events(frames: AsyncIterator[Any]) -> AsyncIterator[StreamEvent]:
    """The events of a stream, whose `frames` are JSON values. Each picture that is done has a frame of its own.

    Raises UpstreamError for a stream that ends without one.
    """
    images: list[MadeImage] = []
    usages: list[Usage] = []
    last: Mapping[str, Any] = {}
    try:
        async for frame in frames:
            if (error := failure_of(frame)) is not None:
                yield StreamError(error=error)
                return
            kind = str(frame.get("type")) if isinstance(frame, Mapping) else ""
            if kind.endswith(PARTIAL):
                data, media_type = await _picture(frame)
                yield PartialImage(index=_number(frame, "partial_image_index") or 0, data=data, media_type=media_type)
            elif kind.endswith(COMPLETED):
                data, media_type = await _picture(frame)
                images.append(MadeImage(data=data, media_type=media_type))
                usages += [usage] if (usage := parse_usage(frame.get("usage"))) else []
                last = frame
    finally:
        await close(frames)
    if not images:
        raise UpstreamError("The upstream's stream stopped before its end.")
    yield ImageResult(
        images=tuple(images),
        created=_number(last, "created_at"),
        usage=added(usages),
        background=_word(last, "background"),
        output_format=_word(last, "output_format"),
        quality=_word(last, "quality"),
        size=_word(last, "size"),
    )


async def _picture(frame: Mapping[str, Any]) -> tuple[bytes, str]:
    text = frame.get("b64_json")
    if not isinstance(text, str):
        raise no_answer()
    data = await decode(text)
    return data, media_type_of(data, _word(frame, "output_format") or "")


def _word(frame: Mapping[str, Any], name: str) -> str | None:
    value = frame.get(name)
    return value if isinstance(value, str) and value != "auto" else None


def _number(frame: Mapping[str, Any], name: str) -> int | None:
    value = frame.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


async def render_events(
    events: AsyncIterator[StreamEvent], *, what: What, asked: ImageRequest, created: int
) -> AsyncIterator[bytes]:
    """The frames of a stream; pictures are always inside. Raises the error of a StreamError.

    What the answer does not say of its pictures is what was asked for, and what they show themselves. Of several that are
    done the last reports the usage of all.
    """
    try:
        async for event in events:
            match event:
                case PartialImage():
                    members = {"partial_image_index": event.index, **_words(asked, None, event.data, event.media_type)}
                    yield await _frame(what + PARTIAL, event.data, members | {"created_at": created})
                case ImageResult():
                    for number, image in enumerate(event.images, start=1):
                        usage = (event.usage if number == len(event.images) else None) or Usage()
                        members = _words(asked, event, image.data, image.media_type)
                        members |= {"created_at": event.created or created, "usage": render_usage(usage)}
                        yield await _frame(what + COMPLETED, image.data, members)
                case StreamError(error=error):
                    raise error
    finally:
        await close(events)


def _words(asked: ImageRequest, result: ImageResult | None, data: bytes, media_type: str) -> dict[str, Any]:
    words: dict[str, Any] = {
        name: (getattr(result, name) if result else None) or getattr(asked, name) or "auto"
        for name in ("background", "quality", "size")
    }
    if words["size"] == "auto" and (size := image_size(data)):
        words["size"] = f"{size[0]}x{size[1]}"
    return words | {"output_format": format_of(media_type)}


async def _frame(kind: str, data: bytes, members: Mapping[str, Any]) -> bytes:
    return sse.render(await with_picture(data, {"type": kind, **members}), kind)
