"""The routes of conversations: ``/v1/conversations`` and the items of a conversation.

They need no model; the gateway serves them.

Source: openai-python 3.52, resources/conversations/conversations.py and items.py.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import orjson

from tornado_gate.codec.checks import raise_invalid, raise_missing
from tornado_gate.errors import NotFound
from tornado_gate.types import Call, Reply, Route, WireRequest
from tornado_gate_openai.fields.chat import check_metadata
from tornado_gate_openai.fields.object_ids import list_object_references
from tornado_gate_openai.fields.response_answers import ITEMS
from tornado_gate_openai.fields.response_items import MAX_NEW_ITEMS, check_new_items
from tornado_gate_openai.format.replies import JSON_TYPE
from tornado_gate_openai.format.responses import drop_encrypted
from tornado_gate_openai.format.stored import conversation_store as store
from tornado_gate_openai.format.stored.listed_items import complete_item
from tornado_gate_openai.format.stored.paging import render_page

_ALL: Final = "/v1/conversations"
_ONE: Final = f"{_ALL}/{{conversation_id}}"
_ITEMS: Final = f"{_ONE}/items"
_ITEM: Final = f"{_ITEMS}/{{item_id}}"
ROUTES: Final = (
    Route("POST", _ALL, "chat", model="none", empty_body=True, texts=ITEMS),
    # `{conversation_id}` also matches slashes, so the longer paths come first.
    Route("GET", _ITEM, "chat", model="none", texts=ITEMS),
    Route("DELETE", _ITEM, "chat", model="none", texts=ITEMS),
    Route("GET", _ITEMS, "chat", model="none", texts=ITEMS),
    Route("POST", _ITEMS, "chat", model="none", texts=ITEMS),
    Route("GET", _ONE, "chat", model="none", texts=ITEMS),
    Route("POST", _ONE, "chat", model="none", texts=ITEMS),
    Route("DELETE", _ONE, "chat", model="none", texts=ITEMS),
)

_MAX_PAIRS: Final = 16
_LONGEST_NAME: Final = 64
_LONGEST_VALUE: Final = 512
"""Limits of metadata (the same source, conversation_create_params.py)."""
_ENCRYPTED: Final = "reasoning.encrypted_content"


async def answer(call: Call, wire: WireRequest) -> Reply:
    """Return the response. Raises InvalidField, NotFound, and Unavailable when the store cannot be used."""
    return Reply(content_type=JSON_TYPE, chunks=_iterate_once(orjson.dumps(await _answer(call, wire))))


async def _iterate_once(chunk: bytes) -> AsyncIterator[bytes]:
    yield chunk


async def _answer(call: Call, wire: WireRequest) -> Mapping[str, Any]:
    if wire.route.path == _ALL:
        return (await store.create(call, _read_items(wire.json, required=False), _read_metadata(wire.json))).render()
    conversation_id = wire.path_arguments["conversation_id"]
    conversation = await store.get(call, conversation_id, "conversation_id")
    if wire.route.path == _ONE:
        return await _answer_about_one(call, wire, conversation)
    if wire.route.path == _ITEM:
        return await _answer_about_item(call, wire, conversation)
    if wire.route.method == "GET":
        return render_page([_show(entry.item, wire) for entry in conversation.entries], wire.query)
    return _render_list(await store.add_items(call, conversation, _read_items(wire.json, required=True)), wire)


async def _answer_about_one(call: Call, wire: WireRequest, conversation: store.Conversation) -> Mapping[str, Any]:
    if wire.route.method == "DELETE":
        await store.delete(call, conversation.id)
        return {"id": conversation.id, "object": "conversation.deleted", "deleted": True}
    if wire.route.method == "POST":
        if "metadata" not in wire.json:
            raise_missing("metadata")
        conversation = await store.set_metadata(call, conversation, _read_metadata(wire.json))
    return conversation.render()


async def _answer_about_item(call: Call, wire: WireRequest, conversation: store.Conversation) -> Mapping[str, Any]:
    item_id = wire.path_arguments["item_id"]
    entry = next((entry for entry in conversation.entries if entry.item.get("id") == item_id), None)
    if entry is None:
        message = f"The conversation '{conversation.id}' has no item '{item_id[:100]}'."
        raise NotFound(message, param="item_id", code="item_not_found")
    if wire.route.method == "GET":
        return _show(entry.item, wire)
    await call.memory.delete(entry.name)
    return conversation.render()


def _read_items(body: Mapping[str, Any], *, required: bool) -> list[Mapping[str, Any]]:
    """Return the checked items of a body. Raises InvalidField."""
    items = body.get("items")
    if items is None and not required:
        return []
    if items is None:
        raise_missing("items")
    if isinstance(items, str):
        raise_invalid("items", "must be an array, not a string")
    if not (items == [] and not required):
        check_new_items(items)
    if len(items) > MAX_NEW_ITEMS:
        raise_invalid("items", f"has {len(items)} items; at most {MAX_NEW_ITEMS} may be added at a time")
    for number, item in enumerate(items):
        if item.get("type") in ("item_reference", "compaction_trigger") or item.keys() == {"id"}:
            raise_invalid(f"items.{number}", "must be an item with its content, not a reference or a trigger")
    for reference in list_object_references({"items": items}):
        raise_invalid(
            reference.param,
            "is the id of an object at an upstream, but a conversation may be continued at every model. Send the content, or "
            "send the id in 'input' of a request",
        )
    return list(items)


def _read_metadata(body: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the checked metadata of a body; {} without. Raises InvalidField."""
    metadata = body.get("metadata")
    if metadata is None:
        return {}
    check_metadata(metadata)
    if len(metadata) > _MAX_PAIRS:
        raise_invalid("metadata", f"has {len(metadata)} pairs; at most {_MAX_PAIRS} are allowed")
    for name, value in metadata.items():
        if len(name) > _LONGEST_NAME or len(value) > _LONGEST_VALUE:
            raise_invalid(
                f"metadata.{name[:_LONGEST_NAME]}",
                f"is too long: names may have {_LONGEST_NAME} characters, values {_LONGEST_VALUE}",
            )
    checked: Mapping[str, str] = metadata
    return checked


def _show(item: dict[str, Any], wire: WireRequest) -> dict[str, Any]:
    """Return an item as the client sees it: complete, and with encrypted reasoning only where ``include`` requests it."""
    includes = (*wire.query_lists.get("include[]", ()), wire.query.get("include"))
    return complete_item(item if _ENCRYPTED in includes else drop_encrypted(item))


def _render_list(items: list[dict[str, Any]], wire: WireRequest) -> dict[str, Any]:
    shown = [_show(item, wire) for item in items]
    return {
        "object": "list",
        "data": shown,
        "first_id": shown[0]["id"] if shown else None,
        "last_id": shown[-1]["id"] if shown else None,
        "has_more": False,
    }
