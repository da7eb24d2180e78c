"""The short way of a chunk that only goes on with words gives the events of the long one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from plugins.openai.tests.wire.chat.streaming import chunk
from tornado_gate import sse
from tornado_gate.errors import UpstreamError
from tornado_gate.testing import iterate
from tornado_gate.types import PartDelta, StreamEvent
from tornado_gate_openai.wire.chat import parse_stream, stream_parser

WORDS = st.sampled_from(["", "a", "é\n", None])
CALL = {"index": 0, "id": "call_1", "function": {"name": "look", "arguments": "{}"}}
ENTRIES = [{"token": "a", "logprob": -1.0, "bytes": [97], "top_logprobs": []}]
DELTAS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "role": st.just("assistant"),
        "content": WORDS | st.sampled_from([[{"type": "text", "text": "b"}], 5]),
        "reasoning_content": WORDS,
        "reasoning": WORDS,
        "refusal": WORDS,
        "annotations": st.sampled_from([None, [], [{"type": "url_citation"}]]),
        "reasoning_details": st.sampled_from([None, [], [{"type": "reasoning.text"}]]),
        "tool_calls": st.sampled_from([None, [], [CALL]]),
        "audio": st.sampled_from([None, {}, {"id": "audio_1", "transcript": "c"}]),
        "unknown": WORDS,
    },
)
ENTRY: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"delta": DELTAS, "index": st.sampled_from([0, 0, 0, 1, None])},
    optional={
        "logprobs": st.sampled_from([None, {"content": ENTRIES}, {"content": []}]),
        "finish_reason": st.sampled_from([None, None, None, "", "stop"]),
        "usage": st.sampled_from([None, {"prompt_tokens": 1}]),
    },
)
USAGE: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "usage": st.sampled_from([None, {}, {"prompt_tokens": 2}]),
        "error": st.sampled_from([None, {}, {"message": "no"}]),
    },
)


def parsed(frames: Sequence[Any]) -> list[StreamEvent | str]:
    """The events, each as its representation: errors are equal to nothing but themselves."""

    async def collect() -> list[Any]:
        return [repr(event) async for event in parse_stream(iterate(frames))]

    return asyncio.run(collect())


@given(entries=st.lists(st.tuples(ENTRY, USAGE), max_size=8))
@example(entries=[({"index": 0, "delta": {"content": "a"}}, {})] * 2)
def test_the_short_way_gives_the_events_of_the_long_one(entries: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    frames = [{"id": "chatcmpl-1", "model": "m", "choices": [entry]} | more for entry, more in entries]
    short = parsed(frames)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream_parser._ChatStreamParser, "continue_text", lambda self, frame: None)
        assert parsed(frames) == short
    assert parsed([orjson.dumps(frame) for frame in frames]) == short


def test_texts_that_arrive_together_are_read_without_a_step_for_each() -> None:
    plain = [orjson.dumps(chunk({"content": text}, finish_reason=None)) for text in ("one", "two", 'th"ree')]
    reader = stream_parser._ChatStreamParser("")
    out: list[StreamEvent] = []
    reader.take(plain[:1], out)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream_parser._ChatStreamParser, "read", None)
        patch.setattr(stream_parser._ChatStreamParser, "continue_text", None)
        reader.take(plain[1:], out)
    assert out[-2:] == [PartDelta(index=0, data="two"), PartDelta(index=0, data='th"ree')]


def test_bytes_that_are_not_json_are_an_error_after_the_events_before_them() -> None:
    out: list[StreamEvent] = []
    with pytest.raises(UpstreamError, match=r"not valid JSON"):
        stream_parser._ChatStreamParser("", "up").take([orjson.dumps(chunk({"content": "one"})), b"{nothing"], out)
    assert PartDelta(index=0, data="one") in out


@pytest.mark.parametrize("value", [b"[" * 5000 + b"]" * 5000, b'"\xff"', b'"\\ud800"', b"01", b"NaN"])
def test_an_ignored_member_that_is_not_json_is_an_error_in_a_chunk_of_text_too(value: bytes) -> None:
    text = orjson.dumps(chunk({"content": "one"}))
    frames = [b"data: %b\n\n" % data for data in (text, text[:-1] + b',"unknown":%b}' % value)]

    async def parse(chunks: list[bytes]) -> list[StreamEvent]:
        return [event async for event in parse_stream(sse.read_data(iterate(chunks)))]

    for chunks in ([b"".join(frames)], frames):
        with pytest.raises(UpstreamError, match=r"not valid JSON"):
            asyncio.run(parse(chunks))


@pytest.mark.parametrize("name", ["content", "reasoning_content", "reasoning", "refusal"])
def test_more_words_of_a_part_are_taken_the_short_way(name: str) -> None:
    reader = stream_parser._ChatStreamParser("")
    list(reader.read(chunk({name: "one"})))
    assert reader.continue_text(chunk({"role": "assistant", name: "two", "tool_calls": None})) == PartDelta(
        index=0, data="two"
    )
