"""Streams of every chat format after a guard: complete, valid for the vendor's SDK, and without what the guard replaces."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.wire.text_maps.streams import (
    DIALECTS,
    LONGEST_SECRET,
    MASK,
    SECRET,
    Planned,
    guard,
    make_events,
    read_values,
)

SECRETS = ("key-abcd", "key-éfgh")
TEXTS = st.lists(
    st.sampled_from((*SECRETS, "k", "key", "key-", " ", "\n", '"', "\\", "ü😀", "word ")), max_size=12
).map("".join)
CUTS = st.lists(st.integers(1, 9), min_size=1, max_size=5)
CHUNKS = st.lists(st.integers(1, 400), min_size=1, max_size=4)


def cut(text: Any, sizes: list[int]) -> list[Any]:
    pieces, at, number = [], 0, 0
    while at < len(text):
        pieces.append(text[at : at + sizes[number % len(sizes)]])
        at, number = at + sizes[number % len(sizes)], number + 1
    return pieces


@st.composite
def arguments(draw: st.DrawFn) -> str:
    """The JSON of a tool call with secrets in values and names, plain or with escapes."""
    value = {"to": draw(TEXTS), draw(TEXTS) + " ü": [draw(TEXTS), 1.5, None, {"id": draw(TEXTS)}]}
    raw = json.dumps(value, ensure_ascii=draw(st.booleans()))
    return raw.replace("key-abcd", "\\u006bey-a\\u0062cd") if draw(st.booleans()) else raw


@st.composite
def answers(draw: st.DrawFn) -> list[Planned]:
    thinking, text = (draw(TEXTS) + "." for _ in range(2))
    calls = draw(st.lists(arguments(), max_size=2))
    plan = [("thinking", thinking), ("text", text), *(("tool_call", call) for call in calls)]
    return [Planned(kind, tuple(cut(text, draw(CUTS)))) for kind, text in plan]


def replace_secrets(value: Any) -> Any:
    """A JSON value as a guard must leave it."""
    if isinstance(value, str):
        return SECRET.sub(MASK, value)
    if isinstance(value, list):
        return [replace_secrets(item) for item in value]
    if isinstance(value, dict):
        return {replace_secrets(name): replace_secrets(member) for name, member in value.items()}
    return value


@pytest.mark.parametrize("name", DIALECTS)
@settings(max_examples=25, phases=(Phase.explicit, Phase.generate))
@given(parts=answers(), chunks=CHUNKS, more=st.integers(0, 60))
def test_the_whole_text_is_replaced_and_nothing_passes(
    name: str, parts: list[Planned], chunks: list[int], more: int
) -> None:
    dialect = DIALECTS[name]
    parts = [part for part in parts if part.kind in dialect.kinds]
    guarded = guard(dialect, cut(dialect.render(make_events(parts)), chunks), LONGEST_SECRET + more)
    assert not SECRET.search(json.dumps(read_values(guarded), ensure_ascii=False)), guarded.decode()
    read = dialect.read(guarded)
    for kind in dialect.kinds:
        expected = [part.text for part in parts if part.kind == kind]
        if kind == "tool_call":
            assert [json.loads(one) for one in read[kind]] == [replace_secrets(json.loads(one)) for one in expected]
        else:
            assert read[kind] == [SECRET.sub(MASK, one) for one in expected]


@pytest.mark.parametrize("name", DIALECTS)
@settings(max_examples=10, phases=(Phase.explicit, Phase.generate))
@given(parts=answers(), chunks=CHUNKS)
def test_an_answer_without_secrets_is_complete(name: str, parts: list[Planned], chunks: list[int]) -> None:
    dialect = DIALECTS[name]
    plan = [
        Planned(part.kind, tuple(cut(part.text.replace("key-", "k").replace("\\u006bey-", "k"), [5]))) for part in parts
    ]
    plan = [part for part in plan if part.kind in dialect.kinds]
    raw = dialect.render(make_events(plan))
    assert dialect.read(guard(dialect, cut(raw, chunks))) == dialect.read(raw)
