"""Items of the gateway's own responses that a client sends back, on their way to an upstream with this format.

The gateway made their ids, for responses of other vendors' models. The vendor looks up ids, even the ids of whole items, and
rejects the request with a 404 if it has not issued an id. So the ids are removed. An item that is useless without its id, such
as reasoning that only another vendor could read, is left out and reported.

Source: openai-python 3.52, types/responses/response_input_item_param.py (ids are optional); reports of the 404:
langchain-ai/langchain#38372 (messages and reasoning, 2026-06), jrkropp/open-webui-developer-toolkit#715.
"""

from __future__ import annotations

from typing import Any

from tornado_gate.types import Call
from tornado_gate.types.upstream_objects import make_record_name
from tornado_gate_openai.wire.responses import get_item_type, has_made_id, is_self_contained

Item = dict[str, Any]


async def remove_made_ids(call: Call, items: list[Item], *, path: str = "") -> list[Item]:
    """Return `items` without ids that the gateway made, and without items that are useless without their ids.

    Returns the same list if nothing changes.

    `path` is the field that all items come from; without one they are the caller's ``input``. Ids that the upstream of this
    call has issued are kept, whatever their form.
    """
    made = [number for number, item in enumerate(items) if _may_be_made(item)]
    if not made:
        return items
    names = {number: make_record_name("item", items[number]["id"]) for number in made}
    issued = await call.memory.get_many(set(names.values()))
    sent: list[Item] = []
    for number, item in enumerate(items):
        record = issued.get(names.get(number, ""))
        if number not in names or (record is not None and record["provider"] == call.target.provider):
            sent.append(item)
        elif is_self_contained(item):
            sent.append({name: value for name, value in item.items() if name != "id"})
        else:
            call.drop_field(path or f"input.{number}")
    return sent


def _may_be_made(item: Item) -> bool:
    return has_made_id(item) and get_item_type(item) != "item_reference"
