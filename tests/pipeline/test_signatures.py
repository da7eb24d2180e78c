"""Thinking and its signatures go back to their issuer, whatever the client dropped, and to nobody else."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from tornado_gate.pipeline import signatures as continuity
from tornado_gate.storage.conversation_state import MemoryStore, SharedMemory
from tornado_gate.streams import batches
from tornado_gate.streams.events import iterate_events, replay
from tornado_gate.testing import call_to, chat
from tornado_gate.types import (
    Call,
    ChatRequest,
    ChatResult,
    Choice,
    Message,
    Opaque,
    Part,
    ResponseRules,
    StreamEvent,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    replace,
)

THOUGHT = Thinking(text="hm", signature=Opaque(issuer="", value="sig-1"))
CALL = ToolCall(id="call_1", name="f", arguments="{}")
SIGNED_CALL = replace(CALL, signature=Opaque(issuer="", value="sig-2"))
RESULT = Message(role="tool", parts=(ToolResult(call_id="call_1", parts=(Text(text="42"),)),))


@pytest.fixture
def call(tmp_path: Path) -> Call:
    return at(call_to(memory=SharedMemory(MemoryStore(tmp_path)).get_account_memory("ann")), "acme")


def at(call: Call, provider: str) -> Call:
    return replace(call, target=replace(call.target, provider=provider), losses=[])


async def answered(call: Call, parts: Iterable[Part], *, unsigned: bool = False) -> list[StreamEvent]:
    result = ChatResult(model="m", choices=(Choice(parts=tuple(parts), reason="tool_calls"),))
    events = iterate_events(replay(result))
    return [event async for event in continuity.record_signatures(call, events, unsigned=unsigned)]


def turn(*parts: Part) -> ChatRequest:
    return replace(chat(), messages=(*chat().messages, Message(role="assistant", parts=parts), RESULT))


async def seen(call: Call, *parts: Part, signatures: bool = True) -> tuple[Part, ...]:
    request = await continuity.restore_signatures(call, turn(*parts), signatures=signatures)
    assert isinstance(request, ChatRequest)
    return request.messages[1].parts


def values(parts: Iterable[Part]) -> list[object]:
    return [s.value if (s := continuity._get_signature(part)) else None for part in parts]


@pytest.mark.gen_test
async def test_the_events_of_an_answer_are_not_changed(call: Call) -> None:
    result = ChatResult(model="m", choices=(Choice(parts=(THOUGHT, SIGNED_CALL), reason="tool_calls"),))
    assert await answered(call, (THOUGHT, SIGNED_CALL)) == list(replay(result))


@pytest.mark.gen_test
async def test_thinking_that_a_client_dropped_comes_back_before_its_call(call: Call) -> None:
    await answered(call, (THOUGHT, CALL))
    parts = await seen(call, CALL)
    assert [type(part) for part in parts] == [Thinking, ToolCall]
    assert parts[0] == replace(THOUGHT, signature=Opaque(issuer="acme", value="sig-1"))


@pytest.mark.gen_test
async def test_reasoning_shown_without_its_signature_is_replaced_by_the_whole(call: Call) -> None:
    await answered(call, (THOUGHT, CALL))
    parts = await seen(call, Thinking(text="h…"), Text(text="so"), CALL)
    assert [type(part) for part in parts] == [Thinking, Text, ToolCall]
    assert values(parts)[0] == "sig-1"


@pytest.mark.gen_test
async def test_the_signature_of_a_call_comes_back_on_the_same_call(call: Call) -> None:
    second = ToolCall(id="call_2", name="g", arguments="{}")
    await answered(call, (SIGNED_CALL, second))
    assert values(await seen(call, CALL, second)) == ["sig-2", None]


@pytest.mark.gen_test
async def test_what_the_client_kept_is_not_doubled(call: Call) -> None:
    await answered(call, (THOUGHT, CALL))
    assert await seen(call, THOUGHT, CALL) == (THOUGHT, CALL)


@pytest.mark.gen_test
@pytest.mark.parametrize("signatures", [True, False])
async def test_another_provider_sees_no_foreign_signature(call: Call, signatures: bool) -> None:
    await answered(call, (THOUGHT, SIGNED_CALL))
    other = at(call, "other")
    assert await seen(other, THOUGHT, SIGNED_CALL, signatures=signatures) == (CALL,)
    assert other.losses == ["messages.1.content.0"]


@pytest.mark.gen_test
async def test_a_signature_that_nobody_here_issued_goes_nowhere(call: Call) -> None:
    assert await seen(call, THOUGHT, SIGNED_CALL) == (CALL,)


@pytest.mark.gen_test
async def test_another_account_gets_nothing_back(call: Call, tmp_path: Path) -> None:
    await answered(call, (THOUGHT, CALL))
    bob = replace(call, memory=SharedMemory(MemoryStore(tmp_path)).get_account_memory("bob"))
    assert await seen(bob, CALL) == (CALL,)


@pytest.mark.gen_test
async def test_thinking_without_a_signature_is_left_as_it_is(call: Call) -> None:
    plain = Thinking(text="hm")
    assert await seen(call, plain, CALL) == (plain, CALL)
    assert not call.losses


@pytest.mark.gen_test
@pytest.mark.parametrize("unsigned", [True, False])
async def test_unsigned_thinking_that_a_client_dropped_comes_back_where_it_is_needed(
    call: Call, unsigned: bool
) -> None:
    plain = Thinking(text="hm")
    await answered(call, (plain, Text(text="so"), CALL), unsigned=unsigned)
    assert await seen(call, Text(text="so"), CALL) == ((plain,) if unsigned else ()) + (Text(text="so"), CALL)
    shown = Thinking(text="h…")
    assert await seen(call, shown, CALL) == (shown, CALL)
    assert await seen(at(call, "other"), CALL) == (CALL,)


@pytest.mark.gen_test
async def test_redacted_thinking_comes_back_redacted(call: Call) -> None:
    hidden = Thinking(redacted=True, signature=Opaque(issuer="", value="hidden"))
    await answered(call, (hidden, CALL))
    (first, _) = await seen(call, CALL)
    assert isinstance(first, Thinking)
    assert (first.redacted, values([first])) == (True, ["hidden"])


@pytest.mark.gen_test
async def test_what_came_before_the_end_does_not_wait_for_the_memory(call: Call) -> None:
    result = ChatResult(model="m", choices=(Choice(parts=(THOUGHT, SIGNED_CALL), reason="tool_calls"),))
    events = list(replay(result))
    remembered: list[bool] = []

    class Watched:
        async def put_many(self, values: dict[str, object], seconds: float) -> None:
            remembered.append(True)

    async def together() -> list[StreamEvent]:
        return events

    watched = replace(call, memory=Watched())
    read = batches.iterate_batches(
        continuity.record_signatures(watched, batches.DeferredItems(together, iterate_events(iter([]))))
    )
    assert await anext(read) == events[:-1]
    assert not remembered
    assert await anext(read) == events[-1:]
    assert remembered


def read_files(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir())


@pytest.mark.gen_test
async def test_no_thinking_is_stored_where_conf_forbids_storing(call: Call, tmp_path: Path) -> None:
    call = replace(call, responses=ResponseRules(store="never"))
    await answered(call, (replace(THOUGHT, text="private thinking"), SIGNED_CALL))
    written = read_files(tmp_path)
    assert b"private thinking" not in written
    assert b"sig-" not in written
    assert values(await seen(call, THOUGHT, SIGNED_CALL)) == ["sig-1", "sig-2"]  # the issuer is known
    assert values(await seen(at(call, "other"), THOUGHT, SIGNED_CALL)) == [None]


FIRST = Thinking(text="one", signature=Opaque(issuer="", value="s-1"))
SECOND = Thinking(text="two", signature=Opaque(issuer="", value="s-2"))
OTHER = ToolCall(id="call_2", name="g", arguments="{}")


def names(parts: tuple[Part, ...]) -> list[str]:
    return [part.text if isinstance(part, Text | Thinking) else getattr(part, "name", "") for part in parts]


@pytest.mark.parametrize(
    ("said", "kept", "expected"),
    [
        ((FIRST, Text(text="a"), SECOND, CALL), (Text(text="a"), CALL), ["one", "a", "two", "f"]),
        ((Text(text="a"), FIRST, CALL), (Text(text="a"), CALL), ["a", "one", "f"]),
        ((FIRST, CALL, SECOND, OTHER), (CALL, OTHER), ["one", "f", "two", "g"]),
        # a client that joins texts, or drops them
        ((Text(text="a"), FIRST, Text(text="b"), SECOND, CALL), (Text(text="ab"), CALL), ["ab", "one", "two", "f"]),
        ((Text(text="a"), FIRST, CALL), (CALL,), ["one", "f"]),
        # a client that kept half of it
        ((FIRST, Text(text="a"), SECOND, CALL), (FIRST, Text(text="a"), CALL), ["one", "a", "two", "f"]),
        ((FIRST, Text(text="a"), SECOND, CALL), (FIRST, Text(text="a"), SECOND, CALL), ["one", "a", "two", "f"]),
    ],
)
@pytest.mark.gen_test
async def test_thinking_comes_back_to_its_place(
    call: Call, said: tuple[Part, ...], kept: tuple[Part, ...], expected: list[str]
) -> None:
    await answered(call, said)
    assert names(await seen(call, *kept)) == expected
