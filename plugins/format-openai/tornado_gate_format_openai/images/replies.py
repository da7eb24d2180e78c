"""Replies of the common lane: pictures inside the answer, or kept by the gateway and named by address."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

from tornado_gate.codec.media_types import extension
from tornado_gate.errors import GateError, Unavailable
from tornado_gate.streams.events import close, single
from tornado_gate.types import Call, ImageRequest, ImageResult, MadeImage, Reply, StreamEvent, Usage
from tornado_gate.wire.openai_images import Place, What, render_events, render_response
from tornado_gate_format_openai.images.reply_options import ImageState
from tornado_gate_format_openai.replies import EVENTS, JSON, KEEP_ALIVE, error_frame


def reply(call: Call, request: ImageRequest, events: AsyncIterator[StreamEvent]) -> Reply:
    """The reply to a request for pictures."""
    if request.stream:
        return Reply(content_type=EVENTS, chunks=framed(request, events), keep_alive=KEEP_ALIVE)
    return Reply(content_type=JSON, chunks=_whole(call, request, events))


async def framed(request: ImageRequest, events: AsyncIterator[StreamEvent]) -> AsyncIterator[bytes]:
    """Frames, of which an error is the last. A failure before the first is raised and keeps its status."""
    begun = False
    what: What = "image_edit" if request.images else "image_generation"
    frames = render_events(events, what=what, asked=request, created=int(time.time()))
    try:
        async for frame in frames:
            yield frame
            begun = True
    except GateError as error:
        if not begun:
            raise
        yield error_frame(error)
    finally:
        await close(frames)


async def _whole(call: Call, request: ImageRequest, events: AsyncIterator[StreamEvent]) -> AsyncIterator[bytes]:
    try:
        result = await single(events, ImageResult)
    finally:
        await close(events)
    state: ImageState = request.reply_state
    yield await render_response(
        result,
        created=int(time.time()),
        place=None if state.inline else place_of(call),
        usage=_usage(request, result),
        details=state.detailed,
        revised=lambda image: _revised(request, image),
    )


def _usage(request: ImageRequest, result: ImageResult) -> Usage | None:
    """What the answer reports: the contract wants it of generations in the vendor's shape, whatever the upstream says."""
    if request.reply_state.shape == "input":
        return None
    return result.usage or (None if request.images else Usage())


def _revised(request: ImageRequest, image: MadeImage) -> str | None:
    """Generations with ``input`` always say the prompt that was used, edits with ``input`` never."""
    if request.reply_state.shape == "prompt":
        return image.revised_prompt
    return None if request.images else image.revised_prompt or request.prompt


def place_of(call: Call) -> Place:
    """Keeps a picture where `call` keeps files, and says its address."""

    async def place(image: MadeImage, index: int) -> str:
        if call.files is None:
            raise Unavailable("The gateway keeps no files now; ask with 'response_format': 'b64_json'.")
        return await call.files.keep(image.data, image.media_type, f"image-{index + 1}.{extension(image.media_type)}")

    return place
