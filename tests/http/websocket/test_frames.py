"""Frames: what another implementation writes is read wherever it is cut, and what breaks the protocol is refused by its code."""

from __future__ import annotations

import struct
from collections.abc import Generator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode
from websockets.streams import StreamReader

from tornado_gate.http.websocket.frames import (
    BINARY,
    CLOSE,
    CONTINUATION,
    NO_CODE,
    PING,
    PONG,
    TEXT,
    FrameReader,
    Message,
    ProtocolError,
    make_close_payload,
    make_frame,
    parse_close_payload,
)

MOST = 1 << 20
SIZES = st.one_of(st.integers(0, 300), st.sampled_from([125, 126, 65535, 65536, 70000]))


def read(reader: FrameReader, *pieces: bytes) -> list[Message]:
    """All messages of what comes in pieces."""
    found = []
    for piece in pieces:
        reader.feed(piece)
        while (message := reader.read_message()) is not None:
            found.append(message)
    return [message for message in found if message[0] != CONTINUATION]


def raw(opcode: int, payload: bytes = b"", *, fin: bool = True, mask: bool = True) -> bytes:
    return Frame(Opcode(opcode), payload, fin).serialize(mask=mask)


@st.composite
def conversations(draw: st.DrawFn) -> tuple[list[tuple[int, bytes, bool]], list[Message]]:
    """Frames as (opcode, payload, final), with control frames among the parts of messages, and the messages they are."""
    frames: list[tuple[int, bytes, bool]] = []
    messages: list[Message] = []
    for _ in range(draw(st.integers(1, 5))):
        opcode = draw(st.sampled_from([TEXT, BINARY]))
        text = draw(st.text(max_size=5)) + "aé€😀"[draw(st.integers(0, 3))] * draw(SIZES)
        whole = text.encode()
        cuts = sorted(draw(st.lists(st.integers(0, len(whole)), max_size=3)))
        parts = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
        for number, part in enumerate(parts):
            frames.append((opcode if number == 0 else CONTINUATION, part, number == len(parts) - 1))
            if number < len(parts) - 1 and draw(st.booleans()):
                control = (draw(st.sampled_from([PING, PONG])), draw(st.binary(max_size=125)))
                frames.append((*control, True))
                messages.append(control)
        messages.append((opcode, text if opcode == TEXT else whole))
    return frames, messages


@given(conversations(), st.booleans(), st.data())
def test_what_another_implementation_writes_is_read_wherever_it_is_cut(
    conversation: tuple[list[tuple[int, bytes, bool]], list[Message]], masked: bool, data: st.DataObject
) -> None:
    frames, messages = conversation
    wire = b"".join(raw(opcode, payload, fin=final, mask=masked) for opcode, payload, final in frames)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(wire)), max_size=10)))
    pieces = [wire[start:end] for start, end in zip([0, *cuts], [*cuts, len(wire)], strict=True)]
    assert read(FrameReader(masked=masked, most=MOST), *pieces) == messages


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 65535, 65536, 100_000])
def test_what_is_written_is_read_by_another_implementation(size: int, masked: bool) -> None:
    payload = bytes(number % 251 for number in range(size))
    stream = StreamReader()
    stream.feed_data(make_frame(BINARY, payload, masked=masked))
    parsing: Generator[None, None, Frame] = Frame.parse(stream.read_exact, mask=masked)
    with pytest.raises(StopIteration) as ended:
        next(parsing)
    assert ended.value.value == Frame(Opcode.BINARY, payload)


def test_no_two_masks_are_the_same() -> None:
    masks = {make_frame(TEXT, b"", masked=True)[2:] for _ in range(5000)}
    assert len(masks) > 4990


@pytest.mark.parametrize("masked", [True, False])
def test_every_byte_may_come_alone(masked: bool) -> None:
    wire = raw(TEXT, b"x" * 300, mask=masked) + raw(PING, b"p", mask=masked)
    pieces = [wire[at : at + 1] for at in range(len(wire))]
    assert read(FrameReader(masked=masked, most=MOST), *pieces) == [(TEXT, "x" * 300), (PING, b"p")]


FAULTS = {
    "no mask from a client": (raw(TEXT, b"x", mask=False), 1002),
    "first reserved bit": (b"\xc1\x80" + bytes(4), 1002),
    "second reserved bit": (b"\xa1\x80" + bytes(4), 1002),
    "third reserved bit": (b"\x91\x80" + bytes(4), 1002),
    "unknown opcode": (b"\x83\x80" + bytes(4), 1002),
    "unknown control opcode": (b"\x8b\x80" + bytes(4), 1002),
    "divided ping": (b"\x09\x80" + bytes(4), 1002),
    "long ping": (b"\x89\xfe\x00\x7e" + bytes(4), 1002),
    "nothing to continue": (raw(CONTINUATION, b"x"), 1002),
    "a message within a message": (raw(TEXT, b"x", fin=False) + raw(TEXT, b"y"), 1002),
    "text that is not UTF-8": (raw(TEXT, b"\xff"), 1007),
    "text whose end is missing": (raw(TEXT, "é".encode()[:1]), 1007),
    "parts that are not UTF-8 together": (raw(TEXT, b"\xc3", fin=False) + raw(CONTINUATION, b"x"), 1007),
    "too big": (raw(TEXT, b"x" * 1001), 1009),
    "too big together": (raw(TEXT, b"x" * 900, fin=False) + raw(CONTINUATION, b"x" * 101), 1009),
    "announced as too big": (b"\x81\xff" + struct.pack("!Q", 1 << 40), 1009),
    "announced as negative": (b"\x81\xff" + b"\xff" * 8, 1009),
}


@pytest.mark.parametrize(("wire", "code"), FAULTS.values(), ids=FAULTS)
def test_what_breaks_the_protocol_is_refused(wire: bytes, code: int) -> None:
    with pytest.raises(ProtocolError) as caught:
        read(FrameReader(masked=True, most=1000), wire)
    assert caught.value.code == code
    assert caught.value.readable is (code != 1002)


def test_a_server_may_not_mask() -> None:
    with pytest.raises(ProtocolError) as caught:
        read(FrameReader(masked=False, most=1000), raw(TEXT, b"x", mask=True))
    assert caught.value.code == 1002


def test_parts_that_are_small_are_too_big_together() -> None:
    reader = FrameReader(masked=True, most=1000)
    read(reader, raw(TEXT, b"x" * 100, fin=False), *[raw(CONTINUATION, b"x" * 100, fin=False)] * 9)
    with pytest.raises(ProtocolError) as caught:
        read(reader, raw(CONTINUATION, b"x"))
    assert caught.value.code == 1009


@pytest.mark.parametrize("step", [1, 7, 100_000])
@pytest.mark.parametrize("parts", [1, 3])
def test_what_follows_a_message_that_is_too_big_is_still_read(parts: int, step: int) -> None:
    kinds = [TEXT, CONTINUATION, CONTINUATION][:parts]
    wire = b"".join(raw(kind, b"x" * 1001, fin=number == parts - 1) for number, kind in enumerate(kinds))
    wire += raw(PING, b"p") + raw(CLOSE, make_close_payload(1000))
    reader = FrameReader(masked=True, most=1000)
    found, faults = [], 0
    for at in range(0, len(wire), step):
        reader.feed(wire[at : at + step])
        while True:
            try:
                message = reader.read_message()
            except ProtocolError as fault:
                assert fault.code == 1009
                faults += 1
            else:
                if message is None:
                    break
                found.append(message)
    assert faults == parts
    assert found == [(PING, b"p"), (CLOSE, b"\x03\xe8")]


def test_what_follows_a_text_that_is_none_is_still_read() -> None:
    reader = FrameReader(masked=True, most=1000)
    reader.feed(raw(TEXT, b"\xff") + raw(CLOSE))
    with pytest.raises(ProtocolError):
        reader.read_message()
    assert reader.read_message() == (CLOSE, b"")


@pytest.mark.parametrize("code", [1000, 1003, 1007, 1014, 3000, 4999])
def test_a_goodbye_is_read_as_it_was_written(code: int) -> None:
    assert parse_close_payload(make_close_payload(code, "why é")) == (code, "why é")


def test_a_goodbye_without_a_code_has_none() -> None:
    assert make_close_payload(NO_CODE) == b""
    assert parse_close_payload(b"") == (NO_CODE, "")


def test_a_reason_that_is_too_long_is_cut_between_letters() -> None:
    payload = make_close_payload(1000, "é" * 100)
    assert len(payload) <= 125
    assert parse_close_payload(payload) == (1000, "é" * 61)


@pytest.mark.parametrize(
    ("payload", "code"),
    [
        (b"\x03", 1002),
        (struct.pack("!H", 999), 1002),
        (struct.pack("!H", 1004), 1002),
        (struct.pack("!H", 1005), 1002),
        (struct.pack("!H", 1006), 1002),
        (struct.pack("!H", 1015), 1002),
        (struct.pack("!H", 2999), 1002),
        (struct.pack("!H", 5000), 1002),
        (struct.pack("!H", 1000) + b"\xff", 1007),
    ],
    ids=["half", "999", "1004", "1005", "1006", "1015", "2999", "5000", "reason"],
)
def test_a_goodbye_that_may_not_be_said_is_refused(payload: bytes, code: int) -> None:
    with pytest.raises(ProtocolError) as caught:
        parse_close_payload(payload)
    assert caught.value.code == code
    assert not caught.value.readable
