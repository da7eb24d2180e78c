"""Speech from a model that answers generateContent: the client half. Pure.

Models before Gemini 3.8 are told in the text itself how to speak ("Say cheerfully: …"); later ones read the text word for
word and have ``speechMetadata.style`` for that. Sound is raw samples or, in a whole answer of the later ones, a WAV file.

Source: https://ai.google.dev/gemini-api/docs/speech-generation, the vendor's migration guide for Gemini 3.8 TTS, and google-genai
3.4, types.SpeechConfig and SpeechMetadata.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from tornado_gate.errors import InvalidField, UpstreamError
from tornado_gate.types import Call, SpeechChunk, SpeechEnd, SpeechRequest, SpeechStart, StreamEvent, Usage
from tornado_gate.wire.gemini_generate.audio import DEFAULT_SAMPLE_RATE, extract_samples, make_wav_header
from tornado_gate.wire.gemini_generate.base64_slices import SLICE_BYTES, decode_in_slices
from tornado_gate.wire.gemini_generate.errors import find_error
from tornado_gate.wire.gemini_generate.image_client import no_output_error
from tornado_gate.wire.gemini_generate.json_values import drop_none, read_object, read_objects, read_string
from tornado_gate.wire.gemini_generate.names import convert_to_camel_case
from tornado_gate.wire.gemini_generate.usage import parse_finish_reason, parse_usage

VOICES: Final[Mapping[str, str]] = {
    "alloy": "Kore",
    "ash": "Orus",
    "ballad": "Puck",
    "cedar": "Charon",
    "coral": "Aoede",
    "echo": "Charon",
    "fable": "Puck",
    "marin": "Aoede",
    "nova": "Leda",
    "onyx": "Fenrir",
    "sage": "Kore",
    "shimmer": "Zephyr",
    "verse": "Orus",
}
"""Another vendor's voices and the nearest of Google's. Any other name goes up as it is."""

FORMATS: Final = (None, "wav", "pcm")


def render_speech_request(call: Call, request: SpeechRequest, *, styles: bool) -> dict[str, Any]:
    """The body. `styles` says that the model reads its text word for word, and takes a style beside it.

    Raises InvalidField for a file that cannot be made of raw samples.
    """
    if request.format not in FORMATS:
        name = request.field_name("format")
        raise InvalidField(
            name, f"'{name}' cannot be '{request.format}' with the model '{call.model}'; wav and pcm can."
        )
    if request.speed not in (None, 1):
        call.drop_field(request.field_name("speed"))
    if request.user is not None:
        call.drop_field(request.field_name("user"))
    for name, value in request.extra.items():
        if value is not None:
            call.drop_field(name)
    voice = request.voice and VOICES.get(request.voice.lower(), request.voice)
    speech = drop_none(
        voiceConfig={"prebuiltVoiceConfig": {"voiceName": voice}} if voice else None,
        languageCode=request.language,
    )
    config = drop_none(responseModalities=["AUDIO"], speechConfig=speech or None)
    return {"contents": [{"role": "user", "parts": [_render_text_part(request, styles)]}], "generationConfig": config}


def _render_text_part(request: SpeechRequest, styles: bool) -> dict[str, Any]:
    if not request.instructions:
        return {"text": request.text}
    if styles:
        return {"text": request.text, "speechMetadata": {"style": request.instructions}}
    return {"text": f"{request.instructions.rstrip(' .:')}: {request.text}"}


async def parse_speech_events(bodies: AsyncIterator[Any], *, wav: bool, whole: bool) -> AsyncIterator[StreamEvent]:
    """The events of the sound in one whole body, or in the chunks of a stream. With `wav` it becomes a WAV file.

    Raises the upstream's error, and for an answer without sound one that says why.
    """
    reader = _SpeechBodyReader()
    rate, held = 0, bytearray()
    async for body in bodies:
        for media_type, text in reader.read(body):
            found, samples = extract_samples(media_type, await decode_in_slices(text))
            if rate and found != rate:
                raise UpstreamError("The upstream changed the rate of its sound in the middle.")
            if not rate and samples:
                rate = found
                if not whole:
                    for event in _start_events(rate, wav, None):
                        yield event
            if whole:
                held += samples
            elif samples:
                yield SpeechChunk(data=samples)
    reader.check_end(rate > 0, whole)
    if whole:
        for event in _start_events(rate, wav, len(held)):
            yield event
        for start in range(0, len(held), SLICE_BYTES):
            yield SpeechChunk(data=bytes(held[start : start + SLICE_BYTES]))
    yield SpeechEnd(usage=reader.usage)


def _start_events(rate: int, wav: bool, size: int | None) -> list[StreamEvent]:
    if wav:
        return [SpeechStart(media_type="audio/wav"), SpeechChunk(data=make_wav_header(rate, size))]
    return [SpeechStart(media_type="audio/pcm" if rate == DEFAULT_SAMPLE_RATE else f"audio/L16;rate={rate}")]


class _SpeechBodyReader:
    """What the bodies of one answer say beside the sound."""

    def __init__(self) -> None:
        self.usage: Usage | None = None
        self._last: Mapping[str, Any] = {}
        self._finish = ""
        self._texts: list[str] = []

    def read(self, body: Any) -> list[tuple[str, str]]:
        """(media type, base64) of each piece of sound in a body. Raises the error that it is."""
        if (error := find_error(body)) is not None:
            raise error
        body = read_object(convert_to_camel_case(body))
        self.usage = parse_usage(body.get("usageMetadata")) or self.usage
        found: list[tuple[str, str]] = []
        for candidate in read_objects(body.get("candidates"))[:1]:
            self._finish = read_string(candidate.get("finishReason")) or self._finish
            for part in read_objects(read_object(candidate.get("content")).get("parts")):
                self._texts.append(read_string(part.get("text")))
                value = read_object(part.get("inlineData"))
                if read_string(value.get("mimeType")).startswith("audio/"):
                    found.append((read_string(value.get("mimeType")), read_string(value.get("data"))))
        if self._finish or body.get("promptFeedback") or not self._last:
            self._last = body
        return found

    def check_end(self, heard: bool, whole: bool) -> None:
        """Raises an error for an answer that is none, or was cut off."""
        if not heard or parse_finish_reason(self._finish) == "content_filter":
            raise no_output_error(self._last, "speech" if not heard else "whole speech", "".join(self._texts))
        if not whole and not self._finish:
            raise UpstreamError("The upstream's stream stopped before its end.")
