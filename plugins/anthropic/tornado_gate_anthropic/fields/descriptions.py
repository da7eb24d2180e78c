"""What the API description says about the routes of this format. Imported when the description is requested.

Source of the answers: anthropic-python 2.11, types/message.py, message_tokens_count.py and model_info.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.types import Route, RouteDescription, RouteExample, RouteParameter
from tornado_gate_anthropic.fields.request import MessagesBodySchema
from tornado_gate_anthropic.wire.messages.version import VERSION_HEADER

_TAG: Final = "messages"
_TEXT: Final[Mapping[str, Any]] = {"type": "string"}
_COUNT: Final[Mapping[str, Any]] = {"type": "integer", "minimum": 0}
_BLOCK: Final[Mapping[str, Any]] = {
    "type": "object",
    "required": ["type"],
    "properties": {"type": _TEXT, "text": _TEXT},
    "additionalProperties": True,
}
_USAGE: Final[Mapping[str, Any]] = {
    "type": "object",
    "required": ["input_tokens", "output_tokens"],
    "properties": {
        "input_tokens": _COUNT,
        "output_tokens": _COUNT,
        "cache_read_input_tokens": {"type": ["integer", "null"]},
        "cache_creation_input_tokens": {"type": ["integer", "null"]},
    },
    "additionalProperties": True,
}
_MESSAGE: Final[Mapping[str, Any]] = {
    "type": "object",
    "required": ["id", "type", "role", "model", "content", "stop_reason", "usage"],
    "properties": {
        "id": _TEXT,
        "type": {"const": "message"},
        "role": {"const": "assistant"},
        "model": _TEXT,
        "content": {"type": "array", "items": _BLOCK},
        "stop_reason": {"type": ["string", "null"]},
        "stop_sequence": {"type": ["string", "null"]},
        "usage": _USAGE,
    },
    "additionalProperties": True,
}
_MODEL: Final[Mapping[str, Any]] = {
    "type": "object",
    "required": ["id", "type", "display_name", "created_at"],
    "properties": {
        "id": _TEXT,
        "type": {"const": "model"},
        "display_name": _TEXT,
        "created_at": {"type": "string", "format": "date-time"},
    },
    "additionalProperties": True,
}
_MODELS: Final[Mapping[str, Any]] = {
    "type": "object",
    "required": ["data", "has_more"],
    "properties": {
        "data": {"type": "array", "items": _MODEL},
        "has_more": {"type": "boolean"},
        "first_id": {"type": ["string", "null"]},
        "last_id": {"type": ["string", "null"]},
    },
    "additionalProperties": True,
}
_EVENTS: Final = (
    'event: message_start\ndata: {"type": "message_start", "message": {…}}\n\n'
    'event: content_block_delta\ndata: {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Hi"}}\n\n'
    'event: message_stop\ndata: {"type": "message_stop"}\n\n'
)
_HEADERS: Final[Mapping[str, str]] = {VERSION_HEADER: "2023-06-01"}
_VERSION: Final = RouteParameter(
    name=VERSION_HEADER,
    place="header",
    required=True,
    description="The version of the wire format: a date from 2023-01-01 on.",
    example="2023-06-01",
)
_BETA: Final = RouteParameter(
    name="anthropic-beta", place="header", description="Names of betas, for upstreams that speak this format."
)
_VERSION_OF_LISTS: Final = RouteParameter(
    name=VERSION_HEADER, place="header", description="Selects this format for the list.", example="2023-06-01"
)
_HELLO: Final = {"max_tokens": 100, "messages": [{"role": "user", "content": "Say hello."}]}
_WEATHER: Final = {
    "max_tokens": 200,
    "messages": [{"role": "user", "content": "What is the weather in Prague?"}],
    "tools": [
        {
            "name": "get_weather",
            "description": "The weather of a city.",
            "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        }
    ],
}


def describe_route(route: Route) -> RouteDescription | None:
    """Return the description of one of the routes of this format."""
    match route.path:
        case "/v1/messages":
            return RouteDescription(
                summary="Create a message",
                tag=_TAG,
                body=MessagesBodySchema,
                parameters=(_VERSION, _BETA),
                answer=_MESSAGE,
                media_types={"text/event-stream": _EVENTS},
                examples=(
                    RouteExample(name="text", summary="A question", headers=_HEADERS, body=_HELLO),
                    RouteExample(name="stream", summary="A stream", headers=_HEADERS, body={**_HELLO, "stream": True}),
                    RouteExample(name="tool", summary="A tool", headers=_HEADERS, body=_WEATHER),
                ),
            )
        case "/v1/messages/count_tokens":
            return RouteDescription(
                summary="Count the tokens of a message",
                description="An estimate where no target of the model counts tokens.",
                tag=_TAG,
                body=MessagesBodySchema,
                parameters=(_VERSION, _BETA),
                answer={"type": "object", "required": ["input_tokens"], "properties": {"input_tokens": _COUNT}},
                examples=(
                    RouteExample(
                        name="text",
                        summary="A question",
                        headers=_HEADERS,
                        body={"messages": _HELLO["messages"]},
                        operation="chat",
                    ),
                ),
            )
        case "/v1/models":
            example = RouteExample(name="messages", summary="As of the messages API", headers=_HEADERS)
            return RouteDescription(
                summary="List the models",
                tag="models",
                parameters=(_VERSION_OF_LISTS,),
                answer=_MODELS,
                examples=(example,),
            )
        case "/v1/models/{model}":
            example = RouteExample(name="messages", summary="As of the messages API", headers=_HEADERS)
            return RouteDescription(
                summary="Describe a model",
                tag="models",
                parameters=(_VERSION_OF_LISTS,),
                answer=_MODEL,
                examples=(example,),
            )
    return None
