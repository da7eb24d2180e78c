"""Speech. See `tornado_gate_demo_media.speech` for the sound.

A streaming request gets pcm and wav sentence by sentence; files of the other formats are encoded whole, as their
codecs need it, and sent in pieces.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from tornado_gate.types import Call, SpeechChunk, SpeechEnd, SpeechRequest, SpeechStart, StreamEvent, Usage
from tornado_gate.types.value import replace
from tornado_gate_demo_media.speech import (
    MEDIA_TYPES,
    OWN_FORMATS,
    SpeechOrder,
    check_order,
    find_language_voice,
    iterate_portions,
    make_endless_wav_header,
    make_speech,
)
from tornado_gate_demo_media.voices import SAMPLE_RATE
from tornado_gate_local.errors import InvalidArgument
from tornado_gate_local.operations.work import OperationWork, drop_unknown, make_field_error
from tornado_gate_local.words import count_tokens
from tornado_gate_local.workers import POOL

DEFAULT_VOICE: Final = "alloy"
PIECE_BYTES: Final = 64 * 1024
TOKENS_PER_SECOND: Final = 25
FIELDS: Final[dict[str, str]] = {}  # the names of arguments are those of the common types


@dataclass(frozen=True, slots=True)
class SpeechWork(OperationWork):
    request: SpeechRequest
    order: SpeechOrder

    async def events(self) -> AsyncIterator[StreamEvent]:
        """The start, the chunks and the usage of the speech. Raises InvalidField."""
        by_sentence = self.request.stream and self.order.format in OWN_FORMATS
        seconds = 0.0
        async for data, length in self._stream_by_sentence() if by_sentence else self._stream_whole():
            if not seconds:
                yield SpeechStart(media_type=MEDIA_TYPES[self.order.format])
            seconds += length
            for start in range(0, len(data), PIECE_BYTES):
                yield SpeechChunk(data=data[start : start + PIECE_BYTES])
        tokens = count_tokens([self.request.text])
        yield SpeechEnd(usage=Usage(input_tokens=tokens, output_tokens=math.ceil(seconds * TOKENS_PER_SECOND)))

    async def _stream_whole(self) -> AsyncIterator[tuple[bytes, float]]:
        """The file, and its duration in seconds."""
        try:
            sound = await POOL.run(make_speech, self.order)
        except InvalidArgument as error:
            raise make_field_error(self.request, error, FIELDS) from None
        yield sound.data, sound.seconds

    async def _stream_by_sentence(self) -> AsyncIterator[tuple[bytes, float]]:
        """The audio of each portion of the text, and its duration in seconds."""
        head = make_endless_wav_header() if self.order.format == "wav" else b""
        for portion in iterate_portions(self.order.text):
            sound = await POOL.run(make_speech, replace(self.order, text=portion, format="pcm"))
            yield head + sound.data, len(sound.data) / 2 / SAMPLE_RATE
            head = b""


def prepare(call: Call, request: SpeechRequest) -> SpeechWork:
    """Raises InvalidField for an unsupported text, voice, speed or format."""
    language = None if request.language is None else find_language_voice(request.language)
    order = SpeechOrder(
        text=request.text,
        voice=request.voice or DEFAULT_VOICE,
        speed=1.0 if request.speed is None else request.speed,
        format=request.format or "mp3",
        language=language,
    )
    try:
        check_order(order)
    except InvalidArgument as error:
        raise make_field_error(request, error, FIELDS) from None
    if request.instructions:
        call.drop_field(request.field_name("instructions"))
    if request.language is not None and language is None:
        call.drop_field(request.field_name("language"))
    drop_unknown(call, request)
    return SpeechWork(request, order)
