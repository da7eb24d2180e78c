"""Texts of OpenAI's realtime sessions, in both dialects. Source: openai-python 3.52, types/realtime/ and
types/beta/realtime/.

Sound is not reviewed: a guard reads its transcripts. Texts of items have the id of the item in their places.
"""

from __future__ import annotations

from typing import Final

from tornado_gate.types.text_maps import (
    DATA,
    TEXT,
    WORD,
    Derived,
    Events,
    JsonText,
    Object,
    Shape,
    Text,
    TextMap,
    at_place,
    words,
)
from tornado_gate.types.texts import TextKind
from tornado_gate.wire.text_shapes import ERROR, ROLES, USAGE
from tornado_gate_openai.fields.response_items import PART_SHAPE
from tornado_gate_openai.fields.response_tools import make_tool_shape
from tornado_gate_openai.fields.tools import TOOL_CHOICE_SHAPE

_PART: Final = Object(members={**PART_SHAPE.members, "audio": DATA}, kinds={})
_ITEM_KINDS: Final[dict[str, TextKind]] = {
    "function_call": "tool_call",
    "mcp_call": "tool_call",
    "mcp_approval_request": "tool_call",
    "function_call_output": "tool_result",
}
_ITEM: Final = Object(
    kinds={"role": ROLES, "type": _ITEM_KINDS},
    members={
        **words("id", "type", "object", "status", "role", "call_id", "name", "server_label", "approval_request_id"),
        "content": _PART,
        "arguments": JsonText(kind="tool_call"),
        "output": Text(kind="tool_result"),
        "tools": make_tool_shape(),
        "error": ERROR,
    },
    place="items.{id}",
)
_ITEM_PLACE: Final = "items.{item_id}"
_CONTENT_PLACE: Final = f"{_ITEM_PLACE}.content.{{content_index}}"
_TURN_DETECTION: Final = Object(kind="other", members=words("type", "eagerness"))
_AUDIO: Final = Object(kind="other", members=words("type", "voice", "model", "language", "delay", "format"))
_AUDIO.members.update(
    {
        **dict.fromkeys(("input", "output", "format", "noise_reduction", "transcription"), _AUDIO),
        "turn_detection": _TURN_DETECTION,
    }
)
_FORMAT_OR_WORD: Final = Object(kind="other", members=words("type"), string=WORD)
_AUDIO.members["format"] = _FORMAT_OR_WORD
SESSION: Final = Object(
    kind="other",
    members={
        **words("id", "object", "type", "model", "modalities", "output_modalities", "voice", "include", "status"),
        **words(
            "conversation_id",
            "max_response_output_tokens",
            "max_output_tokens",
            "truncation",
            "tracing",
            "conversation",
        ),
        **dict.fromkeys(("input_audio_format", "output_audio_format"), _FORMAT_OR_WORD),
        "instructions": Text(kind="system"),
        "audio": _AUDIO,
        "tools": make_tool_shape(),
        "tool_choice": TOOL_CHOICE_SHAPE,
        "turn_detection": _TURN_DETECTION,
        "input_audio_transcription": _AUDIO,
        "input_audio_noise_reduction": _AUDIO,
        "reasoning": Object(kind="other", members=words("effort")),
        "prompt": Object(kind="other", members={**words("id", "version"), "variables": Text(kind="user")}),
        "client_secret": Object(kind="other", members=words("value")),
        "value": DATA,
    },
)
SESSION.members["session"] = SESSION
_INPUT_ITEM: Final = Object(kind="user", members=_ITEM.members, kinds=_ITEM.kinds, place=_ITEM.place)
_RESPONSE: Final = Object(
    kind="assistant",
    members={
        **SESSION.members,
        "output": _ITEM,
        "input": _INPUT_ITEM,
        "usage": USAGE,
        "status_details": Object(kind="other", members={**words("type", "reason"), "error": ERROR}),
        "metadata": TEXT,
    },
    others=Text(kind="other"),
    place="/",
)
_EVENT: Final[dict[str, Shape]] = {
    **words("type", "event_id", "item_id", "previous_item_id", "response_id", "call_id", "obfuscation"),
    "audio": DATA,
    "error": ERROR,
    "usage": USAGE,
    "rate_limits": Object(kind="other", members=words("name")),
    "conversation": Object(kind="other", members=words("id", "object")),
}


def _make_event(**members: Shape) -> Object:
    return Object(kind="other", members={**_EVENT, **members})


def _make_pair(name: str, place: str, kind: TextKind, done: str) -> dict[str, Shape]:
    """Return the shapes of the events with pieces of a text, and of the event that repeats it as a whole."""
    return {
        f"{name}.delta": _make_event(delta=Text(kind=kind, delta=True, place=place)),
        f"{name}.done": _make_event(**{done: Text(kind=kind, place=place)}),
    }


def _make_arguments(name: str) -> dict[str, Shape]:
    place = f"{_ITEM_PLACE}.arguments"
    return {
        f"{name}.delta": _make_event(delta=JsonText(kind="tool_call", delta=True, place=place)),
        f"{name}.done": _make_event(arguments=JsonText(kind="tool_call", place=place), **words("name")),
    }


_TRANSCRIPT: Final = f"{_CONTENT_PLACE}.transcript"
_HEARD: Final = "conversation.item.input_audio_transcription"
SERVER: Final = Events(
    shapes={
        **_make_pair("response.output_text", f"{_CONTENT_PLACE}.text", "assistant", "text"),
        **_make_pair("response.text", f"{_CONTENT_PLACE}.text", "assistant", "text"),
        **_make_pair("response.output_audio_transcript", _TRANSCRIPT, "assistant", "transcript"),
        **_make_pair("response.audio_transcript", _TRANSCRIPT, "assistant", "transcript"),
        **_make_arguments("response.function_call_arguments"),
        **_make_arguments("response.mcp_call_arguments"),
        f"{_HEARD}.delta": _make_event(
            delta=Text(kind="user", delta=True, place=_TRANSCRIPT), logprobs=Derived(of=_CONTENT_PLACE)
        ),
        f"{_HEARD}.completed": _make_event(
            transcript=Text(kind="user", place=_TRANSCRIPT),
            logprobs=Derived(of=_CONTENT_PLACE),
            languages=Object(kind="other", members=words("code", "language")),
        ),
        f"{_HEARD}.segment": _make_event(text=Text(kind="user"), **words("id", "speaker")),
        f"{_HEARD}.failed": Object(kind="other", members=_EVENT, place=_CONTENT_PLACE, ends={"type": ("",)}),
        **dict.fromkeys(("response.output_audio.delta", "response.audio.delta"), _make_event(delta=DATA)),
        **dict.fromkeys(
            ("response.content_part.added", "response.content_part.done"),
            Object(kind="assistant", members={**_EVENT, "part": at_place(_PART, _CONTENT_PLACE)}),
        ),
        **dict.fromkeys(
            ("response.output_item.added", "response.output_item.done"),
            Object(kind="assistant", members={**_EVENT, "item": _ITEM}),
        ),
        **dict.fromkeys(
            ("response.created", "response.done"), Object(kind="assistant", members={**_EVENT, "response": _RESPONSE})
        ),
        **dict.fromkeys(
            ("session.created", "session.updated", "transcription_session.created", "transcription_session.updated"),
            _make_event(session=SESSION),
        ),
        "error": Object(kind="other", members=_EVENT),
    },
    other=Object(kind="user", members={**_EVENT, "item": _INPUT_ITEM}),
)
CLIENT: Final = Object(
    kind="other",
    members={**_EVENT, "session": SESSION, "response": _RESPONSE, "item": _INPUT_ITEM},
)
REALTIME: Final = TextMap(client_message=CLIENT, server_message=SERVER)
