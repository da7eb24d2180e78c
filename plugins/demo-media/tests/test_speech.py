"""Speech: every file is decoded again; voices differ; length follows the text."""

from __future__ import annotations

import math
import wave
from array import array
from io import BytesIO

import av
import pytest

from tornado_gate_demo_media import espeak, formant, phonemes
from tornado_gate_demo_media.resample import resample
from tornado_gate_demo_media.speech import MEDIA_TYPES, SpeechOrder, make_speech, speak, split_sentences
from tornado_gate_demo_media.voices import SAMPLE_RATE, VOICES
from tornado_gate_local.errors import InvalidArgument

TEXT = "Hello there. This sentence is spoken by a machine."
NAMES = "Kore Aoede Charon Fenrir Puck Leda Orus Zephyr alloy ash ballad coral echo fable nova onyx sage shimmer verse"


@pytest.fixture(params=["espeak-ng", "formant"])
def backend(request, monkeypatch):
    if request.param == "formant":
        monkeypatch.setattr(espeak, "is_usable", lambda: False)
    return request.param


def samples_of(pcm: bytes) -> array[int]:
    samples = array("h")
    samples.frombytes(pcm)
    return samples


def loudness(samples) -> float:
    return math.sqrt(sum(value * value for value in samples) / len(samples))


def decoded(data: bytes) -> tuple[str, int, float]:
    """Codec, channels and seconds of a file, all of it decoded."""
    with av.open(BytesIO(data)) as container:
        stream = container.streams.audio[0]
        frames = list(container.decode(stream))
        seconds = sum(frame.samples / frame.sample_rate for frame in frames)
        return stream.codec_context.name, stream.codec_context.channels, seconds


@pytest.mark.parametrize(
    ("kind", "codec"), [("wav", "pcm_s16le"), ("mp3", "mp3"), ("opus", "opus"), ("aac", "aac"), ("flac", "flac")]
)
def test_every_format_can_be_decoded_and_is_as_long_as_it_says(kind, codec):
    sound = make_speech(SpeechOrder(text=TEXT, format=kind))
    name, channels, seconds = decoded(sound.data)
    assert name.startswith(codec)
    assert channels == 1
    assert seconds == pytest.approx(sound.seconds, abs=0.15)
    assert sound.media_type == MEDIA_TYPES[kind]
    assert sound.backend == "espeak-ng"


def test_pcm_is_16_bit_mono_at_24_khz_without_a_header():
    sound = make_speech(SpeechOrder(text=TEXT, format="pcm"))
    assert len(sound.data) == round(sound.seconds * SAMPLE_RATE) * 2
    assert not sound.data.startswith(b"RIFF")


def test_a_wav_says_what_is_in_it():
    sound = make_speech(SpeechOrder(text=TEXT))
    with wave.open(BytesIO(sound.data)) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, SAMPLE_RATE)
        assert file.getnframes() / SAMPLE_RATE == pytest.approx(sound.seconds)


def test_what_is_spoken_is_audible_and_has_pauses(backend):
    samples = samples_of(speak(TEXT))
    assert loudness(samples) > 800
    assert max(samples) <= 32_767
    pieces = [loudness(samples[at : at + 480]) for at in range(0, len(samples) - 480, 480)]
    assert min(pieces) < 0.1 * max(pieces)


def test_the_length_follows_the_text(backend):
    lengths = [len(speak("word and another word, " * count)) for count in (1, 4, 16)]
    assert lengths[1] > 2.5 * lengths[0]
    assert lengths[2] > 3 * lengths[1]


def test_speed_shortens_and_stretches(backend):
    usual = len(speak(TEXT))
    for speed in (0.25, 0.5, 2.0, 4.0):
        assert len(speak(TEXT, speed=speed)) == pytest.approx(usual / speed, rel=0.15)


def test_all_voices_that_are_promised_exist_in_any_case():
    for name in NAMES.split():
        assert name.lower() in VOICES
        assert speak("Hi", name)
    assert len(set(VOICES.values())) == len(VOICES)


def pitch(samples) -> float:
    """The pitch in Hz of the loudest tenth of a second, by autocorrelation."""
    size = SAMPLE_RATE // 10
    start = max(range(0, len(samples) - size, size // 2), key=lambda at: loudness(samples[at : at + size]))
    piece = list(samples[start : start + size : 2])
    lags = range(SAMPLE_RATE // 2 // 350, SAMPLE_RATE // 2 // 60)
    scores = {lag: sum(a * b for a, b in zip(piece, piece[lag:], strict=False)) for lag in lags}
    return SAMPLE_RATE / 2 / max(scores, key=scores.__getitem__)


def test_a_high_voice_is_higher_than_a_low_one(backend):
    high, low = (pitch(samples_of(speak("Ah, la la la, mama", voice))) for voice in ("shimmer", "onyx"))
    assert high > 1.3 * low


def test_voices_sound_different(backend):
    assert len({speak("One two three.", voice) for voice in VOICES}) == len(VOICES)


@pytest.mark.parametrize("text", ["...", "🦊", "a", "\0x\0", "<b>&amp;</b>", "[[h@'loU]]", "12:30", "\ud83d"])
def test_any_text_gives_some_sound(backend, text):
    assert len(speak(text)) >= 0.1 * SAMPLE_RATE * 2


@pytest.mark.parametrize(
    ("order", "param"),
    [
        (SpeechOrder(text=" \n"), "text"),
        (SpeechOrder(text="x" * 10_001), "text"),
        (SpeechOrder(text="x", voice="nobody"), "voice"),
        (SpeechOrder(text="x", speed=0.2), "speed"),
        (SpeechOrder(text="x", speed=4.1), "speed"),
        (SpeechOrder(text="x", speed=math.nan), "speed"),
        (SpeechOrder(text="x", format="midi"), "format"),
    ],
)
def test_an_order_that_cannot_be_met_is_refused_by_name(order, param):
    with pytest.raises(InvalidArgument) as refused:
        make_speech(order)
    assert refused.value.param == param


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Hello", "en-us"),
        ("Привет", "ru"),
        ("你好", "cmn"),
        ("漢字とかな", "ja"),
        ("안녕", "ko"),
        ("مرحبا", "ar"),
        ("שלום", "he"),
        ("नमस्ते", "hi"),
        ("γεια", "el"),
        ("สวัสดี", "th"),
        ("123 !?", "en-us"),
    ],
)
def test_the_script_says_which_language_is_spoken_and_it_can_be(text, language):
    assert espeak.detect_language(text) == language
    assert loudness(samples_of(speak(text))) > 100


def test_a_voice_that_the_library_lacks_is_an_error_and_no_silence():
    with pytest.raises(OSError, match="no voice"):
        espeak._load_library().speak(b"x", b"no such voice at all", 165, 50)
    assert speak("x")


@pytest.fixture
def broken_library(monkeypatch):
    """As where the library is installed in a place that it cannot read its data from."""

    def fail():
        raise OSError("eSpeak NG does not find its data")

    espeak.is_usable.cache_clear()
    monkeypatch.setattr(espeak, "_load_library", fail)
    yield
    espeak.is_usable.cache_clear()


def test_a_library_that_does_not_start_is_reported_and_done_without(broken_library, caplog):
    sound = make_speech(SpeechOrder(text=TEXT))
    assert sound.backend == "formant"
    assert loudness(samples_of(sound.data[44:])) > 800
    assert "cannot be initialised" in caplog.text


def test_the_own_synthesiser_always_says_the_same():
    assert formant.speak(TEXT, VOICES["alloy"], 1.0) == formant.speak(TEXT, VOICES["alloy"], 1.0)


def test_spelling_becomes_sounds():
    ship = phonemes.list_word_phonemes("ship")
    assert ship[0] is phonemes.CONSONANTS["sh"]
    assert phonemes.list_word_phonemes("letter") == phonemes.list_word_phonemes("leter")
    assert phonemes.list_word_phonemes("make") == phonemes.list_word_phonemes("mak")
    assert phonemes.list_phonemes("7") == phonemes.list_phonemes("seven")
    assert phonemes.list_phonemes("né") == phonemes.list_phonemes("ne")


@pytest.mark.parametrize("rate", [22_050, 16_000, 48_000])
def test_resampling_keeps_a_tone_and_its_length(rate):
    tone = array("h", [round(10_000 * math.sin(2 * math.pi * 440 * at / rate)) for at in range(rate // 2)])
    heard = resample(tone, rate)
    assert len(heard) == pytest.approx(SAMPLE_RATE / 2, abs=120)
    middle = heard[2_000:10_000]
    expected = [10_000 * math.sin(2 * math.pi * 440 * at / SAMPLE_RATE) for at in range(2_000, 10_000)]
    error = min(
        loudness([a - b for a, b in zip(middle[20:-20], expected[20 + shift : shift - 20 or None], strict=False)])
        for shift in range(-20, 20)
    )
    assert error < 700


def test_sentences_are_pieces_of_the_text():
    text = "One. Two! Is it three?\nFour, and a half. " + "no end " * 200
    pieces = split_sentences(text)
    assert "".join(pieces) == text
    assert pieces[:2] == ["One. ", "Two! "]
    assert max(map(len, pieces)) <= 310
    assert split_sentences("") == []
    assert "".join(split_sentences("...\n\n hi")) == "...\n\n hi"
