"""The routes of stored responses: ``GET`` and ``DELETE /v1/responses/{id}``, and ``GET`` of its input items.

The routes need no model, because the responses are in the caller's memory.

Source: openai-python 3.52, resources/responses/responses.py and input_items.py; OpenAI's API reference, "Delete a model
response".
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import orjson

from tornado_gate.errors import InvalidField
from tornado_gate.types import Call, Reply, Route, WireRequest
from tornado_gate_format_openai import store
from tornado_gate_format_openai.replies import JSON_TYPE
from tornado_gate_format_openai.responses import drop_encrypted

_ITEMS_ROUTE: Final = Route("GET", "/v1/responses/{response_id}/input_items", "chat", model="none")
_READ_ROUTE: Final = Route("GET", "/v1/responses/{response_id}", "chat", model="none")
_DELETE_ROUTE: Final = Route("DELETE", "/v1/responses/{response_id}", "chat", model="none")
ROUTES: Final = (_ITEMS_ROUTE, _READ_ROUTE, _DELETE_ROUTE)

_MAX_LIMIT: Final = 100
_DEFAULT_LIMIT: Final = 20


async def reply(call: Call, wire: WireRequest) -> Reply:
    """Return the reply to a request on one of `ROUTES`. Raises NotFound for a response that this account does not have."""
    return Reply(content_type=JSON_TYPE, chunks=_iterate_once(orjson.dumps(await _render_answer(call, wire))))


async def _render_answer(call: Call, wire: WireRequest) -> Mapping[str, Any]:
    response_id = wire.path_arguments["response_id"]
    if wire.route == _DELETE_ROUTE:
        await store.delete_turn(call, response_id)
        return {"id": response_id, "object": "response", "deleted": True}
    record = await store.get_turn(call, response_id, "response_id")
    if wire.route == _ITEMS_ROUTE:
        return _render_page(_add_item_ids(record), wire.query)
    body = record["response"]
    return {**body, "output": [drop_encrypted(item) for item in body["output"]]}


async def _iterate_once(chunk: bytes) -> AsyncIterator[bytes]:
    yield chunk


def _add_item_ids(record: store.TurnRecord) -> list[dict[str, Any]]:
    """Return the input items, each with an id as in the vendor's list; items without an id get one."""
    stem = str(record["response"]["id"]).removeprefix("resp_")
    items = (drop_encrypted(item) for item in record["input"])
    return [{"id": f"item_{stem}{number:04x}", **item} for number, item in enumerate(items)]


def _render_page(items: list[dict[str, Any]], query: Mapping[str, str]) -> dict[str, Any]:
    """Return a page: at most `limit` items after the id `after`, the newest first unless `order` is ``asc``."""
    limit = query.get("limit", str(_DEFAULT_LIMIT))
    if not limit.isascii() or not limit.isdecimal() or not 1 <= int(limit[:9]) <= _MAX_LIMIT:
        raise InvalidField("limit", f"'limit' must be an integer from 1 to {_MAX_LIMIT}, not '{limit[:50]}'.")
    ordered = items if query.get("order") == "asc" else items[::-1]
    ids = [item["id"] for item in ordered]
    after = query.get("after")
    first = ids.index(after) + 1 if after in ids else 0
    page = ordered[first : first + int(limit)]
    return {
        "object": "list",
        "data": page,
        "first_id": page[0]["id"] if page else None,
        "last_id": page[-1]["id"] if page else None,
        "has_more": first + len(page) < len(items),
    }
