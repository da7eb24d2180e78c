"""The verbatim lane's frames, however many come in one piece: those of a piece are worth what each alone is worth."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornado_gate.streams.passthrough import _Passthrough, split_last_frames
from tornado_gate.testing import call_to
from tornado_gate.types import VerbatimRequest
from tornado_gate_openai.format.stream_adapters import ADAPTERS
from tornado_gate_openai.format.verbatim import OpenAIForwardState
from tornado_gate_openai.wire import chat

TEXT = b'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}],"usage":null}\n\n'
REASON = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}\n\n'
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}\n\n'
WITH_USAGE = TEXT.replace(b'"usage":null', b'"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}')
COMMENT = b": ping\n\n"
DONE = b"data: [DONE]\n\n"
FRAMES = st.lists(st.sampled_from([TEXT, TEXT, TEXT, REASON, USAGE, WITH_USAGE, COMMENT, DONE]), max_size=14)


def passed(pieces: list[bytes], hide_usage: bool) -> tuple[bytes, object, str, bool]:
    """What the caller gets, what is noted, and whether it is over."""
    call = call_to()
    request = VerbatimRequest(
        wire_format="", operation="chat", path="/", raw=b"", body={}, stream=True, state=OpenAIForwardState(hide_usage)
    )
    step = _Passthrough(call, ADAPTERS[chat.WIRE_FORMAT], request, None)
    out: list[bytes] = []
    for piece in pieces:
        step.take([piece], out)
    return b"".join(out), call.meter.usage, call.meter.finish_reason, step._meter.done


@given(FRAMES, st.booleans())
def test_one_piece_gives_and_notes_what_its_frames_do_one_by_one(frames: list[bytes], hide_usage: bool) -> None:
    assert passed([b"".join([TEXT, *frames])], hide_usage) == passed([TEXT, *frames], hide_usage)


@given(FRAMES.filter(bool))
def test_the_last_frames_are_parted_at_a_border(frames: list[bytes]) -> None:
    rest, last = split_last_frames(b"".join(frames))

    count = min(len(frames), 3)
    assert (rest, b"".join(last)) in (
        (b"".join(frames[:-count]), b"".join(frames[-count:])),
        (b"", b"".join(frames)),
    )


@pytest.mark.parametrize("count", [5, 50])
def test_of_a_long_piece_only_the_last_frames_are_looked_at_alone(count: int) -> None:
    rest, last = split_last_frames(TEXT * count + DONE)

    assert rest == TEXT * (count - 2)
    assert last == [TEXT, TEXT, DONE]
