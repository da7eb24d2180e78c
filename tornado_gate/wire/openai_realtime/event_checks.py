"""Client events checked, for whoever answers them itself: a provider that has no upstream of this wire format.

One table has the events of both dialects, because a member that is written as the other dialect writes it is no fault.
What a schema cannot say about items is in `items`.

Source: openai-python 3.52, types/realtime/realtime_client_event.py and types/beta/realtime/realtime_client_event.py; bounds
are those in their documentation. Sampling temperatures are taken from 0 to 2, as for chat.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from marshmallow import Schema
from marshmallow.validate import Equal

from tornado_gate.codec.checks import missing, need_array, need_object, wrong
from tornado_gate.codec.fields import Array, Body, Boolean, Integer, Number, Object, OneOf, String, check, named
from tornado_gate.errors import InvalidField
from tornado_gate.wire.openai_realtime.items import audio_bytes, check_item
from tornado_gate.wire.openai_realtime.schemas import FORMATS, PCM_RATE

LONGEST_EVENT_ID: Final = 512
LONGEST_ID: Final = 512


def _most_tokens() -> OneOf:
    return OneOf(by_type={int: Integer(least=1), str: String(choices=("inf",))}, allow_none=True)


def _modalities() -> Array:
    return Array(String(choices=("text", "audio")), least=1, most=2, allow_none=True)


def _voice() -> OneOf:
    return OneOf(by_type={str: String(), dict: Object(_Voice)}, allow_none=True)


def _beta_format() -> String:
    return String(choices=tuple(FORMATS), allow_none=True)


class _Voice(Body):
    id = String(required=True)


class _Format(Body):
    type = String(choices=tuple(FORMATS.values()))
    rate = Integer(validate=Equal(PCM_RATE, error=f"must be {PCM_RATE}"), allow_none=True)


class _TurnDetection(Body):
    type = String(choices=("server_vad", "semantic_vad"), allow_none=True)
    threshold = Number(least=0, most=1, allow_none=True)
    prefix_padding_ms = Integer(least=0, allow_none=True)
    silence_duration_ms = Integer(least=0, allow_none=True)
    idle_timeout_ms = Integer(least=0, allow_none=True)
    create_response = Boolean(allow_none=True)
    interrupt_response = Boolean(allow_none=True)
    eagerness = String(choices=("low", "medium", "high", "auto"), allow_none=True)


class _Transcription(Body):
    model = String(allow_none=True)
    language = String(allow_none=True)
    prompt = String(allow_none=True)


class _Noise(Body):
    type = String(choices=("near_field", "far_field"), allow_none=True)


class _Input(Body):
    format = Object(_Format, allow_none=True)
    transcription = Object(_Transcription, allow_none=True)
    noise_reduction = Object(_Noise, allow_none=True)
    turn_detection = Object(_TurnDetection, allow_none=True)


class _Output(Body):
    format = Object(_Format, allow_none=True)
    voice = _voice()
    speed = Number(least=0.25, most=1.5, allow_none=True)


class _Audio(Body):
    input = Object(_Input, allow_none=True)
    output = Object(_Output, allow_none=True)


class _Tool(Body):
    type = String(allow_none=True)
    name = String(allow_none=True)
    description = String(allow_none=True)
    parameters = Object(allow_none=True)


class _Common(Body):
    """What a session and a response share, in both dialects."""

    instructions = String(allow_none=True)
    modalities = _modalities()
    output_modalities = _modalities()
    audio = Object(_Audio, allow_none=True)
    voice = _voice()
    output_audio_format = _beta_format()
    temperature = Number(least=0, most=2, allow_none=True)
    max_output_tokens = _most_tokens()
    max_response_output_tokens = _most_tokens()
    tools = Array(Object(_Tool), allow_none=True)
    tool_choice = OneOf(by_type={str: String(choices=("auto", "none", "required")), dict: Object()}, allow_none=True)


class _Session(_Common):
    type = String(choices=("realtime", "transcription"))
    model = String(allow_none=True)
    input_audio_format = _beta_format()
    input_audio_transcription = Object(_Transcription, allow_none=True)
    input_audio_noise_reduction = Object(_Noise, allow_none=True)
    turn_detection = Object(_TurnDetection, allow_none=True)
    speed = Number(least=0.25, most=1.5, allow_none=True)


class _Response(_Common):
    conversation = String(allow_none=True)
    metadata = Object(allow_none=True)
    input = Array(Object(), allow_none=True)


class _Event(Body):
    event_id = String(longest=LONGEST_EVENT_ID, allow_none=True)


class _SessionUpdate(_Event):
    session = Object(_Session, required=True)


class _ResponseCreate(_Event):
    response = Object(_Response, allow_none=True)


class _ResponseCancel(_Event):
    response_id = String(longest=LONGEST_ID, allow_none=True)


class _Append(_Event):
    audio = String(required=True)


class _ItemCreate(_Event):
    item = Object(required=True)
    previous_item_id = String(longest=LONGEST_ID, allow_none=True)


class _ItemNamed(_Event):
    item_id = String(required=True, longest=LONGEST_ID)


class _Truncate(_ItemNamed):
    content_index = Integer(required=True, least=0)
    audio_end_ms = Integer(required=True, least=0)


EVENTS: Final[Mapping[str, Schema]] = {
    "session.update": _SessionUpdate(),
    "transcription_session.update": _SessionUpdate(),
    "input_audio_buffer.append": _Append(),
    "input_audio_buffer.commit": _Event(),
    "input_audio_buffer.clear": _Event(),
    "output_audio_buffer.clear": _Event(),
    "conversation.item.create": _ItemCreate(),
    "conversation.item.retrieve": _ItemNamed(),
    "conversation.item.truncate": _Truncate(),
    "conversation.item.delete": _ItemNamed(),
    "response.create": _ResponseCreate(),
    "response.cancel": _ResponseCancel(),
}
"""Every client event of both dialects."""


def check_client_event(event: Any, input_format: str = "audio/pcm") -> None:
    """Raises InvalidField with the path of the first fault. `input_format` is what the session's sound is in."""
    body = need_event(event)
    kind = body["type"]
    schema = EVENTS.get(kind)
    if schema is None:
        raise InvalidField("type", f"There is no client event of type '{kind[:100]}'.")
    check(schema, body)
    match kind:
        case "input_audio_buffer.append":
            audio_of(body, input_format)
        case "conversation.item.create":
            check_item(body["item"], "item", input_format)
        case "response.create":
            asked = body.get("response") or {}
            for index, item in enumerate(need_array(asked.get("input") or [], "response.input")):
                check_item(item, f"response.input.{index}", input_format, references=True)


def need_event(event: Any) -> dict[str, Any]:
    """The event, if it is an object with a type. Raises InvalidField."""
    if not isinstance(event, dict):
        raise InvalidField("", f"An event must be an object, not {named(event)}.")
    if "type" not in event:
        missing("type")
    if not isinstance(event["type"], str):
        wrong("type", f"must be a string, not {named(event['type'])}")
    return event


def audio_of(event: Mapping[str, Any], input_format: str = "audio/pcm") -> bytes:
    """The sound in an ``input_audio_buffer.append``. Raises InvalidField for what is no base64, or half a sample."""
    return audio_bytes(event.get("audio"), "audio", input_format)


def check_session(session: Any, path: str = "session") -> dict[str, Any]:
    """A session as either dialect writes it. Raises InvalidField with paths below `path`."""
    body = need_object(session, path)
    try:
        check(_SESSION, body)
    except InvalidField as error:
        param = f"{path}.{error.param}"
        raise InvalidField(param, error.message.replace(f"'{error.param}'", f"'{param}'", 1), code=error.code) from None
    return body


_SESSION: Final = _Session()
