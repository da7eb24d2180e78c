"""Chat completions, text completions and responses.

Source of the answers: openai-python 3.52, types/chat/chat_completion.py, types/completion.py and types/responses/response.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.types import JsonSchema, RouteDescription, RouteExample
from tornado_gate_openai.fields.chat import ChatBodySchema
from tornado_gate_openai.fields.completions import CompletionBodySchema
from tornado_gate_openai.fields.json_schemas import (
    ANY_OBJECT,
    COUNT,
    NULLABLE_TEXT,
    STRINGS,
    TEXT,
    USAGE,
    make_object,
)
from tornado_gate_openai.fields.responses import ResponseBodySchema, StateBodySchema

_PART: Final[JsonSchema] = make_object(
    ("type",),
    type={"type": "string", "description": "`text`, `image_url`, `input_audio`, `file`, …"},
    text=TEXT,
    image_url=make_object(("url",), url=TEXT, detail=TEXT),
)
_MESSAGE: Final[JsonSchema] = make_object(
    ("role",),
    role={"type": "string", "description": "`system`, `developer`, `user`, `assistant`, `tool` or `function`."},
    content={"anyOf": [TEXT, {"type": "array", "items": _PART}, {"type": "null"}]},
    name=NULLABLE_TEXT,
    tool_calls={"type": ["array", "null"], "items": ANY_OBJECT},
    tool_call_id=NULLABLE_TEXT,
)
_LOGIT_BIAS: Final[JsonSchema] = {"type": "object", "additionalProperties": {"type": "number"}}
_CHAT: Final[JsonSchema] = make_object(
    ("id", "object", "created", "model", "choices"),
    id=TEXT,
    object={"const": "chat.completion"},
    created=COUNT,
    model=TEXT,
    choices={
        "type": "array",
        "items": make_object(("index", "message", "finish_reason"), index=COUNT, message=_MESSAGE, finish_reason=TEXT),
    },
    usage=USAGE,
)
_COMPLETION: Final[JsonSchema] = make_object(
    ("id", "object", "created", "model", "choices"),
    id=TEXT,
    object={"const": "text_completion"},
    created=COUNT,
    model=TEXT,
    choices={"type": "array", "items": make_object(("index", "text", "finish_reason"), index=COUNT, text=TEXT)},
    usage=USAGE,
)
_PROMPT: Final[JsonSchema] = {"anyOf": [TEXT, {"type": "array", "minItems": 1}]}
RESPONSE: Final[JsonSchema] = make_object(
    ("id", "object", "created_at", "model", "status", "output"),
    id=TEXT,
    object={"const": "response"},
    created_at={"type": "number"},
    model=TEXT,
    status=TEXT,
    output={"type": "array", "items": ANY_OBJECT},
    usage={"anyOf": [USAGE, {"type": "null"}]},
    error={"type": ["object", "null"]},
)
_HELLO: Final[Any] = [{"role": "user", "content": "Say hello."}]
_CITY: Final[Any] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
_WEATHER: Final[Any] = {
    "messages": [{"role": "user", "content": "What is the weather in Prague?"}],
    "tools": [
        {
            "type": "function",
            "function": {"name": "get_weather", "description": "The weather of a city.", "parameters": _CITY},
        }
    ],
}
_SCHEMA: Final[Any] = {
    "messages": [{"role": "user", "content": "Name a city."}],
    "response_format": {"type": "json_schema", "json_schema": {"name": "city", "schema": _CITY}},
}

ROUTES: Final[Mapping[str, RouteDescription]] = {
    "/v1/chat/completions": RouteDescription(
        summary="Create a chat completion",
        tag="chat",
        body=ChatBodySchema,
        members={"logit_bias": _LOGIT_BIAS, "metadata": STRINGS},
        answer=_CHAT,
        media_types={
            "text/event-stream": 'data: {"object": "chat.completion.chunk", "choices": [{"delta": {"content": "Hi"}}]}\n\n'
            "data: [DONE]\n\n"
        },
        examples=(
            RouteExample(name="text", summary="A question", body={"messages": _HELLO}),
            RouteExample(name="stream", summary="A stream", body={"messages": _HELLO, "stream": True}),
            RouteExample(name="tool", summary="A tool", body=_WEATHER),
            RouteExample(name="schema", summary="JSON that follows a schema", body=_SCHEMA),
        ),
    ),
    "/v1/completions": RouteDescription(
        summary="Complete a text",
        tag="chat",
        body=CompletionBodySchema,
        members={"prompt": _PROMPT, "logit_bias": _LOGIT_BIAS},
        answer=_COMPLETION,
        media_types={"text/event-stream": 'data: {"object": "text_completion", "choices": [{"text": "Hi"}]}\n\n'},
        examples=(RouteExample(name="text", summary="A text", body={"prompt": "Once upon a time", "max_tokens": 20}),),
    ),
    "/v1/responses": RouteDescription(
        summary="Create a response",
        tag="responses",
        body=ResponseBodySchema,
        members={"metadata": STRINGS},
        answer=RESPONSE,
        media_types={
            "text/event-stream": 'event: response.created\ndata: {"type": "response.created", "response": {…}}\n\n'
            'event: response.output_text.delta\ndata: {"type": "response.output_text.delta", "delta": "Hi"}\n\n'
        },
        examples=(
            RouteExample(name="text", summary="A question", body={"input": "Say hello."}),
            RouteExample(name="stream", summary="A stream", body={"input": "Say hello.", "stream": True}),
            RouteExample(
                name="tool",
                summary="A function",
                body={
                    "input": _WEATHER["messages"],
                    "tools": [{"type": "function", "name": "get_weather", "parameters": _CITY}],
                },
            ),
        ),
    ),
    "/v1/responses/compact": RouteDescription(
        summary="Compact a conversation",
        description="Takes fields of `/v1/responses`, of which only the model is required.",
        tag="responses",
        body=StateBodySchema,
        members={"metadata": STRINGS},
        answer=make_object(("id", "object", "output"), id=TEXT, output={"type": "array", "items": ANY_OBJECT}),
        examples=(RouteExample(name="items", summary="A conversation", body={"input": _HELLO}),),
    ),
    "/v1/responses/input_tokens": RouteDescription(
        summary="Count the tokens of a response's input",
        description="Takes fields of `/v1/responses`. An estimate where no target of the model counts tokens.",
        tag="responses",
        body=StateBodySchema,
        members={"metadata": STRINGS},
        answer=make_object(("object", "input_tokens"), object=TEXT, input_tokens=COUNT),
        examples=(RouteExample(name="text", summary="A question", body={"input": "Say hello."}, operation="chat"),),
    ),
}
"""The routes that create something from a text, by path; all are POST."""
