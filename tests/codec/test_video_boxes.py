"""Where an MP4 may end, whatever pieces it arrives in."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from tornado_gate.codec.video_boxes import BoxFollower


def make_box(kind: bytes, content: bytes) -> bytes:
    return (8 + len(content)).to_bytes(4) + kind + content


def make_large_box(kind: bytes, content: bytes) -> bytes:
    return (1).to_bytes(4) + kind + (16 + len(content)).to_bytes(8) + content


TYPE = make_box(b"ftyp", b"isom\0\0\2\0isomiso2")
BOXES = (TYPE, make_box(b"free", b""), make_large_box(b"mdat", bytes(70)), make_box(b"moov", bytes(range(40))))
FILE = b"".join(BOXES)
ENDS = {sum(map(len, BOXES[:count])) for count in range(len(BOXES) + 1)}


def is_cut(data: bytes, piece: int) -> bool:
    follower = BoxFollower()
    for start in range(0, len(data), piece):
        follower.take(data[start : start + piece])
    return follower.is_cut


@given(st.integers(0, len(FILE)), st.integers(1, len(FILE)))
@example(len(FILE) - 1, 1)
@example(len(FILE), 7)
def test_a_file_is_cut_unless_it_ends_with_a_box(size: int, piece: int) -> None:
    begun = max(end for end in ENDS if end <= size)
    head = 16 if begun == len(TYPE) + 8 else 8
    assert is_cut(FILE[:size], piece) == (size not in ENDS and size - begun >= head)


@given(st.binary(max_size=200), st.integers(1, 50))
def test_no_data_behind_the_known_boxes_makes_a_file_cut(data: bytes, piece: int) -> None:
    for unknown in (b"\0\0\0\x10junk", b"\0\0\0\x02free", b"\0\0\0\0mdat", b"\0\0\0\x01free\0\0\0\0\0\0\0\x05"):
        assert not is_cut(FILE + unknown + data, piece)


@given(st.lists(st.binary(max_size=40)))
def test_any_bytes_can_be_followed(pieces: list[bytes]) -> None:
    follower = BoxFollower()
    for piece in pieces:
        follower.take(piece)
    assert follower.is_cut in (True, False)
