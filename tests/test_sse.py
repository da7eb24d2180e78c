"""Server-sent events, however the bytes are cut."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornado_gate import sse
from tornado_gate.errors import UpstreamError
from tornado_gate.testing import chunks_of

STREAM = b': hello\n\ndata: {"a": 1}\n\nevent: ping\ndata: {"b":\ndata: 2}\n\ndata: [DONE]\n\n'


def frames(pieces: Iterable[bytes]) -> list[sse.Frame]:
    async def read() -> list[sse.Frame]:
        return [frame async for frame in sse.frames(chunks_of(pieces))]

    return asyncio.run(read())


def values(pieces: Iterable[bytes]) -> list[Any]:
    async def read() -> list[Any]:
        return [value async for value in sse.json_frames(chunks_of(pieces))]

    return asyncio.run(read())


EXPECTED = [sse.Frame(b'{"a": 1}'), sse.Frame(b'{"b":\n2}', "ping"), sse.Frame(b"[DONE]")]


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_all_three_line_ends_are_understood(line_end: bytes) -> None:
    assert frames([STREAM.replace(b"\n", line_end)]) == EXPECTED


@given(st.lists(st.integers(0, len(STREAM)), max_size=8), st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_cuts_anywhere_give_the_same_frames(cuts: list[int], line_end: bytes) -> None:
    stream = STREAM.replace(b"\n", line_end)
    borders = [0, *sorted(cuts), len(stream)]
    assert frames(stream[a:b] for a, b in pairwise(borders)) == EXPECTED


def test_one_byte_at_a_time_gives_the_same_frames() -> None:
    assert frames(bytes([byte]) for byte in STREAM.replace(b"\n", b"\r\n")) == EXPECTED


def test_a_last_frame_without_border_is_given() -> None:
    assert values([b'data: {"a": 1}']) == [{"a": 1}]


def test_values_end_at_done() -> None:
    assert values([STREAM, b'data: {"after": 1}\n\n']) == [{"a": 1}, {"b": 2}]


def test_a_byte_order_mark_is_dropped() -> None:
    assert values([b'\xef\xbb\xbfdata: {"a": 1}\n\n']) == [{"a": 1}]


def test_a_frame_that_is_no_json_is_the_upstreams_fault() -> None:
    with pytest.raises(UpstreamError):
        values([b"data: <html>\n\n"])


def test_a_frame_without_end_is_refused_before_it_fills_memory() -> None:
    splitter = sse.FrameSplitter()
    with pytest.raises(UpstreamError):
        for _ in range(20):
            splitter.feed(b"x" * 1024 * 1024)


@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_split_frames_join_to_the_stream_they_came_from(cuts: list[int]) -> None:
    borders = [0, *sorted(cuts), len(STREAM)]
    splitter = sse.FrameSplitter()
    raw = [frame for a, b in pairwise(borders) for frame in splitter.feed(STREAM[a:b])]
    assert b"".join(raw) + splitter.rest() == STREAM


def test_a_rendered_frame_is_parsed_back() -> None:
    assert sse.parse(sse.render_json({"a": "\n"}, "name")) == sse.Frame(b'{"a":"\\n"}', "name")
