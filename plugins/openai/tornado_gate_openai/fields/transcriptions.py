"""The forms of transcriptions and translations, the texts of their responses, and the descriptions of their routes.

Source: openai-python 3.52, types/audio/transcription_create_params.py, translation_create_params.py and transcription.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.codec.checks import raise_invalid
from tornado_gate.codec.fields import (
    Array,
    BodySchema,
    File,
    FormText,
    FunctionField,
    String,
    check,
    get_schema,
    make_shape,
)
from tornado_gate.types import JsonSchema, RouteDescription, RouteExample
from tornado_gate.types.text_maps import MEDIA, TEXT, WORD, Derived, Events, Object, Shape, Text, TextMap, words
from tornado_gate.wire.text_shapes import ERROR, USAGE
from tornado_gate_openai.fields import json_schemas
from tornado_gate_openai.fields.json_schemas import make_object
from tornado_gate_openai.wire.transcriptions import RESPONSE_FORMATS

GRANULARITIES: Final = ("word", "segment")


def _check_temperature(value: Any) -> None:
    if isinstance(value, list):
        raise_invalid("temperature", "must be sent only once")
    try:
        number = float(value) if value.isascii() and "_" not in value else math.nan
    except ValueError:
        number = math.nan
    if not 0 <= number <= 1:
        raise_invalid("temperature", f"must be a number from 0 to 1, not '{value[:50]}'")


class TranscriptionFormSchema(BodySchema):
    """The form of ``POST /v1/audio/transcriptions``."""

    model = FormText(filled=True, text=WORD, description="The name of a model of this gateway.")
    file = File(needed=True, description="A sound file.")
    response_format = FormText(choices=RESPONSE_FORMATS, text=WORD)
    stream = FormText(choices=("true", "false"), text=WORD)
    language = FormText(filled=True, text=WORD)
    prompt = FormText(text=Text(kind="user"))
    temperature = FunctionField(
        _check_temperature, text=WORD, description="A number from 0 to 1.", keywords={"type": "string"}
    )
    timestamp_granularities = Array(String(choices=GRANULARITIES), text=WORD)
    chunking_strategy = FormText(text=WORD)
    include = Array(String(), text=WORD)
    keywords = Array(String())
    languages = Array(String())
    known_speaker_names = Array(String())
    known_speaker_references = Array(String(), text=MEDIA)


class TranslationFormSchema(TranscriptionFormSchema):
    """The form of ``POST /v1/audio/translations``, whose responses have no labels of speakers."""

    response_format = FormText(choices=RESPONSE_FORMATS[:-1], text=WORD)


_TRANSCRIPTION_SCHEMA: Final = get_schema(TranscriptionFormSchema)
_TRANSLATION_SCHEMA: Final = get_schema(TranslationFormSchema)

_SEGMENT: Final = Object(kind="assistant", members={**words("id", "type", "speaker"), "text": TEXT, "word": TEXT})
_SPOKEN: Final[dict[str, Shape]] = {
    **words("type", "task", "language", "event_id", "segment_id"),
    "text": Text(kind="assistant"),
    "transcript": Text(kind="assistant"),
    "segments": _SEGMENT,
    "words": _SEGMENT,
    "logprobs": Derived(),
    "usage": USAGE,
    "error": ERROR,
}
TRANSCRIPTIONS: Final = TextMap(
    request=make_shape(TranscriptionFormSchema),
    response=Object(kind="other", members=_SPOKEN),
    event=Events(
        shapes={
            "transcript.text.delta": Object(
                kind="assistant",
                members={**_SPOKEN, "delta": Text(delta=True, place="/text"), "logprobs": Derived(of="/text")},
            ),
            "transcript.text.done": Object(kind="assistant", members=_SPOKEN, ends={"type": ("/",)}),
        },
        other=Object(kind="assistant", members=_SPOKEN, ends={"error": ("/",)}),
    ),
)
"""Files of a form are not reviewed."""

_ANSWER: Final[JsonSchema] = make_object(("text",), text=json_schemas.TEXT)
_EXAMPLES: Final = (RouteExample(name="form", summary="A file", files={"file": "speech.wav"}),)

ROUTES: Final[Mapping[str, RouteDescription]] = {
    "POST /v1/audio/transcriptions": RouteDescription(
        summary="Transcribe speech",
        tag="transcription",
        form=TranscriptionFormSchema,
        answer=_ANSWER,
        media_types={
            "text/plain": "Hello.",
            "text/event-stream": 'data: {"type": "transcript.text.delta", "delta": "Hello."}\n\n',
        },
        examples=_EXAMPLES,
    ),
    "POST /v1/audio/translations": RouteDescription(
        summary="Transcribe speech into English",
        tag="transcription",
        form=TranslationFormSchema,
        answer=_ANSWER,
        media_types={"text/plain": "Hello."},
        examples=_EXAMPLES,
    ),
}
"""The descriptions by method and path."""


def check_transcription(fields: Mapping[str, Any]) -> None:
    """Raise InvalidField for the first invalid text field of a transcription's form, as `parse_form` returns it."""
    check(_TRANSCRIPTION_SCHEMA, fields)


def check_translation(fields: Mapping[str, Any]) -> None:
    """Raise InvalidField for the first invalid text field of a translation's form, as `parse_form` returns it."""
    check(_TRANSLATION_SCHEMA, fields)
