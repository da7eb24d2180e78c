"""Responses of the common lane: images as base64, or stored by the gateway and returned as URLs."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

from tornado_gate.codec.media_types import get_extension
from tornado_gate.errors import GateError, Unavailable
from tornado_gate.streams.events import close, read_single_event
from tornado_gate.types import Call, GeneratedImage, ImageRequest, ImageResult, Reply, StreamEvent, Usage
from tornado_gate_openai.format.images.reply_options import ImageState
from tornado_gate_openai.format.paths import KEEP_ALIVE
from tornado_gate_openai.format.replies import EVENT_STREAM_TYPE, JSON_TYPE, render_error_frame
from tornado_gate_openai.wire.images import ImageSaver, StreamKind, render_response, render_stream


def reply(call: Call, request: ImageRequest, events: AsyncIterator[StreamEvent]) -> Reply:
    """Return the response to an image request."""
    if request.stream:
        return Reply(content_type=EVENT_STREAM_TYPE, chunks=stream_frames(request, events), keep_alive=KEEP_ALIVE)
    return Reply(content_type=JSON_TYPE, chunks=_render_whole(call, request, events))


async def stream_frames(request: ImageRequest, events: AsyncIterator[StreamEvent]) -> AsyncIterator[bytes]:
    """Yield frames. A failure before the first frame is raised and keeps its status; a later one is the last frame."""
    begun = False
    what: StreamKind = "image_edit" if request.images else "image_generation"
    frames = render_stream(events, what=what, asked=request, created=int(time.time()))
    try:
        async for frame in frames:
            yield frame
            begun = True
    except GateError as error:
        if not begun:
            raise
        yield render_error_frame(error)
    finally:
        await close(frames)


async def _render_whole(call: Call, request: ImageRequest, events: AsyncIterator[StreamEvent]) -> AsyncIterator[bytes]:
    try:
        result = await read_single_event(events, ImageResult)
    finally:
        await close(events)
    state: ImageState = request.reply_state
    yield await render_response(
        result,
        created=int(time.time()),
        save_image=None if state.inline else make_image_saver(call),
        usage=_choose_usage(request, result),
        details=state.detailed,
        revised=lambda image: _choose_revised_prompt(request, image),
    )


def _choose_usage(request: ImageRequest, result: ImageResult) -> Usage | None:
    """Return the response's usage.

    The contract requires it for generations with ``prompt``: zeros if the upstream sent none.
    """
    if request.reply_state.shape == "input":
        return None
    return result.usage or (None if request.images else Usage())


def _choose_revised_prompt(request: ImageRequest, image: GeneratedImage) -> str | None:
    """Return the revised prompt. Generations with ``input`` always have one, edits with ``input`` never."""
    if request.reply_state.shape == "prompt":
        return image.revised_prompt
    return None if request.images else image.revised_prompt or request.prompt


def make_image_saver(call: Call) -> ImageSaver:
    """Return a function that stores an image in the call's file store and returns its URL."""

    async def place(image: GeneratedImage, index: int) -> str:
        if call.files is None:
            raise Unavailable("The gateway cannot store images now. Retry with 'response_format': 'b64_json'.")
        return await call.files.keep(
            image.data, image.media_type, f"image-{index + 1}.{get_extension(image.media_type)}"
        )

    return place
