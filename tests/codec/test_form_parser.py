"""Forms are split into parts in few steps, whatever their content imitates."""

from __future__ import annotations

import pytest

from tornado_gate.codec.form_parser import MAX_HEADER_BYTES, MAX_PARTS, FormParser
from tornado_gate.errors import RequestError, TooLarge

HEAD = b'--b0\r\nContent-Disposition: form-data; name="f"\r\n\r\n'
END = b"\r\n--b0--\r\n"
PIECE = 64 * 1024


class Sink:
    def __init__(self) -> None:
        self.data: list[bytes] = []
        self.parts: list[dict[bytes, bytes]] = []
        self.ended = 0

    def on_part(self, headers: dict[bytes, bytes]) -> None:
        self.parts.append(headers)

    def on_data(self, data: memoryview) -> None:
        self.data.append(bytes(data))

    def on_part_end(self) -> None:
        self.ended += 1


def parse(body: bytes, piece: int = PIECE) -> tuple[Sink, FormParser]:
    sink = Sink()
    parser = FormParser(b"b0", sink)
    for start in range(0, len(body), piece):
        parser.write(body[start : start + piece])
    return sink, parser


@pytest.mark.parametrize(
    "unit", [b"\r\n--b", b"\r\n--b0x", b"\r\n--b0-", b"\r\n--b0\r", b"\r\n", b"\r", b"-", b"\r\n--b0\n", b"--b0\n"]
)
def test_content_that_imitates_borders_is_one_piece_for_each_read(unit: bytes) -> None:
    content = unit * (1_000_000 // len(unit)) + b"."
    sink, parser = parse(HEAD + content + END)
    assert parser.is_complete
    assert b"".join(sink.data) == content
    assert len(sink.data) <= len(content) // PIECE + 2
    assert sink.ended == 1


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 1000])
def test_parts_are_the_same_however_they_are_cut(piece: int) -> None:
    body = (
        b"before"
        + b"\r\n"
        + HEAD
        + b"one\r\n--b0 \r\n"
        + b"\r\n"
        + HEAD
        + b"\r\n"
        + HEAD
        + b"\r\n\r\n"
        + END
        + b"after"
    )
    sink, parser = parse(body, piece)
    assert parser.is_complete
    assert b"".join(sink.data) == b"one\r\n--b0 \r\n" + b"\r\n\r\n"
    assert sink.parts == [{b"content-disposition": b'form-data; name="f"'}] * 3
    assert sink.ended == 3


def test_nothing_is_held_but_a_possible_border() -> None:
    parser = FormParser(b"b0", Sink())
    parser.write(HEAD)
    for unit in (b"x", b"\r\n--b", b"\r\n--b0x"):
        for _ in range(50):
            parser.write(unit * 1000)
            assert len(parser._held) < len(b"\r\n--b0") + 2


@pytest.mark.parametrize("piece", [7, PIECE])
def test_headers_and_parts_are_limited(piece: int) -> None:
    with pytest.raises(TooLarge):
        parse(b"--b0\r\nX: " + b"y" * (MAX_HEADER_BYTES + 10) + b"\r\n\r\n", piece)
    with pytest.raises(TooLarge):
        parse((HEAD + b"\r\n") * (MAX_PARTS + 1) + END, piece)


@pytest.mark.parametrize(
    "line", [b"no colon", b": no name", b"a b: c", b" folded: x", b"X: a\nb", b"X: a\rb", b"X: \0"]
)
def test_a_header_line_that_is_none_is_refused(line: bytes) -> None:
    with pytest.raises(RequestError) as caught:
        parse(b"--b0\r\n" + line + b"\r\n\r\n" + END)
    assert caught.value.code == "invalid_form"
