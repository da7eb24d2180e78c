"""What a responses body refers to by id: earlier turns and items. The items are looked up in the caller's account."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tornado_gate.types import Call
from tornado_gate.types.value import Value
from tornado_gate.wire.openai_responses import read_items
from tornado_gate_format_openai import store


class History(Value, frozen=True, kw_only=True):
    """A conversation: the `earlier` items, of the field `path`, then the `items` of ``input`` with references resolved."""

    earlier: list[dict[str, Any]]
    items: list[dict[str, Any]]
    path: str = store.PREVIOUS_RESPONSE_ID


async def load(call: Call, body: Mapping[str, Any]) -> History:
    """Return the conversation of a checked body, from the gateway's own store.

    Raises InvalidField for an unknown previous response, and NotFound for an unknown item.
    """
    previous = body.get(store.PREVIOUS_RESPONSE_ID)
    earlier = await store.load_history(call, previous) if previous else []
    given = body.get("input")
    items = await store.resolve_references(call, read_items(given or ()), earlier, strict=True)
    return History(earlier=earlier, items=items)
