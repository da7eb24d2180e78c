"""Validation of client events, for a provider that implements the server side itself.

One table has the events of both dialects, because members of the other dialect are accepted too. The module `items` has the
checks of items that a schema cannot express.

Source: openai-python 3.52, types/realtime/realtime_client_event.py and types/beta/realtime/realtime_client_event.py; the limits
come from the documentation of these types. Temperatures from 0 to 2 are accepted, as for chat.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from marshmallow import Schema
from marshmallow.validate import Equal

from tornado_gate.codec.checks import need_array, need_object, raise_invalid, raise_missing
from tornado_gate.codec.fields import (
    Array,
    BodySchema,
    Boolean,
    Integer,
    Number,
    Object,
    OneOf,
    String,
    check,
    describe_type,
)
from tornado_gate.errors import InvalidField
from tornado_gate_openai.wire.realtime.items import check_item, decode_audio
from tornado_gate_openai.wire.realtime.schemas import CURRENT_FORMATS, PCM_RATE

MAX_EVENT_ID_LENGTH: Final = 512
MAX_ID_LENGTH: Final = 512


def _make_max_tokens_field() -> OneOf:
    return OneOf(by_type={int: Integer(least=1), str: String(choices=("inf",))}, allow_none=True)


def _make_modalities_field() -> Array:
    return Array(String(choices=("text", "audio")), least=1, most=2, allow_none=True)


def _make_voice_field() -> OneOf:
    return OneOf(by_type={str: String(), dict: Object(_RealtimeVoiceSchema)}, allow_none=True)


def _make_beta_format_field() -> String:
    return String(choices=tuple(CURRENT_FORMATS), allow_none=True)


class _RealtimeVoiceSchema(BodySchema):
    id = String(required=True)


class _AudioFormatSchema(BodySchema):
    type = String(choices=tuple(CURRENT_FORMATS.values()))
    rate = Integer(validate=Equal(PCM_RATE, error=f"must be {PCM_RATE}"), allow_none=True)


class _TurnDetectionSchema(BodySchema):
    type = String(choices=("server_vad", "semantic_vad"), allow_none=True)
    threshold = Number(least=0, most=1, allow_none=True)
    prefix_padding_ms = Integer(least=0, allow_none=True)
    silence_duration_ms = Integer(least=0, allow_none=True)
    idle_timeout_ms = Integer(least=0, allow_none=True)
    create_response = Boolean(allow_none=True)
    interrupt_response = Boolean(allow_none=True)
    eagerness = String(choices=("low", "medium", "high", "auto"), allow_none=True)


class _TranscriptionSchema(BodySchema):
    model = String(allow_none=True)
    language = String(allow_none=True)
    prompt = String(allow_none=True)


class _NoiseReductionSchema(BodySchema):
    type = String(choices=("near_field", "far_field"), allow_none=True)


class _InputSchema(BodySchema):
    format = Object(_AudioFormatSchema, allow_none=True)
    transcription = Object(_TranscriptionSchema, allow_none=True)
    noise_reduction = Object(_NoiseReductionSchema, allow_none=True)
    turn_detection = Object(_TurnDetectionSchema, allow_none=True)


class _OutputSchema(BodySchema):
    format = Object(_AudioFormatSchema, allow_none=True)
    voice = _make_voice_field()
    speed = Number(least=0.25, most=1.5, allow_none=True)


class _SessionAudioSchema(BodySchema):
    input = Object(_InputSchema, allow_none=True)
    output = Object(_OutputSchema, allow_none=True)


class _ToolSchema(BodySchema):
    type = String(allow_none=True)
    name = String(allow_none=True)
    description = String(allow_none=True)
    parameters = Object(allow_none=True)


class _CommonSchema(BodySchema):
    """Fields that a session and a response share, in both dialects."""

    instructions = String(allow_none=True)
    modalities = _make_modalities_field()
    output_modalities = _make_modalities_field()
    audio = Object(_SessionAudioSchema, allow_none=True)
    voice = _make_voice_field()
    output_audio_format = _make_beta_format_field()
    temperature = Number(least=0, most=2, allow_none=True)
    max_output_tokens = _make_max_tokens_field()
    max_response_output_tokens = _make_max_tokens_field()
    tools = Array(Object(_ToolSchema), allow_none=True)
    tool_choice = OneOf(by_type={str: String(choices=("auto", "none", "required")), dict: Object()}, allow_none=True)


class _SessionSchema(_CommonSchema):
    type = String(choices=("realtime", "transcription"))
    model = String(allow_none=True)
    input_audio_format = _make_beta_format_field()
    input_audio_transcription = Object(_TranscriptionSchema, allow_none=True)
    input_audio_noise_reduction = Object(_NoiseReductionSchema, allow_none=True)
    turn_detection = Object(_TurnDetectionSchema, allow_none=True)
    speed = Number(least=0.25, most=1.5, allow_none=True)


class _ResponseSchema(_CommonSchema):
    conversation = String(allow_none=True)
    metadata = Object(allow_none=True)
    input = Array(Object(), allow_none=True)


class _EventSchema(BodySchema):
    event_id = String(longest=MAX_EVENT_ID_LENGTH, allow_none=True)


class _SessionUpdateSchema(_EventSchema):
    session = Object(_SessionSchema, required=True)


class _ResponseCreateSchema(_EventSchema):
    response = Object(_ResponseSchema, allow_none=True)


class _ResponseCancelSchema(_EventSchema):
    response_id = String(longest=MAX_ID_LENGTH, allow_none=True)


class _AudioAppendSchema(_EventSchema):
    audio = String(required=True)


class _ItemCreateSchema(_EventSchema):
    item = Object(required=True)
    previous_item_id = String(longest=MAX_ID_LENGTH, allow_none=True)


class _ItemReferenceSchema(_EventSchema):
    item_id = String(required=True, longest=MAX_ID_LENGTH)


class _ItemTruncateSchema(_ItemReferenceSchema):
    content_index = Integer(required=True, least=0)
    audio_end_ms = Integer(required=True, least=0)


EVENT_SCHEMAS: Final[Mapping[str, Schema]] = {
    "session.update": _SessionUpdateSchema(),
    "transcription_session.update": _SessionUpdateSchema(),
    "input_audio_buffer.append": _AudioAppendSchema(),
    "input_audio_buffer.commit": _EventSchema(),
    "input_audio_buffer.clear": _EventSchema(),
    "output_audio_buffer.clear": _EventSchema(),
    "conversation.item.create": _ItemCreateSchema(),
    "conversation.item.retrieve": _ItemReferenceSchema(),
    "conversation.item.truncate": _ItemTruncateSchema(),
    "conversation.item.delete": _ItemReferenceSchema(),
    "response.create": _ResponseCreateSchema(),
    "response.cancel": _ResponseCancelSchema(),
}
"""The schemas of all client events of both dialects, by type."""


def check_client_event(event: Any, input_format: str = "audio/pcm") -> None:
    """Raise InvalidField with the path of the first invalid field. `input_format` is the session's input audio format."""
    body = require_event(event)
    kind = body["type"]
    schema = EVENT_SCHEMAS.get(kind)
    if schema is None:
        raise InvalidField(
            "type", f"The client event type '{kind[:100]}' is unknown. Send a client event of OpenAI's Realtime API."
        )
    check(schema, body)
    match kind:
        case "input_audio_buffer.append":
            read_audio(body, input_format)
        case "conversation.item.create":
            check_item(body["item"], "item", input_format)
        case "response.create":
            response = body.get("response") or {}
            for index, item in enumerate(need_array(response.get("input") or [], "response.input")):
                check_item(item, f"response.input.{index}", input_format, references=True)


def require_event(event: Any) -> dict[str, Any]:
    """Return the event. Raises InvalidField if it is not an object with a ``type`` that is a string."""
    if not isinstance(event, dict):
        raise InvalidField("", f"An event must be a JSON object with a 'type', not {describe_type(event)}.")
    if "type" not in event:
        raise_missing("type")
    if not isinstance(event["type"], str):
        raise_invalid("type", f"must be a string, not {describe_type(event['type'])}")
    return event


def read_audio(event: Mapping[str, Any], input_format: str = "audio/pcm") -> bytes:
    """Return the audio of an ``input_audio_buffer.append``. Raises InvalidField for invalid base64 or half a PCM sample."""
    return decode_audio(event.get("audio"), "audio", input_format)


def check_session(session: Any, path: str = "session") -> dict[str, Any]:
    """Return a validated session of either dialect. Raises InvalidField with paths below `path`."""
    body = need_object(session, path)
    try:
        check(_SESSION_SCHEMA, body)
    except InvalidField as error:
        param = f"{path}.{error.param}"
        raise InvalidField(param, error.message.replace(f"'{error.param}'", f"'{param}'", 1), code=error.code) from None
    return body


_SESSION_SCHEMA: Final = _SessionSchema()
