from __future__ import annotations

import asyncio

from tests.support.garbage import find_garbage


class Node:
    def __init__(self) -> None:
        self.itself = self


def is_node(value: object) -> bool:
    return isinstance(value, Node)


def test_a_cycle_is_found_unless_it_was_there_before_or_comes_only_once() -> None:
    kept = [Node()]
    once = [True]

    async def leave_always() -> None:
        Node()

    async def leave_what_was_there() -> None:
        kept.clear()

    async def leave_once() -> None:
        if once:
            Node()
            once.clear()

    assert asyncio.run(find_garbage(leave_always, is_node)) == {"Node": 1}
    assert asyncio.run(find_garbage(leave_what_was_there, is_node)) == {}
    assert asyncio.run(find_garbage(leave_once, is_node)) == {}
