"""Values and parameters of headers of forms."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornado_gate.codec.header_parameters import parse_header_parameters


@pytest.mark.parametrize(
    ("header", "value", "parameters"),
    [
        (b"", b"", {}),
        (b"Form-Data", b"form-data", {}),
        (b"multipart/form-data; boundary=----x", b"multipart/form-data", {b"boundary": b"----x"}),
        (b'multipart/form-data ;Boundary="a b" ;x=y', b"multipart/form-data", {b"boundary": b"a b", b"x": b"y"}),
        (b'form-data; name="a;b"; filename="c=d.png"', b"form-data", {b"name": b"a;b", b"filename": b"c=d.png"}),
        (rb'form-data; name="a\"b\\c"', b"form-data", {b"name": rb'a"b\c'}),
        (rb'form-data; filename="C:\folder\photo.png"', b"form-data", {b"filename": b"photo.png"}),
        (rb'form-data; filename="\\\\server\photo.png"', b"form-data", {b"filename": b"photo.png"}),
        (b"form-data; filename*=UTF-8''x; filename=y", b"form-data", {b"filename": b"y"}),
        (b"form-data; filename=y; filename*=UTF-8''x", b"form-data", {b"filename": b"y"}),
        (b'form-data; name="never closed; filename=y', b"form-data", {b"name": b"never closed; filename=y"}),
        (b"form-data; name; filename=", b"form-data", {b"filename": b""}),
    ],
)  # fmt: skip
def test_the_value_and_the_parameters_are_read(header: bytes, value: bytes, parameters: dict[bytes, bytes]) -> None:
    assert parse_header_parameters(header) == (value, parameters)


@given(st.dictionaries(st.text("abcdefgh", min_size=1).map(str.encode), st.binary(max_size=20), max_size=4))
def test_quoted_parameters_are_read_as_they_were_written(parameters: dict[bytes, bytes]) -> None:
    quoted = {name: content.replace(b"\\", rb"\\").replace(b'"', rb"\"") for name, content in parameters.items()}
    header = b"form-data" + b"".join(b'; %s="%s"' % pair for pair in quoted.items())
    assert parse_header_parameters(header) == (b"form-data", parameters)


@given(st.binary(max_size=60))
def test_any_header_has_a_value_and_parameters(header: bytes) -> None:
    value, parameters = parse_header_parameters(header)
    assert value == header.partition(b";")[0].strip(b" \t").lower()
    assert not any(b"*" in name for name in parameters)
