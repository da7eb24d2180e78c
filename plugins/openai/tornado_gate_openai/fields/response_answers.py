"""The routes of the responses API: their descriptions, and the texts of answers: responses, stored responses and items,
conversations, and the events of a stream. Items are those of requests (`response_items`).

The events that repeat a text (``response.output_text.done``, ``response.completed``) have the place that it has in the
response. Source: openai-python 3.52, types/responses/.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tornado_gate.codec.fields import make_shape
from tornado_gate.types import JsonSchema, RouteDescription, RouteExample
from tornado_gate.types.text_maps import (
    DATA,
    OTHER,
    TEXT,
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
from tornado_gate.wire.text_shapes import ERROR
from tornado_gate_openai.fields import json_schemas
from tornado_gate_openai.fields.chat_answers import CITY, HELLO, WEATHER
from tornado_gate_openai.fields.conversations import NewConversationSchema
from tornado_gate_openai.fields.json_schemas import ANY_OBJECT, make_object
from tornado_gate_openai.fields.response_items import ANNOTATION, OUTCOME, PART_SHAPE, make_items_shape
from tornado_gate_openai.fields.responses import ResponseBodySchema, StateBodySchema


def _make_response_shape() -> Object:
    """Return the shape of a response, which repeats most members of its request."""
    assert isinstance(REQUEST, Object)
    members = {name: shape for name, shape in REQUEST.members.items() if name != "input"}
    return Object(kind="other", members={**members, "output": ITEM})


ITEM: Final = make_items_shape()
REQUEST: Final = make_shape(ResponseBodySchema)
RESPONSE: Final = _make_response_shape()

_OUTPUT: Final = "output.{output_index}"
_CONTENT: Final = f"{_OUTPUT}.content.{{content_index}}"
_SUMMARY: Final = f"{_OUTPUT}.summary.{{summary_index}}"
_COMMAND: Final = f"{_OUTPUT}.action.commands.{{command_index}}"
_EVENT: Final[dict[str, Shape]] = {
    **words("type", "item_id", "response_id", "event_id", "object", "stream_id"),
    "obfuscation": DATA,
}


def _make_event(**members: Shape) -> Object:
    return Object(kind="other", members={**_EVENT, **members})


def _make_pair(name: str, place: str, kind: TextKind, done: str = "text", **others: Shape) -> dict[str, Shape]:
    """Return the shapes of the events with pieces of a text, and of the event that repeats it as a whole."""
    return {
        f"response.{name}.delta": _make_event(delta=Text(kind=kind, delta=True, place=place), **others),
        f"response.{name}.done": _make_event(**{done: Text(kind=kind, place=place)}, **others),
    }


def _make_json_pair(name: str, place: str) -> dict[str, Shape]:
    named = words("name")
    return {
        f"response.{name}.delta": _make_event(delta=JsonText(kind="tool_call", delta=True, place=place), **named),
        f"response.{name}.done": _make_event(arguments=JsonText(kind="tool_call", place=place), **named),
    }


def _make_whole(*names: str, ends: bool) -> dict[str, Shape]:
    members = {**_EVENT, "response": at_place(RESPONSE, "/")}
    shape = Object(kind="other", members=members, ends={"type": ("/",)} if ends else {})
    return {f"response.{name}": shape for name in names}


_SHELL_OUTPUT: Final = f"{_OUTPUT}.output.{{command_index}}"
_SHELL_TEXTS: Final[dict[str, Shape]] = {"stdout": TEXT, "stderr": TEXT, "outcome": OUTCOME}
EVENTS: Final = Events(
    shapes={
        **_make_pair("output_text", f"{_CONTENT}.text", "assistant", logprobs=Derived(of=_CONTENT, empty=[])),
        **_make_pair("refusal", f"{_CONTENT}.refusal", "assistant", "refusal"),
        **_make_pair("reasoning_text", f"{_CONTENT}.text", "reasoning"),
        **_make_pair("reasoning_summary_text", f"{_SUMMARY}.text", "reasoning"),
        **_make_json_pair("function_call_arguments", f"{_OUTPUT}.arguments"),
        **_make_json_pair("mcp_call_arguments", f"{_OUTPUT}.arguments"),
        **_make_pair("custom_tool_call_input", f"{_OUTPUT}.input", "tool_call", "input"),
        **_make_pair("code_interpreter_call_code", f"{_OUTPUT}.code", "tool_call", "code"),
        **_make_pair("shell_call_command", _COMMAND, "tool_call", "command"),
        "response.shell_call_command.added": _make_event(command=Text(kind="tool_call", delta=True, place=_COMMAND)),
        "response.shell_call_output_content.delta": _make_event(
            delta=Object(
                kind="tool_result",
                place=_SHELL_OUTPUT,
                members=dict.fromkeys(("stdout", "stderr"), Text(delta=True)),
            )
        ),
        "response.shell_call_output_content.done": _make_event(
            output=Object(kind="tool_result", place=_SHELL_OUTPUT, members=_SHELL_TEXTS)
        ),
        "response.audio.transcript.delta": _make_event(delta=Text(kind="assistant", delta=True, place="/transcript")),
        "response.audio.transcript.done": Object(members=_EVENT, kind="other", ends={"type": ("/transcript",)}),
        "response.audio.delta": _make_event(delta=DATA),
        "response.output_text.annotation.added": _make_event(
            annotation=at_place(ANNOTATION, f"{_CONTENT}.annotations.{{annotation_index}}")
        ),
        **dict.fromkeys(
            ("response.content_part.added", "response.content_part.done"),
            _make_event(part=at_place(PART_SHAPE, _CONTENT)),
        ),
        **dict.fromkeys(
            ("response.reasoning_summary_part.added", "response.reasoning_summary_part.done"),
            Object(kind="reasoning", members={**_EVENT, **words("status"), "part": at_place(PART_SHAPE, _SUMMARY)}),
        ),
        **dict.fromkeys(
            ("response.output_item.added", "response.output_item.done"), _make_event(item=at_place(ITEM, _OUTPUT))
        ),
        "response.image_generation_call.partial_image": _make_event(
            partial_image_b64=DATA, **words("size", "quality", "background", "output_format")
        ),
        **_make_whole("created", "queued", "in_progress", ends=False),
        **_make_whole("completed", "failed", "incomplete", ends=True),
        "error": Object(
            kind="other", members={**_EVENT, **words("code", "param"), "error": ERROR}, ends={"type": ("/",)}
        ),
    },
    other=Object(kind="other", members={**_EVENT, "error": ERROR}, ends={"error": ("/",)}),
)

RESPONSES: Final = TextMap(request=REQUEST, response=RESPONSE, event=EVENTS)
COMPACTIONS: Final = TextMap(request=REQUEST, response=RESPONSE)
_LIST_MEMBERS: Final[dict[str, Shape]] = {**words("object", "id", "first_id", "last_id"), "metadata": OTHER}
ITEMS: Final = TextMap(
    request=make_shape(NewConversationSchema),
    response=Events(
        shapes={"list": Object(kind="other", members={**_LIST_MEMBERS, "data": ITEM})},
        other=Events(shapes={"conversation": Object(kind="other", members=_LIST_MEMBERS)}, other=ITEM, name="object"),
        name="object",
    ),
)
"""Conversations, their items, and the input items of stored responses."""
COUNT: Final = TextMap(request=REQUEST, response=Object(kind="other", members=words("object")))

RESPONSE_SCHEMA: Final[JsonSchema] = make_object(
    ("id", "object", "created_at", "model", "status", "output"),
    id=json_schemas.TEXT,
    object={"const": "response"},
    created_at={"type": "number"},
    model=json_schemas.TEXT,
    status=json_schemas.TEXT,
    output={"type": "array", "items": ANY_OBJECT},
    usage={"anyOf": [json_schemas.USAGE, {"type": "null"}]},
    error={"type": ["object", "null"]},
)

ROUTES: Final[Mapping[str, RouteDescription]] = {
    "POST /v1/responses": RouteDescription(
        summary="Create a response",
        tag="responses",
        body=ResponseBodySchema,
        answer=RESPONSE_SCHEMA,
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
                    "input": WEATHER["messages"],
                    "tools": [{"type": "function", "name": "get_weather", "parameters": CITY}],
                },
            ),
        ),
    ),
    "POST /v1/responses/compact": RouteDescription(
        summary="Compact a conversation",
        description="Takes fields of `/v1/responses`, of which only the model is required.",
        tag="responses",
        body=StateBodySchema,
        answer=make_object(
            ("id", "object", "output"), id=json_schemas.TEXT, output={"type": "array", "items": ANY_OBJECT}
        ),
        examples=(RouteExample(name="items", summary="A conversation", body={"input": HELLO}),),
    ),
    "POST /v1/responses/input_tokens": RouteDescription(
        summary="Count the tokens of a response's input",
        description="Takes fields of `/v1/responses`. An estimate where no target of the model counts tokens.",
        tag="responses",
        body=StateBodySchema,
        answer=make_object(("object", "input_tokens"), object=json_schemas.TEXT, input_tokens=json_schemas.COUNT),
        examples=(RouteExample(name="text", summary="A question", body={"input": "Say hello."}, operation="chat"),),
    ),
}
"""The descriptions by method and path."""
