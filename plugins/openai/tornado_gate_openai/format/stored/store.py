"""Stored turns of the responses route: kept in the caller's memory, found by ``previous_response_id``.

A record is one turn with the id of the turn before it: ``{"previous": id or null, "input": [items], "response": body}``, or with
its place in a conversation that the gateway keeps: ``"conversation": {"id": …, "last": name of the member before it}``. A
copy of a response that an upstream stores has its provider entry in ``"kept_by"``; only other targets use the copy. The
memory belongs to the caller's account, so the ids of other accounts are not found.

``"earlier"`` are ids of turns before it, newest first. With them a chain of up to MAX_EARLIER turns is two reads of the memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tornado_gate.errors import InvalidField, NotFound, RequestError
from tornado_gate.types import Call
from tornado_gate.types.value import Value
from tornado_gate_openai.format.stored import conversation_store
from tornado_gate_openai.wire.responses import get_item_type, get_response_id, is_own_compaction

TurnRecord = Mapping[str, Any]
ItemList = list[dict[str, Any]]

_PREFIX: Final = "openai-responses:"
MAX_TURNS: Final = 1000
"""Maximum number of turns that are loaded of a chain, counted from its end."""
MAX_EARLIER: Final = 100
"""Maximum number of ids of earlier turns in a record: about 5 KB."""


async def save_turn(
    call: Call,
    previous: str | None,
    items: Iterable[Mapping[str, Any]],
    body: Mapping[str, Any],
    *,
    earlier: Sequence[str] = (),
    last: str = "",
    kept_by: str = "",
) -> None:
    """Store a turn for the time in conf: the id of the turn before it, its input `items` and the response `body`.

    `earlier` are the ids of `list_earlier`. `last` is the name of the member of a kept conversation after which the turn came.
    `kept_by` is the provider entry whose upstream stores the response, for a copy.
    """
    record: dict[str, Any] = {"previous": previous, "input": list(items), "response": dict(body)}
    if earlier:
        record["earlier"] = list(earlier)
    if last:
        record["conversation"] = {"id": conversation_store.get_id(body), "last": last}
    if kept_by:
        record["kept_by"] = kept_by
    await call.memory.put(make_name(str(body["id"])), record, call.responses.seconds)


async def find_turn(call: Call, response_id: str) -> TurnRecord | None:
    """Return the record of a response, or None if this account has no response with that id."""
    record = await call.memory.get(make_name(response_id))
    return record if isinstance(record, Mapping) else None


async def delete_turn(call: Call, response_id: str) -> None:
    """Delete a record."""
    await call.memory.delete(make_name(response_id))


async def get_turn(call: Call, response_id: str, param: str) -> TurnRecord:
    """Return the record of a response. Raises `response_not_found_error`; `param` is the field or parameter with the id."""
    record = await find_turn(call, response_id)
    if record is None:
        raise response_not_found_error(response_id, param)
    return record


PREVIOUS_RESPONSE_ID = "previous_response_id"


def response_not_found_error(response_id: str, param: str) -> RequestError:
    """Return the error for an unknown response: a 404, but a 400 for ``previous_response_id``.

    The vendor's 400 has the code ``previous_response_not_found``, on which clients send the whole conversation again.
    Source: reports of the vendor's clients, e.g. maximhq/bifrost issue 2441 (2026-03).
    """
    shown = response_id[:100]
    if param == PREVIOUS_RESPONSE_ID:
        return InvalidField(
            param, f"Previous response with id '{shown}' not found.", code="previous_response_not_found"
        )
    return NotFound(
        f"The response '{shown}' does not exist, or it was deleted or has expired.",
        param=param,
        code="response_not_found",
    )


def item_not_found_error(item_id: str, param: str) -> NotFound:
    """Return the error for an unknown item."""
    message = f"The item '{item_id[:100]}' does not exist. Send the item itself instead of a reference."
    return NotFound(message, param=param, code="item_not_found")


class Chain(Value, frozen=True):
    """The `items` of a chain of turns, oldest first, and the `earlier` ids for a turn that continues it."""

    items: ItemList
    earlier: tuple[str, ...]


NO_CHAIN: Final = Chain([], ())


def list_earlier(response_id: str, turn: TurnRecord) -> tuple[str, ...]:
    """Return the ids of turns before one that continues `turn`, newest first; none before a compaction by the gateway."""
    if any(map(is_own_compaction, turn["response"]["output"])):
        return (response_id,)
    return (response_id, *turn.get("earlier", ()))[:MAX_EARLIER]


async def load_history(call: Call, response_id: str, turn: TurnRecord | None = None) -> Chain:
    """Return all items up to and including the response `response_id`; none before a compaction by the gateway.

    `turn` is the record of this response, if it is known. Raises InvalidField (code ``previous_response_not_found``) when a turn
    of the chain is missing.
    """
    turns: list[ItemList] = []
    records: dict[str, Any] = {} if turn is None else {response_id: turn}
    previous_id: str | None = response_id
    before: Sequence[str] = ()
    earlier: tuple[str, ...] = ()
    while previous_id is not None and len(turns) < MAX_TURNS:
        record = await _get_chained(call, previous_id, before, records)
        earlier = earlier or list_earlier(response_id, record)
        input_items, output = record["input"], record["response"]["output"]
        if "kept_by" in record:
            input_items, output = (
                conversation_store.make_portable(items, lambda: call.drop_field(PREVIOUS_RESPONSE_ID))
                for items in (input_items, output)
            )
        if any(map(is_own_compaction, output)):  # it replaces everything before it
            turns.append(output)
            break
        turns.append([*input_items, *output])
        if conversation_id := record.get("conversation"):
            conversation = await conversation_store.get(call, conversation_id["id"], PREVIOUS_RESPONSE_ID)
            turns.append(conversation_store.select_items(call, conversation, conversation_id["last"]))
        previous_id, before = record["previous"], record.get("earlier", ())
    return Chain([item for items in reversed(turns) for item in items], earlier)


async def _get_chained(call: Call, response_id: str, earlier: Sequence[str], records: dict[str, Any]) -> TurnRecord:
    """Return a turn from `records`. If it is not there, they are replaced by the turn and `earlier` ones, which are read."""
    if response_id not in records:
        ids = dict.fromkeys([response_id, *earlier])
        values = await call.memory.get_many(map(make_name, ids))
        records.clear()
        records.update((name.removeprefix(_PREFIX), value) for name, value in values.items())
    record = records.get(response_id)
    if not isinstance(record, Mapping):
        raise response_not_found_error(response_id, PREVIOUS_RESPONSE_ID)
    return record


async def resolve_references(call: Call, items: ItemList, known: ItemList, *, strict: bool) -> ItemList:
    """Return `items` with each reference replaced by its item, taken from `known` or from a stored response.

    A reference to an unknown item is kept; when `strict`, it raises NotFound with its path.
    """
    resolved: ItemList = []
    by_id = {item["id"]: item for item in known if "id" in item}
    for number, item in enumerate(items):
        if get_item_type(item) != "item_reference":
            resolved.append(item)
            continue
        item_id = str(item["id"])
        target = by_id.get(item_id) or await _find_item(call, item_id)
        if target is None and strict:
            raise item_not_found_error(item_id, f"input.{number}.id")
        resolved.append(target or item)
    return resolved


async def _find_item(call: Call, item_id: str) -> dict[str, Any] | None:
    """The item in a stored response; None for an item that the target itself keeps and finds by its id."""
    record = await find_turn(call, get_response_id(item_id))
    if record is None or ("kept_by" in record and record["kept_by"] == call.target.provider):
        return None
    output = record["response"]["output"]
    return next((item for item in output if item.get("id") == item_id), None)


def make_name(response_id: str) -> str:
    """Return the name of a record in ``call.memory``."""
    return f"{_PREFIX}{response_id}"
