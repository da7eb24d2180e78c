"""The review of answers by guards. Guards review whole bodies, plain texts and streams in the form the caller gets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any

from tornado_gate.codec.large_json import encode_json, load_json
from tornado_gate.errors import GateError
from tornado_gate.guards.decisions import Review
from tornado_gate.guards.inner_texts import replace_spans
from tornado_gate.guards.text_streams import guard_stream
from tornado_gate.guards.text_views import view_response
from tornado_gate.http.large_responses import LargeResponses
from tornado_gate.plugins.guard_lanes import GuardLane
from tornado_gate.plugins.lanes import FormatLane
from tornado_gate.streams import batches, stages
from tornado_gate.streams.pausable import Pausable
from tornado_gate.types import BufferedBody, Call, GuardedText, Reply, UpstreamResponse
from tornado_gate.types.media_type import media_type

_UNSEEN = ("audio/", "image/", "video/", "application/octet-stream", "application/pdf", "application/zip")
"""Media types of files that are not text."""


def review_reply(
    review: Review, wire_format: FormatLane, call: Call, reply: Reply, large: LargeResponses
) -> Pausable[Reply]:
    """Return the reply after the guards' replacements. The first chunk of a stream has been reviewed.

    `large` limits the memory for bodies. Raises the error for a blocked answer or the error of a required guard, if the reply
    has not begun. After that, the chunks raise it.
    """
    guards = review.reads("response")
    kind = media_type(reply.content_type)
    if not guards or kind.startswith(_UNSEEN):
        return reply
    call.progress.withhold(is_withheld=True)
    if kind == "text/event-stream":
        reply = yield _review_stream(review, guards, call, reply, large)
    elif kind.endswith("json"):
        reply = yield from _review_json(review, guards, call, wire_format, reply, large)
    else:
        raw = yield _read(reply, call, large)
        reviewed = yield from _review_text(review, guards, call, raw)
        reply = reply.replace(BufferedBody(reviewed))
    call.progress.withhold(is_withheld=False)
    return reply


async def _read(reply: Reply, call: Call, large: LargeResponses) -> bytes:
    reader = large.open_reader(call.caller.account)
    try:
        return await UpstreamResponse(chunks=reply.chunks, provider=call.target.provider, reader=reader).read()
    finally:
        reader.release()
        await batches.close(reply.chunks)


def _review_json(
    review: Review,
    guards: Sequence[GuardLane],
    call: Call,
    wire_format: FormatLane,
    reply: Reply,
    large: LargeResponses,
) -> Pausable[Reply]:
    """Review a JSON object as a whole, and an array of objects as a stream."""
    if isinstance(reply.chunks, BufferedBody):
        raw = reply.chunks.data
    else:
        flow = _make_flow(reply.chunks)
        first = yield flow.next_batch()
        flow.put_back(first)
        reply = reply.replace(flow)
        if first[0].lstrip()[:1] == b"[":
            reply = yield _review_stream(review, guards, call, reply, large)
            return reply.replace(_end_array(call, wire_format, reply.chunks))
        raw = yield _read(reply, call, large)
    size = len(raw)
    body = yield from review.run(load_json, raw, size=size)
    view = partial(view_response, review.text_map)
    reviewed = yield from review.review_body("response", call, guards, view, body, size)
    if reviewed is not body:
        raw = yield from review.run(encode_json, reviewed, size=size)
    return reply.replace(BufferedBody(raw))


def _review_text(review: Review, guards: Sequence[GuardLane], call: Call, raw: bytes) -> Pausable[bytes]:
    """Review a body that is one text, such as a transcript."""
    text = raw.decode("utf-8", "surrogateescape")
    for guard in guards:
        texts = [GuardedText(kind="assistant", path="", text=text)]
        spans = yield from review.review_texts("response", guard, call, texts, size=len(raw))
        text = replace_spans(text, spans)
    return text.encode("utf-8", "surrogateescape")


async def _review_stream(
    review: Review, guards: Sequence[GuardLane], call: Call, reply: Reply, large: LargeResponses
) -> Reply:
    """Return the reply with the chunks that remain after each guard, one guard after the other."""
    chunks = reply.chunks
    for guard in guards:
        chunks = _iterate_guarded(review, guard, call, chunks, large)
    flow = _make_flow(chunks)
    flow.put_back(await flow.next_batch())
    return reply.replace(flow)


async def _end_array(call: Call, wire_format: FormatLane, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the chunks of a JSON array that has begun. An error becomes its last element."""
    try:
        async for chunk in chunks:
            yield chunk
    except GateError as error:
        call.progress.break_off(error)
        yield b",%b]" % wire_format.translate_error(call, error)
    finally:
        await batches.close(chunks)


def _make_flow(chunks: AsyncIterator[bytes]) -> stages.Flow[bytes]:
    """Return the chunks as a flow. A chunk can be put back into it."""
    return stages.add_step(chunks, _Unchanged())


class _Unchanged(stages.Step[Any, Any]):
    """A step that passes items on unchanged."""

    __slots__ = ()

    def take(self, items: list[Any], out: list[Any]) -> None:
        out += items


async def _iterate_guarded(
    review: Review, guard: GuardLane, call: Call, chunks: AsyncIterator[bytes], large: LargeResponses
) -> AsyncIterator[bytes]:
    reader = large.open_reader(call.caller.account)

    ask = partial(review.review_window, "response", guard, call)
    try:
        async for chunk in guard_stream(
            review.text_map, chunks, guard.lookahead, ask, partial(review.settle_unread, guard), reader
        ):
            yield chunk
    finally:
        reader.release()
        await batches.close(chunks)
