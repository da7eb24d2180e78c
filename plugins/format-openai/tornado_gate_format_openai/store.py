"""What was said in earlier responses: kept in the caller's memory, found again by ``previous_response_id``.

A record holds one turn and names the one before it: ``{"previous": id or null, "input": [items], "response": body}``. Memory
belongs to the caller's account, so that the ids of others are unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from tornado_gate.errors import InvalidField, NotFound, RequestError
from tornado_gate.types import Call
from tornado_gate.wire.openai_responses import get_item_type, get_response_id

TurnRecord = Mapping[str, Any]
ItemList = list[dict[str, Any]]

KEPT_SECONDS: Final = 30 * 24 * 3600
MAX_TURNS: Final = 1000
"""How long a chain may be that is followed back."""


async def save_turn(
    call: Call, previous: str | None, items: Iterable[Mapping[str, Any]], body: Mapping[str, Any]
) -> None:
    """Keep the turn that `body`, a response, answers."""
    record = {"previous": previous, "input": list(items), "response": dict(body)}
    await call.memory.put(_make_key(str(body["id"])), record, KEPT_SECONDS)


async def find_turn(call: Call, response_id: str) -> TurnRecord | None:
    """The record of a response, or None when this account has none of that id."""
    record = await call.memory.get(_make_key(response_id))
    return record if isinstance(record, Mapping) else None


async def delete_turn(call: Call, response_id: str) -> None:
    """Remove a record. Raises NotFound when this account has none of that id."""
    if not await call.memory.delete(_make_key(response_id)):
        raise response_not_found_error(response_id, "response_id")


async def get_turn(call: Call, response_id: str, param: str) -> TurnRecord:
    """The record of a response. Raises what `unknown` makes; `param` names what asked for it."""
    record = await find_turn(call, response_id)
    if record is None:
        raise response_not_found_error(response_id, param)
    return record


PREVIOUS_RESPONSE_ID = "previous_response_id"


def response_not_found_error(response_id: str, param: str) -> RequestError:
    """404, but for a turn to go on from: there the vendor says 400, with a code by which clients learn to send all of it again.

    Source: what clients of the vendor report of it, e.g. maximhq/bifrost issue 2441 (2026-03).
    """
    shown = response_id[:100]
    if param == PREVIOUS_RESPONSE_ID:
        return InvalidField(
            param, f"Previous response with id '{shown}' not found.", code="previous_response_not_found"
        )
    return NotFound(f"There is no response '{shown}'.", param=param, code="response_not_found")


async def load_history(call: Call, response_id: str) -> ItemList:
    """All items up to and with the response `response_id`, oldest first. Raises NotFound when a turn is missing."""
    turns: list[ItemList] = []
    wanted: str | None = response_id
    while wanted is not None and len(turns) < MAX_TURNS:
        record = await get_turn(call, wanted, PREVIOUS_RESPONSE_ID)
        turns.append([*record["input"], *record["response"]["output"]])
        wanted = record["previous"]
    return [item for turn in reversed(turns) for item in turn]


async def resolve_references(call: Call, items: ItemList, known: ItemList, *, strict: bool) -> ItemList:
    """`items` with each reference replaced by the item that it names, which `known` or an earlier response holds.

    A reference to what is unknown is kept, or, when `strict`, raises NotFound with its path.
    """
    found: ItemList = []
    by_id = {item["id"]: item for item in known if "id" in item}
    for number, item in enumerate(items):
        if get_item_type(item) != "item_reference":
            found.append(item)
            continue
        wanted = str(item["id"])
        target = by_id.get(wanted) or await _find_item(call, wanted)
        if target is None and strict:
            message = f"There is no item '{wanted[:100]}'."
            raise NotFound(message, param=f"input.{number}.id", code="item_not_found")
        found.append(target or item)
    return found


async def _find_item(call: Call, item_id: str) -> dict[str, Any] | None:
    record = await find_turn(call, get_response_id(item_id))
    output = record["response"]["output"] if record is not None else ()
    return next((item for item in output if item.get("id") == item_id), None)


def _make_key(response_id: str) -> str:
    return f"openai-responses:{response_id}"
