"""Tool calls in chunks, whatever the upstream makes of index and id."""

from __future__ import annotations

from typing import Any

import pytest

from plugins.openai.tests.wire.chat.streaming import chunk, chunks_of, events_of, parts_of, tool_delta
from tornado_gate.types import StreamError, ToolCall


@pytest.mark.parametrize(
    ("deltas", "arguments"),
    [
        pytest.param(
            [
                tool_delta("", index=0, id="a", name="f"),
                tool_delta('{"x":', index=0),
                tool_delta("1}", index=0),
                tool_delta("", index=1, id="b", name="g"),
                tool_delta("{}", index=1),
            ],
            ['{"x":1}', "{}"],
            id="the vendor's own way",
        ),
        pytest.param(
            [
                tool_delta("", index=0, id="a", name="f"),
                tool_delta("", index=1, id="b", name="g"),
                tool_delta('{"x"', index=1),
                tool_delta('{"y"', index=0),
                tool_delta(":1}", index=1),
                tool_delta(":2}", index=0),
            ],
            ['{"y":2}', '{"x":1}'],
            id="interleaved",
        ),
        pytest.param(
            [tool_delta('{"x":1}', index=0, id="a", name="f"), tool_delta('{"x":2}', index=0, id="b", name="g")],
            ['{"x":1}', '{"x":2}'],
            id="index always 0",
        ),
        pytest.param(
            [
                tool_delta("", id="a", name="f"),
                tool_delta('{"x":1}'),
                tool_delta("", id="b", name="g"),
                tool_delta('{"x":2}'),
            ],
            ['{"x":1}', '{"x":2}'],
            id="no index",
        ),
        pytest.param(
            [
                tool_delta('{"x"', index=0, id="a", name="f"),
                tool_delta(":1}", index=0, id="a", name="f"),
                tool_delta("{", index=1, id="b", name="g"),
                tool_delta("}", index=1, id="b", name="g"),
            ],
            ['{"x":1}', "{}"],
            id="repeated id and name",
        ),
        pytest.param(
            [tool_delta('{"x":1}', index=0, id="f", name="f"), tool_delta('{"x":2}', index=1, id="f", name="f")],
            ['{"x":1}', '{"x":2}'],
            id="two calls with the same id",
        ),
        pytest.param(
            [tool_delta('{"x":1}', name="f"), tool_delta('{"x":2}', name="f")],
            ['{"x":1}', '{"x":2}'],
            id="whole calls without id or index",
        ),
        pytest.param(
            [tool_delta('{"x":1}', index=0, name="f"), tool_delta('{"x":2}', index=0, name="f")],
            ['{"x":1}', '{"x":2}'],
            id="whole calls without id, index 0",
        ),
        pytest.param(
            [
                {
                    "tool_calls": [
                        {"id": "a", "function": {"name": "f", "arguments": {"x": 1}}},
                        {"id": "b", "function": {"name": "g", "arguments": None}},
                    ]
                }
            ],
            ['{"x":1}', ""],
            id="whole calls at once, arguments as an object",
        ),
        pytest.param(
            [tool_delta('{"x":', index=0, id="a"), tool_delta("1}", index=0, name="f"), tool_delta("\n", index=0)],
            ['{"x":1}\n'],
            id="the name comes late",
        ),
        pytest.param([tool_delta("{}", index=0, id="a")], ["{}"], id="the name never comes"),
        pytest.param(
            [
                tool_delta("{}", index=0, id="a", name="f"),
                tool_delta("{}", index=1, id="b", name="g"),
                tool_delta("{}", index=0, id="a", name="f"),
            ],
            ["{}", "{}"],
            id="a whole call is repeated at the end",
        ),
    ],
)
def test_tool_calls_are_told_apart(deltas: list[dict[str, Any]], arguments: list[str]) -> None:
    calls = parts_of(*deltas)
    assert [call.arguments for call in calls] == arguments
    assert [call.name for call in calls] in (["f", "g"], ["f", "f"], ["f"], [""])
    assert len({call.id for call in calls}) == len(calls)
    assert all(call.id for call in calls)


def test_a_call_that_goes_on_after_its_end_is_an_error() -> None:
    events = events_of(
        [
            chunk(tool_delta("{}", index=0, id="a", name="f")),
            chunk(tool_delta("{}", index=1, id="b", name="g")),
            chunk(tool_delta(',"x"', index=0)),
        ]
    )
    assert isinstance(events[-1], StreamError)


def test_a_complete_call_ends_before_the_next_begins() -> None:
    events = events_of(
        [
            chunk(tool_delta("{}", index=0, id="a", name="f")),
            chunk(tool_delta("{}", index=1, id="b", name="g")),
            chunk({}, finish_reason="tool_calls"),
        ]
    )
    order = [type(event).__name__ for event in events]
    assert order == ["ResponseStart", *(["PartStart", "PartDelta", "PartEnd"] * 2), "Finish"]


def test_unknown_members_of_a_call_are_kept() -> None:
    value = {"index": 0, "id": "a", "extra_content": {"x": 1}, "function": {"name": "f", "arguments": "{}"}}
    assert parts_of({"tool_calls": [value]}) == (
        ToolCall(id="a", name="f", arguments="{}", extra={"extra_content": {"x": 1}}),
    )


def test_a_legacy_function_call_survives_both_ways() -> None:
    frames = [
        chunk({"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": ""}}),
        chunk({"function_call": {"arguments": "{}"}}),
        chunk({}, finish_reason="function_call"),
    ]
    chunks = chunks_of(events_of(frames), include_usage=False)
    assert [value["choices"][0]["delta"] for value in chunks] == [
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": ""}},
        {"function_call": {"arguments": "{}"}},
        {},
    ]
    assert chunks[-1]["choices"][0]["finish_reason"] == "function_call"
