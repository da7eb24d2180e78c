"""What stays the same through a conversation, in each wire format's own words."""

from __future__ import annotations

from typing import Any

import pytest

from tornado_gate.wire.prompt_prefix import make_prefix_reader

FIRST = {"role": "user", "content": "hi"}
LATER: list[dict[str, Any]] = [{"role": "assistant", "content": "hello"}, {"role": "user", "content": "go on"}]
read = make_prefix_reader("tools", "system", conversation="messages")


def test_later_turns_do_not_change_it() -> None:
    first = {"model": "m", "system": "be kind", "tools": [{"name": "t"}], "messages": [FIRST]}
    assert read(first) == read({**first, "messages": [FIRST, *LATER], "temperature": 1})
    assert read(first) == [[{"name": "t"}], "be kind", FIRST]


@pytest.mark.parametrize("changed", [{"system": "x"}, {"tools": []}, {"messages": [{"role": "user", "content": "x"}]}])
def test_what_begins_another_prompt_changes_it(changed: dict[str, Any]) -> None:
    first = {"system": "be kind", "tools": [{"name": "t"}], "messages": [FIRST]}
    assert read(first) != read({**first, **changed})


def test_instructions_among_the_messages_belong_to_it() -> None:
    leading = [{"role": "system", "content": "a"}, {"role": "developer", "content": "b"}]
    assert read({"messages": [*leading, FIRST, *LATER]}) == [*leading, FIRST]


@pytest.mark.parametrize("body", [[], "x", None, {"messages": 5}, {"messages": [5, None]}, {"messages": []}, {}])
def test_a_body_that_is_not_valid_is_no_error(body: Any) -> None:
    assert len(read(body)) <= 1
