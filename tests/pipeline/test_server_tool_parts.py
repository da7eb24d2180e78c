"""What an upstream said about its own tools goes back to it, and to nobody else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tornado_gate.pipeline.server_tool_parts import has_server_tools, record_parts, restore_parts
from tornado_gate.storage.conversation_state import MemoryStore, SharedMemory
from tornado_gate.streams.events import iterate_events, replay
from tornado_gate.testing import call_to, chat
from tornado_gate.types import (
    Call,
    ChatRequest,
    ChatResult,
    Choice,
    Message,
    Part,
    ResponseRules,
    ServerTool,
    ServerToolUse,
    StreamEvent,
    Text,
    Tool,
    VendorPart,
    VendorTool,
    replace,
)

SEARCH = VendorTool(wire_format="theirs", value={"type": "search"}, server=ServerTool(kind="web_search"))
OWN: tuple[dict[str, Any], ...] = ({"call": 1}, {"result": "encrypted"})
STEPS: Any = ("call", "result")
SAID = tuple(
    VendorPart(wire_format="ours", value=value, server=ServerToolUse(id="use_1", kind="web_search", step=step))
    for value, step in zip(OWN, STEPS, strict=True)
)
ITEM = VendorPart(wire_format="theirs", value={"item": 1}, server=ServerToolUse(id="use_1", kind="web_search"))


@pytest.fixture
def call(tmp_path: Path) -> Call:
    return at(call_to(memory=SharedMemory(MemoryStore(tmp_path)).get_account_memory("ann")), "acme")


def at(call: Call, provider: str) -> Call:
    return replace(call, target=replace(call.target, provider=provider), losses=[])


async def answer(call: Call, *parts: Part) -> list[StreamEvent]:
    result = ChatResult(model="m", choices=(Choice(parts=parts, reason="stop"),))
    events = list(replay(result))
    passed = [event async for event in record_parts(call, iterate_events(iter(events)))]
    assert passed == events
    return passed


async def restore(call: Call, *parts: Part, tools: Any = (SEARCH,)) -> tuple[Part, ...]:
    said = Message(role="assistant", parts=parts)
    request = await restore_parts(call, replace(chat(), messages=(*chat().messages, said), tools=tools))
    assert isinstance(request, ChatRequest)
    return request.messages[-1].parts


@pytest.mark.gen_test
async def test_the_parts_of_a_use_take_the_place_of_the_callers_item(call: Call) -> None:
    await answer(call, *SAID, Text(text="Found."))
    assert await restore(call, ITEM, Text(text="Found.")) == (replace(ITEM, restored=OWN), Text(text="Found."))


@pytest.mark.gen_test
async def test_the_second_part_of_a_caller_gets_nothing(call: Call) -> None:
    await answer(call, *SAID)
    first, second = await restore(call, *(replace(part, wire_format="theirs") for part in SAID))
    assert isinstance(first, VendorPart)
    assert isinstance(second, VendorPart)
    assert (first.restored, second.restored) == (OWN, ())


@pytest.mark.gen_test
async def test_other_issuers_uses_and_requests_without_the_tool_get_nothing(call: Call) -> None:
    await answer(call, *SAID)
    assert await restore(at(call, "other"), ITEM) == (ITEM,)
    assert await restore(call, ITEM, tools=(Tool(name="f"),)) == (ITEM,)
    unknown = replace(ITEM, server=ServerToolUse(id="use_2", kind="web_search"))
    assert await restore(call, unknown) == (unknown,)


@pytest.mark.gen_test
async def test_nothing_is_stored_where_nothing_may_be(call: Call) -> None:
    await answer(replace(call, responses=ResponseRules(store="never")), *SAID)
    assert await restore(call, ITEM) == (ITEM,)


@pytest.mark.gen_test
async def test_a_use_in_one_part_is_looked_up_by_its_vendor(call: Call) -> None:
    await answer(call, VendorPart(wire_format="ours", value={"id": "use_1"}, server=ITEM.server))
    assert await restore(call, ITEM) == (ITEM,)


def test_only_chats_with_server_tools_are_concerned() -> None:
    assert has_server_tools(replace(chat(), tools=(Tool(name="f"), SEARCH)))
    assert not has_server_tools(replace(chat(), tools=(Tool(name="f"), replace(SEARCH, server=None))))
    assert not has_server_tools(chat())
