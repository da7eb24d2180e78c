"""Sound itself: lengths, loudness, G.711."""

from __future__ import annotations

import io
import math
import wave
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.realtime.voice.sessions import silence, tone
from tornado_gate_openai.voice import audio
from tornado_gate_openai.voice.audio import ALAW, PCM, ULAW


def test_a_wav_file_holds_the_sound():
    with wave.open(io.BytesIO(audio.to_wav(tone(250)))) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, 24_000)
        assert file.readframes(10_000) == tone(250)


def test_loudness_is_that_of_a_sine():
    assert audio.measure_level(tone(500, loudness=0.5)) == pytest.approx(0.5 / math.sqrt(2), rel=0.02)
    assert audio.to_decibels(audio.measure_level(tone(500, loudness=0.5))) == pytest.approx(-9, abs=0.5)
    assert audio.to_decibels(audio.measure_level(silence(100))) == audio.to_decibels(0) == -96
    assert audio.measure_level(b"") == 0


@pytest.mark.parametrize(
    ("kind", "code", "value"),
    [
        (ULAW, 0xFF, 0),
        (ULAW, 0x7F, 0),
        (ULAW, 0x80, 32124),
        (ULAW, 0x00, -32124),
        (ULAW, 0xF0, 120),
        (ALAW, 0xD5, 8),
        (ALAW, 0x55, -8),
        (ALAW, 0xAA, 32256),
        (ALAW, 0x2A, -32256),
        (ALAW, 0xC5, 264),
    ],
)
def test_the_tables_are_those_of_the_standard(kind: str, code: int, value: int):
    assert audio.read_samples(audio.decode(bytes([code]), kind))[0] == value


@pytest.mark.parametrize("kind", [ULAW, ALAW])
def test_every_code_comes_back(kind: str):
    for code in range(256):
        pcm = audio.decode(bytes([code]) * 8, kind)
        again = audio.read_samples(audio.decode(audio.encode(pcm, kind), kind))[0]
        assert again == audio.read_samples(pcm)[0]


@pytest.mark.parametrize("kind", [ULAW, ALAW])
@given(st.lists(st.integers(-32_768, 32_767), min_size=1, max_size=20))
def test_a_sound_is_nearly_the_same_after_the_telephone(kind: str, values: list[int]):
    pcm = audio.write_samples(array("h", [value for value in values for _ in range(3)]))
    heard = audio.read_samples(audio.decode(audio.encode(pcm, kind), kind))[::3]
    assert all(abs(a - b) <= max(16, abs(a) / 12) + 40 for a, b in zip(values, heard, strict=True))


def test_pcm_stays_as_it_is():
    assert audio.decode(b"ab", PCM) == audio.encode(b"ab", PCM) == b"ab"


def test_a_tone_sounds_the_same_through_the_telephone():
    there = audio.encode(tone(500, hertz=300), ULAW)
    assert len(there) == 4000
    assert audio.measure_level(audio.decode(there, ULAW)) == pytest.approx(
        audio.measure_level(tone(500, hertz=300)), rel=0.05
    )


def test_times_and_bytes_agree():
    assert (audio.compute_milliseconds(48_000), audio.compute_bytes(1000), audio.compute_bytes(-1)) == (1000, 48_000, 0)
    assert all(audio.compute_bytes(ms) % 2 == 0 for ms in range(50))
