"""Speech requests for models with generateContent: the client half. Pure.

Models before Gemini 3.8 take speaking instructions in the text ("Say cheerfully: …"); later ones read the text verbatim and
take ``speechMetadata.style``. Audio is raw samples or, in a whole response of later models, a WAV file.

Source: https://ai.google.dev/gemini-api/docs/speech-generation, the vendor's migration guide for Gemini 3.8 TTS, and google-genai
3.4, types.SpeechConfig and SpeechMetadata.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from tornado_gate.errors import InvalidField, UpstreamError
from tornado_gate.types import Call, SpeechChunk, SpeechEnd, SpeechRequest, SpeechStart, StreamEvent, Usage
from tornado_gate_gemini.wire.generate.audio import DEFAULT_SAMPLE_RATE, extract_samples, make_wav_header
from tornado_gate_gemini.wire.generate.base64_slices import SLICE_BYTES, decode_in_slices
from tornado_gate_gemini.wire.generate.errors import find_error
from tornado_gate_gemini.wire.generate.image_client import no_output_error
from tornado_gate_gemini.wire.generate.json_values import drop_none, read_object, read_objects, read_string
from tornado_gate_gemini.wire.generate.names import convert_to_camel_case
from tornado_gate_gemini.wire.generate.usage import parse_finish_reason, parse_usage

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
"""By another vendor's voice: the most similar Google voice. Other names are sent unchanged."""

FORMATS: Final = (None, "wav", "pcm")


def render_speech_request(call: Call, request: SpeechRequest, *, styles: bool) -> dict[str, Any]:
    """The request body. `styles` is True when the model reads the text verbatim and takes the style separately.

    Raises InvalidField for an audio format that cannot be made from raw samples.
    """
    if request.format not in FORMATS:
        name = request.field_name("format")
        raise InvalidField(
            name, f"'{name}' cannot be '{request.format}' for the model '{call.model}'. Use 'wav' or 'pcm'."
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
    """The audio events of one whole body, or of the chunks of a stream. With `wav` the audio is a WAV file.

    Raises the upstream's error, and an error with the upstream's reason for a response without audio.
    """
    reader = _SpeechBodyReader()
    rate, held = 0, bytearray()
    async for body in bodies:
        for media_type, text in reader.read(body):
            audio_type, samples = extract_samples(media_type, await decode_in_slices(text))
            if rate and audio_type != rate:
                raise UpstreamError(
                    "The upstream changed the audio sample rate within one response. Retry the request."
                )
            if not rate and samples:
                rate = audio_type
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
    """The text, usage and finish reason of one response, from its bodies."""

    def __init__(self) -> None:
        self.usage: Usage | None = None
        self._last: Mapping[str, Any] = {}
        self._finish = ""
        self._texts: list[str] = []

    def read(self, body: Any) -> list[tuple[str, str]]:
        """(media type, base64) of each piece of audio in a body. Raises the upstream's error."""
        if (error := find_error(body)) is not None:
            raise error
        body = read_object(convert_to_camel_case(body))
        self.usage = parse_usage(body.get("usageMetadata")) or self.usage
        sounds: list[tuple[str, str]] = []
        for candidate in read_objects(body.get("candidates"))[:1]:
            self._finish = read_string(candidate.get("finishReason")) or self._finish
            for part in read_objects(read_object(candidate.get("content")).get("parts")):
                self._texts.append(read_string(part.get("text")))
                value = read_object(part.get("inlineData"))
                if read_string(value.get("mimeType")).startswith("audio/"):
                    sounds.append((read_string(value.get("mimeType")), read_string(value.get("data"))))
        if self._finish or body.get("promptFeedback") or not self._last:
            self._last = body
        return sounds

    def check_end(self, heard: bool, whole: bool) -> None:
        """Raise an error for a response without audio, a filtered response, or a truncated stream."""
        if not heard or parse_finish_reason(self._finish) == "content_filter":
            raise no_output_error(self._last, "audio" if not heard else "complete audio", "".join(self._texts))
        if not whole and not self._finish:
            raise UpstreamError("The upstream ended the stream without a finish reason. Retry the request.")
