"""The objects that a responses body refers to by id: earlier turns, a conversation, and items.

All belong to the caller's account.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tornado_gate.types import Call
from tornado_gate.types.value import Value
from tornado_gate_openai.format.stored import conversation_store, store
from tornado_gate_openai.wire.responses import read_items


class History(Value, frozen=True, kw_only=True):
    """A conversation: the `earlier` items, of the field `path`, then the `items` of ``input`` with references resolved.

    `last` is the name of the last member of a kept conversation. `chain` are the ids of earlier turns, newest first.
    """

    earlier: list[dict[str, Any]]
    items: list[dict[str, Any]]
    path: str = store.PREVIOUS_RESPONSE_ID
    last: str = ""
    chain: tuple[str, ...] = ()


async def load(call: Call, body: Mapping[str, Any]) -> History:
    """Return the conversation of a checked body, from the gateway's own store.

    Raises InvalidField for an unknown previous response, NotFound for an unknown item or conversation, and RequestError for a
    conversation that is full.
    """
    previous, path, last = body.get(store.PREVIOUS_RESPONSE_ID), store.PREVIOUS_RESPONSE_ID, ""
    chain = await store.load_history(call, previous) if previous else store.NO_CHAIN
    earlier = chain.items
    if conversation_id := conversation_store.get_id(body):
        path = "conversation"
        conversation_store.check_rules(call, path)
        conversation = await conversation_store.get(call, conversation_id, path)
        conversation.check_space(path)
        earlier = conversation_store.select_items(call, conversation)
        last = conversation.last_name
    turn_input = body.get("input")
    items = await store.resolve_references(call, read_items(turn_input or ()), earlier, strict=True)
    return History(earlier=earlier, items=items, path=path, last=last, chain=chain.earlier)
