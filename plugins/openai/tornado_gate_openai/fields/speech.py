"""The body of ``POST /v1/audio/speech``, and the texts of its responses.

Source of the limits: openai-python 3.52, types/audio/speech_create_params.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from marshmallow import validate

from tornado_gate.codec.fields import BodySchema, Number, OneOf, String, check, get_schema, make_shape
from tornado_gate.codec.fields import Object as ObjectField
from tornado_gate.types import RouteDescription, RouteExample, text_maps
from tornado_gate.types.text_maps import DATA, WORD, Object, Text, TextMap, words
from tornado_gate.wire.text_shapes import ERROR, USAGE
from tornado_gate_openai.wire.speech import MEDIA_TYPES

MAX_CHARACTERS: Final = 4096
"""The vendor's limit for `input`."""
_NOT_EMPTY: Final = validate.Length(min=1, error="must not be empty")


class _VoiceSchema(BodySchema):
    id = String(required=True, validate=_NOT_EMPTY)


class SpeechBodySchema(BodySchema):
    """The body of ``POST /v1/audio/speech``."""

    texts = text_maps.Object(kind="other", members=words("language"))

    model = String(required=True, validate=_NOT_EMPTY, text=WORD, description="The name of a model of this gateway.")
    input = String(required=True, longest=MAX_CHARACTERS, validate=_NOT_EMPTY, text=Text(kind="user"))
    voice = OneOf(
        required=True,
        by_type={str: String(validate=_NOT_EMPTY), dict: ObjectField(_VoiceSchema)},
        text=WORD,
        description="The name of a voice.",
    )
    instructions = String(allow_none=True, text=Text(kind="system"), example="my-cheerfully")
    response_format = String(choices=tuple(MEDIA_TYPES), allow_none=True, text=WORD)
    speed = Number(least=0.25, most=4, allow_none=True)
    stream_format = String(choices=("sse", "audio"), allow_none=True, text=WORD)


_SCHEMA: Final = get_schema(SpeechBodySchema)
_SOUND: Final = {"audio": DATA, "error": ERROR, **words("type")}
SPEECH: Final = TextMap(
    request=make_shape(SpeechBodySchema),
    response=Object(kind="other", members=_SOUND),
    event=Object(kind="other", members={**_SOUND, "usage": USAGE}, ends={"error": ("/",)}),
)


ROUTES: Final[Mapping[str, RouteDescription]] = {
    "POST /v1/audio/speech": RouteDescription(
        summary="Create speech",
        tag="speech",
        body=SpeechBodySchema,
        media_types={**dict.fromkeys(sorted(set(MEDIA_TYPES.values())), ""), "text/event-stream": ""},
        examples=(
            RouteExample(
                name="wav", summary="A sentence", body={"input": "Hello.", "voice": "alloy", "response_format": "wav"}
            ),
        ),
    ),
}
"""The descriptions by method and path."""


def check_speech(body: Mapping[str, Any]) -> None:
    """Raise InvalidField for the first invalid member."""
    check(_SCHEMA, body)
