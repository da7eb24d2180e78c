"""Files inside bodies: base64 in slices, and sound with and without a header."""

from __future__ import annotations

import asyncio
import base64
import io
import wave
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornado_gate.errors import UpstreamError
from tornado_gate.types import Usage
from tornado_gate_gemini.wire.generate import parse_usage, render_usage
from tornado_gate_gemini.wire.generate.audio import extract_samples, make_wav_header
from tornado_gate_gemini.wire.generate.base64_slices import SLICE_BYTES, decode_in_slices, encode_in_slices


@pytest.mark.parametrize("size", [0, 1, 2, 3, SLICE_BYTES - 1, SLICE_BYTES, SLICE_BYTES + 1, 3 * SLICE_BYTES + 5])
def test_base64_in_slices_is_base64(size: int) -> None:
    data = bytes(number % 251 for number in range(size))
    text = asyncio.run(encode_in_slices(data))
    assert text == base64.b64encode(data).decode()
    assert asyncio.run(decode_in_slices(text)) == data


def test_base64_for_addresses_is_read_too() -> None:
    data = b"\xff\xfe\xfd" * 5 + b"\xff"
    assert asyncio.run(decode_in_slices(base64.urlsafe_b64encode(data).decode().rstrip("="))) == data


def test_others_go_on_while_a_large_file_is_written() -> None:
    turns: list[int] = []

    async def work() -> None:
        async def other() -> None:
            while True:
                turns.append(1)
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        await encode_in_slices(bytes(10 * SLICE_BYTES))
        await decode_in_slices("AAAA" * (10 * SLICE_BYTES // 4))
        task.cancel()

    asyncio.run(work())
    assert len(turns) >= 18


@pytest.mark.parametrize("text", ["%", "A", "AAAA=AAA", "ä"])
def test_what_is_no_base64_is_a_fault_of_the_upstream(text: str) -> None:
    with pytest.raises(UpstreamError):
        asyncio.run(decode_in_slices(text))


@given(samples=st.binary(max_size=64).map(lambda data: data[: len(data) // 2 * 2]), rate=st.integers(8000, 48_000))
def test_a_file_is_what_other_programs_read_and_write(samples: bytes, rate: int) -> None:
    with wave.open(io.BytesIO(make_wav_header(rate, len(samples)) + samples)) as read:
        assert (read.getframerate(), read.getnchannels(), read.getsampwidth()) == (rate, 1, 2)
        assert read.readframes(read.getnframes()) == samples
    file = io.BytesIO()
    with wave.open(file, "wb") as written:
        written.setnchannels(1)
        written.setsampwidth(2)
        written.setframerate(rate)
        written.writeframes(samples)
    assert extract_samples("audio/wav", file.getvalue()) == (rate, samples)


@given(data=st.binary(max_size=80))
def test_no_bytes_make_the_reader_of_files_fail_otherwise_than_cleanly(data: bytes) -> None:
    for begun in (data, b"RIFF\0\0\0\0WAVE" + data, b"RIFF\0\0\0\0WAVEfmt " + data):
        try:
            rate, samples = extract_samples("audio/wav", begun)
        except UpstreamError:
            continue
        assert rate > 0
        assert samples in begun


@pytest.mark.parametrize(
    ("details", "tokens"),
    [
        ([{"modality": "TEXT", "tokenCount": 2}, {"modality": "IMAGE", "tokenCount": 3}], 3),
        ([{"modality": "IMAGE", "tokenCount": 3}, {"modality": "IMAGE", "tokenCount": "4"}], 7),
        ([{"modality": "IMAGE"}], 0),
        ([{"modality": "TEXT", "tokenCount": 2}], None),
        ("none", None),
    ],
)
def test_what_pictures_took_of_the_prompt_is_known(details: Any, tokens: int | None) -> None:
    usage = parse_usage({"promptTokenCount": 9, "promptTokensDetails": details})
    assert usage is not None
    assert usage.image_tokens == tokens
    assert render_usage(usage)["promptTokensDetails"] == details


def test_what_pictures_took_is_told_when_another_vendor_counted() -> None:
    assert render_usage(Usage(input_tokens=9, output_tokens=0, image_tokens=4))["promptTokensDetails"] == [
        {"modality": "TEXT", "tokenCount": 5},
        {"modality": "IMAGE", "tokenCount": 4},
    ]
