"""The routes of chat completions and text completions: the texts of their answers, whose messages are those of requests
(`messages`), and their descriptions.

Sources: openai-python 3.52, types/chat/ and types/completion.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.codec.fields import make_shape
from tornado_gate.types import JsonSchema, RouteDescription, RouteExample
from tornado_gate.types.text_maps import DATA, TEXT, Derived, JsonText, Object, Shape, Text, TextMap, words
from tornado_gate.wire.text_shapes import ERROR, USAGE
from tornado_gate_openai.fields import json_schemas
from tornado_gate_openai.fields.chat import ChatBodySchema
from tornado_gate_openai.fields.completions import CompletionBodySchema
from tornado_gate_openai.fields.json_schemas import ANY_OBJECT, COUNT, NULLABLE_TEXT, make_object
from tornado_gate_openai.fields.messages import MESSAGE, THINKING, TOOL_CALL, SpokenSchema, make_thinking_shapes

_ENVELOPE: Final = {
    **words("id", "object", "model", "system_fingerprint", "service_tier", "provider"),
    "obfuscation": DATA,
    "usage": USAGE,
    "error": ERROR,
}
_CHOICE: Final = {**words("finish_reason", "native_finish_reason"), "logprobs": Derived()}
_PIECE: Final = Text(delta=True)
_CALLED_FUNCTION: Final = Object(members={**words("name"), "arguments": JsonText(kind="tool_call", delta=True)})
_CALLED_TOOL: Final = Object(members={**words("name"), "input": Text(kind="tool_call", delta=True)})


def _copy_members(shape: Shape) -> dict[str, Shape]:
    assert isinstance(shape, Object)
    return dict(shape.members)


def _make_delta() -> Object:
    """Return the shape of a piece of a message."""
    call = Object(
        members={**_copy_members(make_shape(TOOL_CALL)), "function": _CALLED_FUNCTION, "custom": _CALLED_TOOL},
        place="tool_calls.{index}",
    )
    audio = Object(
        members={**_copy_members(make_shape(SpokenSchema)), "transcript": Text(kind="assistant", delta=True)}
    )
    return Object(
        members={
            **_copy_members(make_shape(MESSAGE)),
            **make_thinking_shapes(delta=True),
            "content": _PIECE,
            "refusal": _PIECE,
            "tool_calls": call,
            "function_call": _CALLED_FUNCTION,
            "audio": audio,
        },
        kind="assistant",
        place="message",
        ends=dict.fromkeys(("content", "tool_calls"), (*THINKING, "reasoning_details")),
    )


def _make_response(choice: dict[str, Shape]) -> Object:
    choices = Object(kind="assistant", members={**_CHOICE, **choice})
    return Object(kind="other", members={**_ENVELOPE, "choices": choices})


def _make_event(choice: dict[str, Shape]) -> Object:
    piece = Object(
        kind="assistant",
        members={**_CHOICE, **choice},
        place="choices.{index}",
        ends={"finish_reason": ("",)},
    )
    return Object(kind="other", members={**_ENVELOPE, "choices": piece}, ends={"error": ("/",)})


CHAT: Final = TextMap(
    request=make_shape(ChatBodySchema),
    response=_make_response({"message": make_shape(MESSAGE)}),
    event=_make_event({"delta": _make_delta()}),
)
COMPLETIONS: Final = TextMap(
    request=make_shape(CompletionBodySchema),
    response=_make_response({"text": TEXT}),
    event=_make_event({"text": _PIECE}),
)

_TEXT: Final = json_schemas.TEXT
_PART_SCHEMA: Final[JsonSchema] = make_object(
    ("type",),
    type={"type": "string", "description": "`text`, `image_url`, `input_audio`, `file`, …"},
    text=_TEXT,
    image_url=make_object(("url",), url=_TEXT, detail=_TEXT),
)
_MESSAGE_SCHEMA: Final[JsonSchema] = make_object(
    ("role",),
    role={"type": "string", "description": "`system`, `developer`, `user`, `assistant`, `tool` or `function`."},
    content={"anyOf": [_TEXT, {"type": "array", "items": _PART_SCHEMA}, {"type": "null"}]},
    name=NULLABLE_TEXT,
    tool_calls={"type": ["array", "null"], "items": ANY_OBJECT},
    tool_call_id=NULLABLE_TEXT,
)
_CHAT_SCHEMA: Final[JsonSchema] = make_object(
    ("id", "object", "created", "model", "choices"),
    id=_TEXT,
    object={"const": "chat.completion"},
    created=COUNT,
    model=_TEXT,
    choices={
        "type": "array",
        "items": make_object(
            ("index", "message", "finish_reason"), index=COUNT, message=_MESSAGE_SCHEMA, finish_reason=_TEXT
        ),
    },
    usage=json_schemas.USAGE,
)
_COMPLETION_SCHEMA: Final[JsonSchema] = make_object(
    ("id", "object", "created", "model", "choices"),
    id=_TEXT,
    object={"const": "text_completion"},
    created=COUNT,
    model=_TEXT,
    choices={
        "type": "array",
        "items": make_object(("index", "text", "finish_reason"), index=COUNT, text=_TEXT),
    },
    usage=json_schemas.USAGE,
)
HELLO: Final[Any] = [{"role": "user", "content": "Say hello."}]
CITY: Final[Any] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER: Final[Any] = {
    "messages": [{"role": "user", "content": "What is the weather in Prague?"}],
    "tools": [
        {
            "type": "function",
            "function": {"name": "get_weather", "description": "The weather of a city.", "parameters": CITY},
        }
    ],
}
_STRUCTURED: Final[Any] = {
    "messages": [{"role": "user", "content": "Name a city."}],
    "response_format": {"type": "json_schema", "json_schema": {"name": "city", "schema": CITY}},
}

ROUTES: Final[Mapping[str, RouteDescription]] = {
    "POST /v1/chat/completions": RouteDescription(
        summary="Create a chat completion",
        tag="chat",
        body=ChatBodySchema,
        answer=_CHAT_SCHEMA,
        media_types={
            "text/event-stream": 'data: {"object": "chat.completion.chunk", "choices": [{"delta": {"content": "Hi"}}]}\n\n'
            "data: [DONE]\n\n"
        },
        examples=(
            RouteExample(name="text", summary="A question", body={"messages": HELLO}),
            RouteExample(name="stream", summary="A stream", body={"messages": HELLO, "stream": True}),
            RouteExample(name="tool", summary="A tool", body=WEATHER),
            RouteExample(name="schema", summary="JSON that follows a schema", body=_STRUCTURED),
        ),
    ),
    "POST /v1/completions": RouteDescription(
        summary="Complete a text",
        tag="chat",
        body=CompletionBodySchema,
        answer=_COMPLETION_SCHEMA,
        media_types={"text/event-stream": 'data: {"object": "text_completion", "choices": [{"text": "Hi"}]}\n\n'},
        examples=(RouteExample(name="text", summary="A text", body={"prompt": "Once upon a time", "max_tokens": 20}),),
    ),
}
"""The descriptions by method and path."""
