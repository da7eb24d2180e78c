"""Speech through the hooks: every file is decoded again; streams begin before the end is spoken."""

from __future__ import annotations

import os
import wave
from io import BytesIO

import av
import pytest

import tornado_gate_local as local
from tornado_gate.errors import InvalidField
from tornado_gate.types import SpeechChunk, SpeechEnd, SpeechRequest, SpeechStart
from tornado_gate_demo_media import speech
from tornado_gate_demo_media.operations import speech as operation
from tornado_gate_demo_media.speech import (
    LANGUAGES,
    MEDIA_TYPES,
    OTHER_NAMES,
    PORTION_CHARACTERS,
    REGIONS,
    SpeechOrder,
    find_language_voice,
    iterate_portions,
    make_speech,
)
from tornado_gate_demo_media.voices import SAMPLE_RATE, VOICES
from tornado_gate_local.words import count_tokens
from tornado_gate_local.workers import POOL

TEXT = "Hello there. This sentence is spoken by a machine."
LONG = "The first sentence is short. " + "Then follow many others of about the same length. " * 30
NAMES = {"text": "input", "format": "response_format"}


def make_request(text: str = TEXT, **fields) -> SpeechRequest:
    return SpeechRequest(**{"model": "local-tts", "text": text, "names": NAMES, **fields})


@pytest.fixture
def spoken(work):
    """Media type, chunks and usage of an answer."""

    async def run(request: SpeechRequest):
        start, *chunks, end = await work(request)
        assert isinstance(start, SpeechStart)
        assert all(isinstance(chunk, SpeechChunk) for chunk in chunks)
        assert isinstance(end, SpeechEnd)
        return start.media_type, [chunk.data for chunk in chunks], end.usage

    return run


def decoded_seconds(data: bytes) -> tuple[float, int, str]:
    """How long a file plays, its rate and its codec."""
    with av.open(BytesIO(data)) as container:
        stream = container.streams.audio[0]
        samples = sum(frame.samples for frame in container.decode(stream))
        return samples / stream.rate, stream.rate, stream.codec_context.name


@pytest.mark.parametrize(
    ("name", "codecs", "rate"),
    [
        ("mp3", {"mp3", "mp3float"}, SAMPLE_RATE),
        ("opus", {"opus", "libopus"}, 48_000),
        ("aac", {"aac"}, SAMPLE_RATE),
        ("flac", {"flac"}, SAMPLE_RATE),
        ("wav", {"pcm_s16le"}, SAMPLE_RATE),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.gen_test(timeout=50)
async def test_a_file_is_what_its_name_says_and_as_long_as_the_words(spoken, name, codecs, rate, stream):
    media_type, chunks, usage = await spoken(make_request(format=name, stream=stream))
    seconds, found_rate, codec = decoded_seconds(b"".join(chunks))
    assert media_type == MEDIA_TYPES[name]
    assert (codec in codecs, found_rate) == (True, rate)
    assert 2 < seconds < 8
    assert usage.input_tokens == count_tokens([TEXT])
    assert abs(usage.output_tokens - seconds * 25) < 5


@pytest.mark.gen_test(timeout=50)
async def test_pcm_is_samples_and_nothing_else(spoken):
    media_type, chunks, _ = await spoken(make_request(format="pcm"))
    assert media_type == "audio/pcm"
    assert len(b"".join(chunks)) % 2 == 0
    assert 2 < len(b"".join(chunks)) / 2 / SAMPLE_RATE < 8


@pytest.mark.gen_test(timeout=50)
async def test_a_wav_file_that_comes_whole_says_how_long_it_is(spoken):
    _, chunks, _ = await spoken(make_request(format="wav"))
    with wave.open(BytesIO(b"".join(chunks))) as file:
        assert file.getframerate() == SAMPLE_RATE
        assert 44 + 2 * file.getnframes() == len(b"".join(chunks))


@pytest.mark.gen_test(timeout=50)
async def test_mp3_is_the_default_format(spoken):
    assert (await spoken(make_request()))[0] == "audio/mpeg"


@pytest.mark.parametrize("name", ["pcm", "wav"])
@pytest.mark.gen_test(timeout=50)
async def test_a_stream_begins_when_the_first_sentence_is_spoken(call, monkeypatch, name):
    said: list[str] = []

    class Pool:
        async def run(self, maker, order):
            said.append(order.text)
            return await POOL.run(maker, order)

    monkeypatch.setattr(operation, "POOL", Pool())
    request = make_request(LONG, format=name, stream=True)
    incoming = await local.call_upstream(call, await local.translate_request(call, request))
    assert said == []
    events = local.translate_response(call, request, incoming)
    assert isinstance(await anext(events), SpeechStart)
    assert isinstance(await anext(events), SpeechChunk)
    assert said == ["The first sentence is short. "]
    assert isinstance([event async for event in events][-1], SpeechEnd)
    assert "".join(said) == LONG


@pytest.mark.gen_test(timeout=50)
async def test_what_is_made_whole_is_sent_in_pieces(spoken):
    _, chunks, _ = await spoken(make_request(LONG, format="mp3"))
    assert len(chunks) > 3
    assert {len(chunk) for chunk in chunks[:-1]} == {64 * 1024}


@pytest.mark.gen_test(timeout=50)
async def test_speed_and_voice_are_heard(spoken):
    usual, fast, other = [
        b"".join((await spoken(make_request(format="pcm", **fields)))[1])
        for fields in ({}, {"speed": 2.0}, {"voice": "Charon"})
    ]
    assert 1.6 < len(usual) / len(fast) < 2.4
    assert other != usual


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"voice": "nobody"}, "voice"),
        ({"speed": 0.1}, "speed"),
        ({"speed": 4.5}, "speed"),
        ({"text": "  \n"}, "input"),
        ({"text": "a" * 10_001}, "input"),
        ({"format": "midi"}, "response_format"),
    ],
)
@pytest.mark.gen_test
async def test_what_cannot_be_spoken_is_refused_before_anything_is_made(refusal, fields, param):
    assert (await refusal(make_request(**fields))).param == param


@pytest.mark.gen_test
async def test_who_asks_for_an_unknown_voice_is_told_those_that_there_are(refusal):
    message = (await refusal(make_request(voice="nobody"))).message
    assert all(name in message for name in VOICES)


@pytest.mark.parametrize(
    ("fields", "lost"),
    [
        ({"instructions": "Speak like a pirate."}, ["instructions"]),
        ({"instructions": ""}, []),
        ({"language": "de-DE"}, []),
        ({"language": "tlh"}, ["languageCode"]),
        ({"user": "ann", "speed": 1.5, "stream": True}, []),
        ({"extra": {"speaker_gain": 3, "null": None}}, ["speaker_gain"]),
    ],
)
@pytest.mark.gen_test
async def test_what_has_no_effect_is_reported(call, fields, lost):
    await local.translate_request(call, make_request(**fields, names={"language": "languageCode"}))
    assert call.losses == lost


@pytest.mark.gen_test
async def test_a_strict_caller_gets_an_error_for_instructions(make_call):
    with pytest.raises(InvalidField) as caught:
        await local.translate_request(make_call(strict=True), make_request(instructions="Whisper."))
    assert caught.value.param == "instructions"


@pytest.mark.parametrize(
    ("tag", "name"),
    [
        ("de", "de"),
        ("de-AT", "de"),
        ("EN", "en-us"),
        ("en_GB", "en"),
        ("pt-BR", "pt-br"),
        ("zh-Hans-CN", "cmn"),
        ("cmn-CN", "cmn"),
        ("no", "nb"),
        ("xx", None),
        ("", None),
        ("klingon", None),
    ],
)
def test_a_tag_of_a_language_finds_its_speaker(tag, name):
    assert find_language_voice(tag) == name


@pytest.mark.gen_test(timeout=120)
async def test_every_language_that_is_offered_is_spoken():
    assert (await POOL.run(make_speech, SpeechOrder(text="123", format="pcm"))).backend == "espeak-ng"
    for language in sorted(LANGUAGES | set(OTHER_NAMES.values()) | set(REGIONS.values())):
        sound = await POOL.run(make_speech, SpeechOrder(text="123", format="pcm", language=language))
        assert sound.seconds > 0.2, language


@pytest.mark.gen_test(timeout=50)
async def test_another_language_takes_another_time_for_the_same_number(spoken):
    english, german = [
        len(b"".join((await spoken(make_request("777,777", format="pcm", language=language)))[1]))
        for language in ("en", "de")
    ]
    assert abs(english - german) > SAMPLE_RATE // 10


@pytest.mark.gen_test(timeout=50)
async def test_speaking_is_the_work_of_another_process(monkeypatch, spoken):
    monkeypatch.setattr(speech, "_make_samples", None)  # of this process: a call here would fail
    assert (await spoken(make_request(format="pcm")))[1]
    assert await POOL.run(os.getpid) != os.getpid()


@pytest.mark.parametrize(
    "text",
    [
        LONG,
        TEXT,
        "word " * 400,
        "x" * 2_000,
        "\n\n Well. \n\n",
        "Pi is 3.14159. So it is.",
        "今日は。" * 200,
        "a.b.c." * 300,
    ],
)
def test_portions_give_the_text_back_bounded_and_never_blank(text):
    found = list(iterate_portions(text))
    assert "".join(found) == text or "".join(found) == text.rstrip()
    assert all(portion.strip() for portion in found)
    assert max(map(len, found)) <= 3 * PORTION_CHARACTERS


def test_a_full_stop_inside_a_number_ends_no_sentence():
    assert next(iterate_portions("Pi is 3.14159. So it is.")) == "Pi is 3.14159. "


def test_a_sentence_without_end_is_cut_between_words():
    assert all(portion.endswith("word ") for portion in iterate_portions("word " * 400))
