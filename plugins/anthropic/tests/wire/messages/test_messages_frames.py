"""The frames of a stream, made the short way, are those of its events."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tornado_gate import sse
from tornado_gate.errors import UpstreamError
from tornado_gate.types import (
    Finish,
    Opaque,
    PartDelta,
    PartEnd,
    PartStart,
    ResponseStart,
    StreamError,
    StreamEvent,
    VendorPart,
)
from tornado_gate_anthropic.wire.messages import MessagesStreamRenderer, render_frame

KINDS = st.sampled_from(["text", "refusal", "thinking", "tool_call", "audio", "vendor"])
WORDS: st.SearchStrategy[Any] = st.sampled_from(["", "a", 'é"\\\n', "\u2028", b"", b"sound"])


@st.composite
def streams(draw: st.DrawFn) -> list[StreamEvent]:
    """Parts of all kinds that begin, go on and end in any order that is allowed, as far as this format's writer asks."""
    events: list[StreamEvent] = [ResponseStart(model="m")]
    open_parts: list[int] = []
    for index in range(draw(st.integers(1, 4))):
        kind = draw(KINDS)
        events.append(
            PartStart(
                index=index,
                kind=kind,
                choice=draw(st.sampled_from([0, 0, 0, 1])),
                id=f"call_{index}",
                name="look",
                tool_kind=draw(st.sampled_from(["function", "function", "custom"])),
                redacted=kind == "thinking" and draw(st.booleans()),
                part=VendorPart(wire_format="x", value={}) if kind == "vendor" else None,
            )
        )
        open_parts.append(index)
        for _ in range(draw(st.integers(0, 5))):
            data = draw(WORDS)
            events.append(PartDelta(index=draw(st.sampled_from(open_parts)), data=data, transcript=draw(st.just("t"))))
        if draw(st.booleans()):
            ended = open_parts.pop(draw(st.integers(0, len(open_parts) - 1)))
            signature = draw(st.none() | st.just(Opaque(issuer="", value="signed")))
            events.append(PartEnd(index=ended, signature=signature))
        if not open_parts:
            break
    return [*events, *(PartEnd(index=index) for index in open_parts), Finish(reason="stop")]


@given(streams())
@example([PartStart(index=0, kind="text"), *(PartDelta(index=0, data=word) for word in ("a", "b")), PartEnd(index=0)])
def test_the_short_way_gives_the_frames_of_the_long_one(events: list[StreamEvent]) -> None:
    frames: list[bytes] = []
    MessagesStreamRenderer("msg_1", "m").append_frames(events, frames)
    writer = MessagesStreamRenderer("msg_1", "m")
    assert b"".join(frames) == b"".join(render_frame(value) for event in events for value in writer.write(event))


@pytest.mark.parametrize("kind", ["text", "thinking", "tool_call"])
def test_words_of_an_open_block_are_not_made_into_events_first(kind: Any) -> None:
    writer = MessagesStreamRenderer("msg_1", "m")
    frames: list[bytes] = []
    writer.append_frames([PartStart(index=3, kind=kind, id="c", name="f"), PartDelta(index=3, data="one")], frames)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MessagesStreamRenderer, "write", None)
        writer.append_frames([PartDelta(index=3, data='tw"o')], frames)
    one, two = (sse.parse(frame) for frame in frames[-2:])
    assert one is not None
    assert two == sse.Frame(one.data.replace(b"one", b'tw\\"o'), "content_block_delta")


def test_what_came_before_an_error_has_its_frames() -> None:
    frames: list[bytes] = []
    events = [PartStart(index=0, kind="text"), PartDelta(index=0, data="a"), StreamError(error=UpstreamError("no"))]
    with pytest.raises(UpstreamError):
        MessagesStreamRenderer("msg_1", "m").append_frames(events, frames)
    assert len(frames) == 3
