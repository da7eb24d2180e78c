"""The bodies of ``/v1/conversations`` and below.

Source: openai-python 3.52, types/conversations/conversation_create_params.py and item_create_params.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.codec.checks import raise_invalid
from tornado_gate.codec.fields import Array, BodySchema, Declared, FunctionField, check, get_schema
from tornado_gate.types import text_maps
from tornado_gate.types.text_maps import OTHER, words
from tornado_gate_openai.fields.chat import check_metadata
from tornado_gate_openai.fields.json_schemas import STRINGS
from tornado_gate_openai.fields.object_ids import list_object_references
from tornado_gate_openai.fields.response_items import ITEM, make_items_shape

_MAX_NEW_ITEMS: Final = 20
"""The maximum number of items that one request adds."""
_MAX_PAIRS: Final = 16
_MAX_NAME_CHARS: Final = 64
_MAX_VALUE_CHARS: Final = 512


def _check_metadata(metadata: Any) -> None:
    check_metadata(metadata)
    if len(metadata) > _MAX_PAIRS:
        raise_invalid("metadata", f"has {len(metadata)} pairs; at most {_MAX_PAIRS} are allowed")
    for name, value in metadata.items():
        if len(name) > _MAX_NAME_CHARS or len(value) > _MAX_VALUE_CHARS:
            raise_invalid(
                f"metadata.{name[:_MAX_NAME_CHARS]}",
                f"is too long: names may have {_MAX_NAME_CHARS} characters, values {_MAX_VALUE_CHARS}",
            )


def _make_items(**options: Any) -> Array:
    return Array(ITEM, most=_MAX_NEW_ITEMS, text=lambda: make_items_shape("user"), **options)


def _make_metadata(**options: Any) -> FunctionField:
    keywords = {**STRINGS, "maxProperties": _MAX_PAIRS}
    return FunctionField(_check_metadata, allow_none=True, text=OTHER, keywords=keywords, **options)


def _need_contents(body: Mapping[str, Any]) -> None:
    """Reject items whose content only one upstream knows, because a conversation may be continued at every model."""
    for number, item in enumerate(body.get("items") or ()):
        if item.get("type") in ("item_reference", "compaction_trigger") or item.keys() == {"id"}:
            raise_invalid(f"items.{number}", "must be an item with its content, not a reference or a trigger")
    for reference in list_object_references({"items": body.get("items")}):
        raise_invalid(
            reference.param,
            "is the id of an object at an upstream, but a conversation may be continued at every model. Send the content, or "
            "send the id in 'input' of a request",
        )


class NewConversationSchema(BodySchema):
    """The body of ``POST /v1/conversations``."""

    texts = text_maps.Object(kind="other", members=words("object", "id", "first_id", "last_id"))
    rules = (_need_contents,)

    items: Declared[Any] = _make_items(allow_none=True)
    metadata = _make_metadata()


class ConversationMetadataSchema(BodySchema):
    """The body that changes a conversation. null removes the metadata."""

    metadata = _make_metadata(required=True)


class NewItemsSchema(BodySchema):
    """The body that adds items to a conversation."""

    rules = (_need_contents,)

    items = _make_items(least=1, required=True, error_messages={"null": "is missing"})


def check_new_conversation(body: Mapping[str, Any]) -> None:
    """Raise InvalidField for the first invalid member."""
    check(get_schema(NewConversationSchema), body)


def check_conversation_metadata(body: Mapping[str, Any]) -> None:
    """Raise InvalidField for the first invalid member."""
    check(get_schema(ConversationMetadataSchema), body)


def check_new_items(body: Mapping[str, Any]) -> None:
    """Raise InvalidField for the first invalid member."""
    check(get_schema(NewItemsSchema), body)
