"""Conversations that the gateway keeps: groups in the caller's memory. The head is the conversation, the members are its items.

The gateway keeps every conversation that is created through it, because ``POST /v1/conversations`` names no model and so no
provider. Each request with ``conversation`` gets the items as input, at whichever model, and its own items are added when its
response is complete. A member is ``{"item": …, "provider": …, "stored": …}``: `provider` is the provider entry whose upstream
produced the item on the verbatim lane, else ""; `stored`: this upstream has the item under its id.

Source: openai-python 3.52, resources/conversations/ and types/conversations/.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from tornado_gate.codec.ids import make_unique_id
from tornado_gate.errors import InvalidField, NotFound, RequestError
from tornado_gate.types import Call
from tornado_gate.types.value import Value
from tornado_gate_openai.format.stored.listed_items import complete_item
from tornado_gate_openai.wire.responses import get_item_type, is_self_contained

Item = Mapping[str, Any]

MAX_ITEMS: Final = 5_000
MAX_BYTES: Final = 16 * 1024 * 1024
"""Limits of a conversation, which each request reads as a whole: its items are converted in the event loop, which 5,000 items
block for about 50 ms. No item is added above the limits; the items of a response that has begun are added."""

_ID: Final = re.compile(r"conv_[0-9a-f]{32}")
_ITEM_PREFIXES: Final = {
    "message": "msg", "function_call": "fc", "function_call_output": "fco", "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco", "reasoning": "rs", "compaction": "cmp", "image_generation_call": "ig",
    "web_search_call": "ws", "file_search_call": "fs", "code_interpreter_call": "ci",
}  # fmt: skip


class Entry(Value, frozen=True, kw_only=True):
    """An item with its place: `name` is its name in the memory."""

    name: str
    item: dict[str, Any]
    provider: str = ""
    stored: bool = False


class Conversation(Value, frozen=True, kw_only=True):
    """A conversation with all its items, oldest first. `size` is what they take in the memory, in bytes."""

    id: str
    created_at: int
    metadata: Mapping[str, str]
    entries: tuple[Entry, ...] = ()
    size: int = 0

    @property
    def last_name(self) -> str:
        """The name of the last member, or of the head in an empty conversation."""
        return self.entries[-1].name if self.entries else make_head(self.id)

    def render(self) -> dict[str, Any]:
        """Return the vendor's object."""
        return {"id": self.id, "object": "conversation", "created_at": self.created_at, "metadata": dict(self.metadata)}

    def check_space(self, param: str) -> None:
        """Raise RequestError for a conversation that may have no more items."""
        if len(self.entries) >= MAX_ITEMS or self.size >= MAX_BYTES:
            raise RequestError(
                f"The conversation '{self.id}' is full: it has {len(self.entries)} items and {self.size} bytes; at most "
                f"{MAX_ITEMS} items and {MAX_BYTES} bytes are allowed. Delete items, or create a new conversation.",
                param=param,
                code="conversation_too_large",
            )


def make_head(conversation_id: str) -> str:
    """Return the name of a conversation in ``call.memory``; "" for an id that the gateway never makes."""
    return f"openai-conversation:{conversation_id}" if _ID.fullmatch(conversation_id) else ""


def get_id(body: Mapping[str, Any]) -> str:
    """Return the id in ``conversation`` of a body, which is a string or an object; "" without one."""
    value = body.get("conversation")
    identity = value.get("id") if isinstance(value, dict) else value
    return identity if isinstance(identity, str) else ""


def not_found_error(conversation_id: str, param: str) -> NotFound:
    """Return the error for an unknown conversation."""
    return NotFound(
        f"The conversation '{conversation_id[:100]}' does not exist, or it was deleted or has expired.",
        param=param,
        code="conversation_not_found",
    )


def check_rules(call: Call, param: str) -> None:
    """Raise InvalidField where conf forbids to keep conversations. Those kept before can be read and deleted."""
    if call.responses.store != "never":
        return
    raise InvalidField(
        param,
        "This gateway keeps no conversations (its configuration has 'responses: {store: never}'). Send the whole conversation in "
        "'input' of each request.",
        code="conversation_not_found",
    )


async def create(call: Call, items: Iterable[Item], metadata: Mapping[str, str]) -> Conversation:
    """Create a conversation with checked items. Raises InvalidField where conf forbids it, and Unavailable."""
    check_rules(call, "")
    made = Conversation(id=f"conv_{make_unique_id()}", created_at=int(time.time()), metadata=metadata)
    head = make_head(made.id)
    values = {head: _render_head(made), **_make_members(head, map(make_item, items))}
    if not await call.memory.extend_group(head, values, call.responses.seconds, new=True):
        raise not_found_error(made.id, "")
    return made


async def find(call: Call, conversation_id: str) -> Conversation | None:
    """Return a conversation of the caller's account; None if no conversation has this id."""
    head = make_head(conversation_id)
    if not head:
        return None
    group = await call.memory.read_group(head)
    top = group.values.pop(head, None)
    if top is None:
        return None
    entries = tuple(Entry(name=name, **value) for name, value in group.values.items())
    return Conversation(id=conversation_id, entries=entries, size=group.size, **top)


async def get(call: Call, conversation_id: str, param: str) -> Conversation:
    """Return a conversation of the caller's account. Raises NotFound; `param` is the field or parameter with the id."""
    conversation = await find(call, conversation_id)
    if conversation is None:
        raise not_found_error(conversation_id, param)
    return conversation


async def set_metadata(call: Call, conversation: Conversation, metadata: Mapping[str, str]) -> Conversation:
    """Replace the metadata of a conversation. Raises NotFound if it no longer exists."""
    changed = Conversation(id=conversation.id, created_at=conversation.created_at, metadata=metadata)
    await _extend(call, conversation.id, {make_head(conversation.id): _render_head(changed)})
    return changed


async def add_items(call: Call, conversation: Conversation, items: Iterable[Item]) -> list[dict[str, Any]]:
    """Add checked items of the client, and return them as they are kept. Raises NotFound if it no longer exists."""
    conversation.check_space("items")
    made = [make_item(item) for item in items]
    await _extend(call, conversation.id, _make_members(make_head(conversation.id), made))
    return made


async def add_turn(
    call: Call, conversation_id: str, items: Iterable[Item], output: Iterable[Item], provider: str, stored: bool
) -> None:
    """Add the input items and the output of a complete response, unless the conversation no longer exists."""
    head = make_head(conversation_id)
    new_items = [make_item(item) for item in items if item.get("type") != "compaction_trigger"]
    members = _make_members(head, new_items)
    members |= _make_members(head, output, first=len(members), provider=provider, stored=stored)
    await call.memory.extend_group(head, members, call.responses.seconds)


async def delete(call: Call, conversation_id: str) -> bool:
    """Delete a conversation with its items. Returns False if the account has no conversation with this id."""
    head = make_head(conversation_id)
    return bool(head) and await call.memory.delete_group(head)


async def _extend(call: Call, conversation_id: str, values: Mapping[str, Any]) -> None:
    check_rules(call, "conversation_id")
    if not await call.memory.extend_group(make_head(conversation_id), values, call.responses.seconds):
        raise not_found_error(conversation_id, "conversation_id")


def _render_head(conversation: Conversation) -> dict[str, Any]:
    return {"created_at": conversation.created_at, "metadata": dict(conversation.metadata)}


def _make_members(
    head: str, items: Iterable[Item], first: int = 0, provider: str = "", stored: bool = False
) -> dict[str, Any]:
    """Return the members for items, by names that sort in the order in which items are added."""
    stem = f"{head}:{time.time_ns():016x}"
    more = {"provider": provider, "stored": stored} if provider else {}
    return {
        f"{stem}{number:05x}{make_unique_id()[:8]}": {"item": dict(item), **more}
        for number, item in enumerate(items, first)
    }


def make_item(item: Item) -> dict[str, Any]:
    """Return an item of the client as a conversation keeps and shows it: with a new id, a status, and content as parts."""
    kind = get_item_type(item)
    made = complete_item({**item, "type": kind, "id": f"{_ITEM_PREFIXES.get(kind, 'item')}_{make_unique_id()}"})
    if kind not in ("reasoning", "compaction"):
        made["status"] = item.get("status") or "completed"
    return made


def make_portable(items: Iterable[Item], drop: Callable[[], None]) -> list[dict[str, Any]]:
    """Return items of one upstream as another can read them: without ids that only the first can look up, and without
    reasoning.

    `drop` is called for each item whose content only the first has, such as a web search; it is left out.
    """
    portable: list[dict[str, Any]] = []
    for item in items:
        if get_item_type(item) == "reasoning":
            continue
        if is_self_contained(item):
            portable.append({name: value for name, value in item.items() if name != "id"})
        else:
            drop()
    return portable


def select_items(call: Call, conversation: Conversation, before: str = "") -> list[dict[str, Any]]:
    """Return the items of a conversation as input for the target of `call`; with `before` none after the member of this name."""
    selected: list[dict[str, Any]] = []
    for entry in conversation.entries:
        if before and entry.name > before:
            break
        if (
            entry.provider
            and entry.provider == call.target.provider
            and (entry.stored or is_self_contained(entry.item))
        ):
            selected.append(entry.item)
        elif entry.provider or call.target.provider:
            selected += make_portable([entry.item], lambda: call.drop_field("conversation"))
        else:
            selected.append(entry.item)
    return selected
