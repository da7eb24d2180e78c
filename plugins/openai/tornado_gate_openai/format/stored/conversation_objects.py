"""The routes of conversations: ``/v1/conversations`` and the items of a conversation.

They need no model; the gateway serves them.

Source: openai-python 3.52, resources/conversations/conversations.py and items.py.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import orjson

from tornado_gate.errors import NotFound
from tornado_gate.types import Call, Reply, Route, WireRequest
from tornado_gate_openai.fields.conversations import (
    check_conversation_metadata,
    check_new_conversation,
    check_new_items,
)
from tornado_gate_openai.fields.response_answers import ITEMS
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

_ENCRYPTED: Final = "reasoning.encrypted_content"


async def answer(call: Call, wire: WireRequest) -> Reply:
    """Return the response. Raises InvalidField, NotFound, and Unavailable when the store cannot be used."""
    return Reply(content_type=JSON_TYPE, chunks=_iterate_once(orjson.dumps(await _answer(call, wire))))


async def _iterate_once(chunk: bytes) -> AsyncIterator[bytes]:
    yield chunk


async def _answer(call: Call, wire: WireRequest) -> Mapping[str, Any]:
    if wire.route.path == _ALL:
        check_new_conversation(wire.json)
        items, metadata = wire.json.get("items") or (), wire.json.get("metadata") or {}
        return (await store.create(call, items, metadata)).render()
    conversation_id = wire.path_arguments["conversation_id"]
    conversation = await store.get(call, conversation_id, "conversation_id")
    if wire.route.path == _ONE:
        return await _answer_about_one(call, wire, conversation)
    if wire.route.path == _ITEM:
        return await _answer_about_item(call, wire, conversation)
    if wire.route.method == "GET":
        return render_page([_show(entry.item, wire) for entry in conversation.entries], wire.query)
    check_new_items(wire.json)
    return _render_list(await store.add_items(call, conversation, wire.json["items"]), wire)


async def _answer_about_one(call: Call, wire: WireRequest, conversation: store.Conversation) -> Mapping[str, Any]:
    if wire.route.method == "DELETE":
        await store.delete(call, conversation.id)
        return {"id": conversation.id, "object": "conversation.deleted", "deleted": True}
    if wire.route.method == "POST":
        check_conversation_metadata(wire.json)
        conversation = await store.set_metadata(call, conversation, wire.json["metadata"] or {})
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
