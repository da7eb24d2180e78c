"""The descriptions of the routes of stored responses and conversations.

Source of the answers: openai-python 3.52, types/responses/ and types/conversations/.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tornado_gate.types import JsonSchema, RouteDescription, RouteExample, RouteParameter
from tornado_gate_openai.fields.conversations import (
    ConversationMetadataSchema,
    NewConversationSchema,
    NewItemsSchema,
)
from tornado_gate_openai.fields.json_schemas import ANY_OBJECT, COUNT, TEXT, make_list, make_object
from tornado_gate_openai.fields.response_answers import RESPONSE_SCHEMA

_RESPONSES: Final = "responses"
_CONVERSATIONS: Final = "conversations"
_ITEM: Final[JsonSchema] = make_object(("type",), id=TEXT, type=TEXT)
_ITEMS: Final[JsonSchema] = make_list(_ITEM)
_CONVERSATION: Final[JsonSchema] = make_object(
    ("id", "object", "created_at"), id=TEXT, object={"const": "conversation"}, created_at=COUNT, metadata=ANY_OBJECT
)
_DELETED: Final[JsonSchema] = make_object(
    ("id", "object", "deleted"), id=TEXT, object=TEXT, deleted={"type": "boolean"}
)
_PAGE: Final = (
    RouteParameter(
        name="limit", description="The most items.", schema={"type": "integer", "minimum": 1, "maximum": 100}
    ),
    RouteParameter(name="after", description="The id of the last item of the previous page."),
    RouteParameter(name="order", description="By time.", schema={"type": "string", "enum": ["asc", "desc"]}),
)
_HELLO: Final = {"items": [{"type": "message", "role": "user", "content": "Hello."}]}


def _make_example(needs: str, body: object = None, **arguments: str) -> tuple[RouteExample, ...]:
    return (RouteExample(name="one", summary="By its id", body=body, arguments=arguments, needs=needs),)


_STORED: Final = _make_example("a response", response_id="RESPONSE")
_KEPT: Final = _make_example("a conversation", conversation_id="CONVERSATION")
_KEPT_ITEM: Final = _make_example("a conversation", conversation_id="CONVERSATION", item_id="ITEM")

ROUTES: Final[Mapping[str, RouteDescription]] = {
    "GET /v1/responses/{response_id}": RouteDescription(
        summary="Read a stored response", tag=_RESPONSES, answer=RESPONSE_SCHEMA, examples=_STORED
    ),
    "DELETE /v1/responses/{response_id}": RouteDescription(
        summary="Delete a stored response", tag=_RESPONSES, answer=_DELETED, examples=_STORED
    ),
    "POST /v1/responses/{response_id}/cancel": RouteDescription(
        summary="Cancel a response that is made in the background",
        tag=_RESPONSES,
        answer=RESPONSE_SCHEMA,
        examples=_make_example("a response in the background", response_id="RESPONSE"),
    ),
    "GET /v1/responses/{response_id}/input_items": RouteDescription(
        summary="List the input of a stored response",
        tag=_RESPONSES,
        parameters=_PAGE,
        answer=_ITEMS,
        examples=_STORED,
    ),
    "POST /v1/conversations": RouteDescription(
        summary="Create a conversation",
        tag=_CONVERSATIONS,
        body=NewConversationSchema,
        answer=_CONVERSATION,
        examples=(RouteExample(name="items", summary="With a message", body=_HELLO),),
    ),
    "GET /v1/conversations/{conversation_id}": RouteDescription(
        summary="Read a conversation", tag=_CONVERSATIONS, answer=_CONVERSATION, examples=_KEPT
    ),
    "POST /v1/conversations/{conversation_id}": RouteDescription(
        summary="Change the metadata of a conversation",
        tag=_CONVERSATIONS,
        body=ConversationMetadataSchema,
        answer=_CONVERSATION,
        examples=_make_example("a conversation", {"metadata": {"topic": "cats"}}, conversation_id="CONVERSATION"),
    ),
    "DELETE /v1/conversations/{conversation_id}": RouteDescription(
        summary="Delete a conversation", tag=_CONVERSATIONS, answer=_DELETED, examples=_KEPT
    ),
    "GET /v1/conversations/{conversation_id}/items": RouteDescription(
        summary="List the items of a conversation",
        tag=_CONVERSATIONS,
        parameters=_PAGE,
        answer=_ITEMS,
        examples=_KEPT,
    ),
    "POST /v1/conversations/{conversation_id}/items": RouteDescription(
        summary="Add items to a conversation",
        tag=_CONVERSATIONS,
        body=NewItemsSchema,
        answer=_ITEMS,
        examples=_make_example("a conversation", _HELLO, conversation_id="CONVERSATION"),
    ),
    "GET /v1/conversations/{conversation_id}/items/{item_id}": RouteDescription(
        summary="Read an item of a conversation", tag=_CONVERSATIONS, answer=_ITEM, examples=_KEPT_ITEM
    ),
    "DELETE /v1/conversations/{conversation_id}/items/{item_id}": RouteDescription(
        summary="Delete an item of a conversation", tag=_CONVERSATIONS, answer=_CONVERSATION, examples=_KEPT_ITEM
    ),
}
"""By method and path."""
