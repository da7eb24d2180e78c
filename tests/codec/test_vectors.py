"""Vectors: the same numbers as floats, as bytes and in base64; what is none is the upstream's fault."""

from __future__ import annotations

import base64
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornado_gate.codec.vectors import from_base64, pack_floats, to_base64, to_floats
from tornado_gate.errors import UpstreamError

NUMBERS = st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=50)
ONE_AND_MINUS_TWO = b"\0\0\x80\x3f\0\0\0\xc0"


def test_numbers_are_little_endian_floats_of_four_bytes() -> None:
    assert pack_floats([1.0, -2.0]) == ONE_AND_MINUS_TWO
    assert to_floats(ONE_AND_MINUS_TWO) == [1.0, -2.0]
    assert to_base64([1, -2]) == to_base64(ONE_AND_MINUS_TWO) == "AACAPwAAAMA="
    assert from_base64("AACAPwAAAMA=") == ONE_AND_MINUS_TWO


@given(numbers=NUMBERS)
def test_numbers_survive_every_way(numbers: list[float]) -> None:
    assert pack_floats(numbers) == struct.pack(f"<{len(numbers)}f", *numbers)
    assert to_floats(pack_floats(numbers)) == numbers
    assert to_floats(from_base64(to_base64(numbers))) == numbers
    assert to_base64(pack_floats(numbers)) == base64.b64encode(pack_floats(numbers)).decode()


def test_floats_stay_as_they_were_read() -> None:
    given_numbers = (0.1, 2, -3.5e-30)
    assert to_floats(given_numbers) == [0.1, 2, -3.5e-30]
    assert to_floats(pack_floats([0.1])) == [pytest.approx(0.1, abs=1e-8)]


def test_the_largest_floats_are_numbers_too() -> None:
    largest = [3.4028234663852886e38] * 4096
    assert to_floats(pack_floats(largest)) == largest


@pytest.mark.parametrize("vector", [[1e39], [10**400], ["a"], [None], [[1.0]], [1.0, {}]])
def test_what_no_float_holds_is_the_upstreams_fault(vector: Any) -> None:
    for write in (pack_floats, to_base64):
        with pytest.raises(UpstreamError):
            write(vector)


@pytest.mark.parametrize("data", [b"1", b"12345", pack_floats([float("nan"), 1.0]), pack_floats([1.0, float("inf")])])
def test_bytes_that_json_has_no_numbers_for_are_the_upstreams_fault(data: bytes) -> None:
    with pytest.raises(UpstreamError):
        to_floats(data)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "A",
        "AAAA",
        "AACAPw",
        "AACAPw=",
        "AACAPw==AACAPw==",
        "AACA Pw==",
        "AACA\nPw==",
        "*" * 8,
        "ÄÄÄÄÄÄÄÄ",
        None,
        5,
        [1.0],
    ],
)
def test_text_that_is_no_row_of_floats_is_the_upstreams_fault(text: Any) -> None:
    with pytest.raises(UpstreamError) as caught:
        from_base64(text)
    assert (caught.value.status, caught.value.retryable) == (502, True)


@given(text=st.text(max_size=40))
def test_any_text_is_a_row_of_floats_or_the_upstreams_fault(text: str) -> None:
    try:
        data = from_base64(text)
    except UpstreamError:
        return
    assert data
    assert len(data) % 4 == 0
