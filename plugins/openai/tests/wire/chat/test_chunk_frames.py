"""The frames of a stream, made the short way, are those of its chunks."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornado_gate import sse
from tornado_gate.types import Finish, PartDelta, PartEnd, PartStart, ResponseStart, StreamEvent
from tornado_gate_openai.wire.chat import ChatStreamRenderer

ENTRY = {"token": "a", "logprob": -1.0, "bytes": [97], "top_logprobs": []}
DELTAS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"data": st.sampled_from(["", "a", 'é"\\\n', b"", b"sound"])},
    optional={"logprobs": st.just((ENTRY,)), "transcript": st.just("t")},
)


@st.composite
def streams(draw: st.DrawFn) -> list[StreamEvent]:
    """Parts of all kinds and choices, open side by side."""
    extra = draw(st.sampled_from([{}, {"service_tier": "", "system_fingerprint": '""'}]))
    events: list[StreamEvent] = [ResponseStart(model="m", id="chatcmpl-1", created=5, extra=extra)]
    indexes = range(draw(st.integers(1, 4)))
    kinds: list[Any] = [draw(st.sampled_from(["text", "refusal", "thinking", "tool_call", "audio"])) for _ in indexes]
    for index in indexes:
        events.append(PartStart(index=index, kind=kinds[index], choice=draw(st.integers(0, 1)), id="c", name="f"))
        for _ in range(draw(st.integers(0, 5))):
            to = draw(st.integers(0, index))
            delta = draw(DELTAS)
            if isinstance(delta["data"], str) == (kinds[to] != "audio"):
                events.append(PartDelta(index=to, **delta))
    return [*events, *(PartEnd(index=index) for index in indexes), Finish(reason="stop")]


@given(streams(), st.booleans())
def test_the_short_way_gives_the_frames_of_the_long_one(events: list[StreamEvent], include_usage: bool) -> None:
    frames: list[bytes] = []
    ChatStreamRenderer("chatcmpl-0", "m", 7, include_usage).append_frames(events, frames)
    writer = ChatStreamRenderer("chatcmpl-0", "m", 7, include_usage)
    chunks = [writer.write(event) for event in events]
    assert b"".join(frames) == b"".join(sse.render_json(chunk) for chunk in chunks if chunk is not None)


@pytest.mark.parametrize("kind", ["text", "refusal", "thinking"])
def test_words_of_an_open_part_are_not_made_into_chunks_first(kind: Any) -> None:
    writer = ChatStreamRenderer("chatcmpl-0", "m", 7, True)
    frames: list[bytes] = []
    started = [PartStart(index=2, kind=kind), PartDelta(index=2, data="zero"), PartDelta(index=2, data="one")]
    writer.append_frames(started, frames)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ChatStreamRenderer, "write", None)
        writer.append_frames([PartDelta(index=2, data='tw"o')], frames)
    assert frames[-1] == frames[-2].replace(b"one", b'tw\\"o')
