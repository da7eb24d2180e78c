"""The short way of a delta that only brings text gives the events of the long one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tornado_gate.testing import iterate
from tornado_gate.types import PartDelta
from tornado_gate_anthropic.wire.messages import parse_stream, stream_parser

TEXTS = st.sampled_from(["", "{", "}", "words", None, 5])
INDEXES = st.sampled_from([0, 0, 1, None])
BLOCKS: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {"type": "text", "text": ""},
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "redacted_thinking", "data": "opaque"},
        {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"at": "sky"}},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
    ]
)
DELTAS: st.SearchStrategy[Any] = st.one_of(
    st.fixed_dictionaries({"type": st.just("text_delta"), "text": TEXTS}),
    st.fixed_dictionaries({"type": st.just("thinking_delta"), "thinking": TEXTS}),
    st.fixed_dictionaries({"type": st.just("input_json_delta"), "partial_json": st.sampled_from(["", "{}"])}),
    st.sampled_from([None, {}, {"type": 5}, {"type": "signature_delta", "signature": "signed"}]),
)
FRAMES: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.fixed_dictionaries({"type": st.just("content_block_start"), "index": INDEXES, "content_block": BLOCKS}),
    st.fixed_dictionaries({"type": st.just("content_block_delta"), "index": INDEXES, "delta": DELTAS}),
    st.fixed_dictionaries({"type": st.just("content_block_delta"), "index": INDEXES, "delta": DELTAS}),
    st.fixed_dictionaries({"type": st.just("content_block_stop"), "index": INDEXES}),
)
END = [{"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, {"type": "message_stop"}]
START = {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "toolu_1", "name": "f"}}


def parsed(frames: list[dict[str, Any]]) -> list[str]:
    async def collect() -> list[str]:
        told: list[str] = []
        try:
            async for event in parse_stream(iterate(frames)):
                told.append(repr(event))
        except Exception as error:
            told.append(repr(error))
        return told

    return asyncio.run(collect())


@given(frames=st.lists(FRAMES, max_size=10))
@example(frames=[START, {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}}])
def test_the_short_way_gives_the_events_of_the_long_one(frames: list[dict[str, Any]]) -> None:
    short = parsed([*frames, *END])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream_parser._MessagesStreamParser, "continue_text", lambda self, frame: None)
        assert parsed([*frames, *END]) == short


def test_the_arguments_of_a_call_are_taken_the_short_way() -> None:
    reader = stream_parser._MessagesStreamParser()
    list(reader.read(START))
    delta = {"type": "input_json_delta", "partial_json": '{"at":'}
    frame = {"type": "content_block_delta", "index": 0, "delta": delta}
    assert reader.continue_text(frame) == PartDelta(index=0, data='{"at":')
