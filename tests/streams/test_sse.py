"""Server-sent events, however the bytes are cut."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornado_gate import sse
from tornado_gate.errors import UpstreamError
from tornado_gate.streams import batches, stages
from tornado_gate.testing import chunks_of

STREAM = b': hello\n\ndata: {"a": 1}\n\nevent: ping\ndata: {"b":\ndata: 2}\n\ndata: [DONE]\n\n'


def frames(pieces: Iterable[bytes]) -> list[sse.Frame]:
    async def read() -> list[sse.Frame]:
        return [frame async for frame in sse.read_frames(chunks_of(pieces))]

    return asyncio.run(read())


def values(pieces: Iterable[bytes]) -> list[Any]:
    async def read() -> list[Any]:
        return [value async for value in sse.read_json_frames(chunks_of(pieces))]

    return asyncio.run(read())


@given(
    st.lists(st.sampled_from([b"data: ", b"data:", b'{"a": 1}', b"1", b"x", b"\n", b"\r", b" ", b": c"]), max_size=8)
)
def test_the_value_of_a_frame_is_that_of_its_data(pieces: list[bytes]) -> None:
    raw = b"".join(pieces)
    frame = sse.parse(raw)
    try:
        expected = None if frame is None else orjson.loads(frame.data)
    except orjson.JSONDecodeError:
        expected = None
    assert sse.parse_json(raw) == expected


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
    assert b"".join(raw) + splitter.flush() == STREAM


def test_a_rendered_frame_is_parsed_back() -> None:
    assert sse.parse(sse.render_json({"a": "\n"}, "name")) == sse.Frame(b'{"a":"\\n"}', "name")


@given(st.lists(st.integers(0, len(STREAM)), max_size=8), st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_frames_taken_in_one_piece_are_whole(cuts: list[int], line_end: bytes) -> None:
    stream = STREAM.replace(b"\n", line_end)
    borders = [0, *sorted(cuts), len(stream)]
    splitter = sse.FrameSplitter()
    taken = [splitter.take(stream[a:b]) for a, b in pairwise(borders)]
    assert b"".join(taken) + splitter.flush() == stream
    assert all(piece.endswith(line_end * 2) for piece in taken if piece)
    split = [frame for piece in taken for frame in sse.split(piece)]
    assert [frame for raw in split if (frame := sse.parse(raw)) is not None] == EXPECTED[: len(split) - 1]


def test_a_chunk_that_ends_a_frame_is_taken_as_it_came() -> None:
    splitter = sse.FrameSplitter()
    assert splitter.take(STREAM) is STREAM
    assert splitter.take(b"data: 1") == b""
    assert splitter.take(b"\n\ndata: 2\n") == b"data: 1\n\n"
    assert splitter.take(b"\n") == b"data: 2\n\n"
    assert splitter.flush() == b""


def test_empty_lines_beyond_a_border_are_lost_nowhere() -> None:
    pieces = [b"data: 1\n\n\n", b"\n", b"\r\ndata: 2\n\r\n", b"data: 3\r\n\n\n"]
    splitter = sse.FrameSplitter()
    raw = [frame for piece in pieces for frame in splitter.feed(piece)]
    assert b"".join(raw) + splitter.flush() == b"".join(pieces)
    assert [frame.data for part in raw if (frame := sse.parse(part)) is not None] == [b"1", b"2", b"3"]


@pytest.mark.parametrize("ending", [b"", b"\n", b"\r\n", b"\n\n", b"\r\n\r\n", b"\r\r"])
@pytest.mark.parametrize(
    ("raw", "frame"),
    [
        (b"data: x", sse.Frame(b"x")),
        (b"data: ", sse.Frame(b"")),
        (b"data:x", sse.Frame(b"x")),
        (b"data: x\ndata: y", sse.Frame(b"x\ny")),
        (b"data: x\revent: e", sse.Frame(b"x", "e")),
        (b"data: x\r\nid: 1", sse.Frame(b"x")),
        (b": data: x", None),
    ],
)
def test_a_frame_is_read_with_any_border(raw: bytes, ending: bytes, frame: sse.Frame | None) -> None:
    assert sse.parse(raw + ending) == frame


@given(
    st.lists(st.sampled_from([b"data: {}", b": ping", b"event: a\ndata: 1", b"data: x\r\ndata: y"]), min_size=1),
    st.data(),
)
def test_frames_in_one_piece_may_be_taken_apart_anywhere_between_them(frames: list[bytes], data: st.DataObject) -> None:
    borders = [data.draw(st.sampled_from([b"\n\n", b"\r\n\r\n", b"\n\n\n"])) for _ in frames]
    piece = b"".join(frame + border for frame, border in zip(frames, borders, strict=True))
    first, others = sse.split_first_frame(piece)
    assert [first, *sse.split(others)] == sse.split(piece) if others else [first] == sse.split(piece)


NAMED = b'event: a\ndata: {"a": 1}\n\n: ping\n\ndata: {"b": 2}\n\n\nevent: c\ndata: {"c":\ndata: 3}\n\ndata:[4]\n\nevent: d\n\n'


@given(st.lists(st.integers(0, len(NAMED)), max_size=8), st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_cuts_anywhere_give_the_same_values(cuts: list[int], line_end: bytes) -> None:
    stream = NAMED.replace(b"\n", line_end)
    borders = [0, *sorted(cuts), len(stream)]
    assert values(stream[a:b] for a, b in pairwise(borders)) == [{"a": 1}, {"b": 2}, {"c": 3}, [4]]


def test_values_that_came_in_one_piece_come_in_one_batch() -> None:
    async def read() -> list[list[Any]]:
        pieces = chunks_of([b"data: 1\n\ndata: 2\n\ndat", b"a: 3\n\n"])
        return [batch async for batch in batches.iterate_batches(sse.read_json_frames(pieces))]

    assert asyncio.run(read()) == [[1, 2], [3]]


def test_values_before_one_that_is_no_json_are_given() -> None:
    async def read() -> list[Any]:
        seen: list[Any] = []
        with pytest.raises(UpstreamError):
            async for value in sse.read_json_frames(chunks_of([b"data: 1\n\ndata: <html>\n\ndata: 2\n\n"])):
                seen.append(value)
        return seen

    assert asyncio.run(read()) == [1]


class Threads(stages.Step[Any, Any]):
    """Notes in which threads it is used."""

    takes_large = True

    def __init__(self) -> None:
        self.names: list[str] = []

    def take(self, items: list[Any], out: list[Any]) -> None:
        self.names += [threading.current_thread().name] * len(items)
        out += items


@pytest.mark.parametrize("size", [10, stages.LARGE_BYTES])
def test_only_a_large_event_is_parsed_in_a_thread_and_the_values_are_the_same(size: int) -> None:
    text = "long " * (size // 5)
    stream = b'event: a\ndata: {"a": 1}\n\n' + sse.render_json({"b": text}, "b") + b'data: {"c": 3}\n\ndata: [DONE]\n\n'
    pieces = [stream[start : start + 65_536] for start in range(0, len(stream), 65_536)]
    threads = Threads()

    async def read() -> list[Any]:
        return [value async for value in stages.add_step(sse.read_json_frames(chunks_of(pieces)), threads)]

    assert asyncio.run(read()) == [{"a": 1}, {"b": text}, {"c": 3}]
    here = threading.current_thread().name
    assert (threads.names[1] != here) == (size > 10)


def test_borders_are_found_without_a_pattern_as_with_it() -> None:
    for joined in (b"a\n\nb\n\n", b"a\n\n\n\nb\n\n\n", b"\n\n", b"a\n\n\nb\n\n", b"a", b""):
        with_pattern = sse.split(joined.replace(b"\n", b"\r\n"))
        assert sse.split(joined) == [frame.replace(b"\r\n", b"\n") for frame in with_pattern], joined
