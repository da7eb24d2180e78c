"""Chains of kept responses: how often the memory is read, and that a chain is what its turns say."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest
from format_openai_calls import FakeMemory
from responses_calls import make_events, read_request, response_call, whole

from tornado_gate.errors import InvalidField
from tornado_gate.types import Text
from tornado_gate_openai.format.stored import store


def make_chain(memory: FakeMemory, turns: int, **fields: Any) -> list[str]:
    """Keep so many turns, which continue each other, and return their ids, oldest first."""
    ids: list[str] = []
    for number in range(turns):
        previous = {"previous_response_id": ids[-1]} if ids else {}
        answer = whole(response_call(memory), make_events("ok"), input=f"turn {number}", **previous, **fields)
        ids.append(answer["id"])
    return ids


def read_chain(memory: FakeMemory, response_id: str) -> list[str]:
    """Return the texts of a conversation that continues a response, and note the reads of the memory."""
    memory.reads.clear()
    request = read_request(response_call(memory), input="last", previous_response_id=response_id)
    parts = [part for message in request.messages for part in message.parts]
    return [part.text for part in parts if isinstance(part, Text) and part.text != "ok"]


@pytest.mark.parametrize(("turns", "reads"), [(1, 1), (2, 2), (101, 2), (102, 3), (250, 4)])
def test_a_chain_is_read_by_hundreds(turns: int, reads: int) -> None:
    memory = FakeMemory()
    ids = make_chain(memory, turns)
    assert read_chain(memory, ids[-1]) == [*(f"turn {number}" for number in range(turns)), "last"]
    assert len(memory.reads) == reads
    assert max(map(len, memory.values.values())) < 12_000


def test_a_turn_can_be_continued_twice() -> None:
    memory = FakeMemory()
    ids = make_chain(memory, 3)
    other = whole(response_call(memory), make_events("ok"), input="branch", previous_response_id=ids[0])
    assert read_chain(memory, other["id"]) == ["turn 0", "branch", "last"]
    assert read_chain(memory, ids[-1]) == ["turn 0", "turn 1", "turn 2", "last"]


def test_a_missing_turn_in_the_middle_is_an_error_that_names_it() -> None:
    memory = FakeMemory()
    ids = make_chain(memory, 6)
    asyncio.run(memory.delete(store.make_name(ids[2])))
    with pytest.raises(InvalidField) as caught:
        read_chain(memory, ids[-1])
    assert (caught.value.code, ids[2] in caught.value.message) == ("previous_response_not_found", True)
    assert read_chain(memory, ids[1]) == ["turn 0", "turn 1", "last"]


def test_turns_of_an_earlier_version_are_read_one_by_one_and_later_ones_together() -> None:
    memory = FakeMemory()
    ids = make_chain(memory, 4)
    for name, raw in memory.values.items():
        memory.values[name] = orjson.dumps({key: value for key, value in orjson.loads(raw).items() if key != "earlier"})
    assert read_chain(memory, ids[-1]) == [*(f"turn {number}" for number in range(4)), "last"]
    assert len(memory.reads) == 4
    later = whole(response_call(memory), make_events("ok"), input="turn 4", previous_response_id=ids[-1])
    assert read_chain(memory, later["id"]) == [*(f"turn {number}" for number in range(5)), "last"]


def test_nothing_before_a_compaction_is_read() -> None:
    memory = FakeMemory()
    ids = make_chain(memory, 5)
    trigger = [{"type": "compaction_trigger"}]
    compacted = whole(response_call(memory), make_events("summary"), input=trigger, previous_response_id=ids[-1])
    later = whole(response_call(memory), make_events("ok"), input="after", previous_response_id=compacted["id"])
    newest = whole(response_call(memory), make_events("ok"), input="more", previous_response_id=later["id"])
    assert read_chain(memory, newest["id"])[-3:] == ["after", "more", "last"]
    names = {name for read in memory.reads for name in read}
    assert names == {store.make_name(str(answer["id"])) for answer in (compacted, later, newest)}
