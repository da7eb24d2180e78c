"""Events as chunks: the server half."""

from __future__ import annotations

from typing import Any

import pytest

from plugins.openai.tests.wire.chat.streaming import chunks_of
from tornado_gate.errors import UpstreamError
from tornado_gate.types import (
    Finish,
    Image,
    Link,
    PartDelta,
    PartEnd,
    PartStart,
    ResponseStart,
    StreamError,
    StreamEvent,
    Usage,
    UsageReport,
)

EVENTS: list[StreamEvent] = [
    ResponseStart(model="upstream", id="msg_1", extra={"system_fingerprint": "fp", "container": "x"}),
    PartStart(index=0, kind="thinking"),
    PartDelta(index=0, data="hm"),
    PartEnd(index=0),
    PartStart(index=1, kind="text", choice=0),
    PartDelta(index=1, data="Hi", logprobs=({"token": "Hi"},)),
    PartDelta(index=1, data=""),
    PartEnd(index=1),
    PartStart(index=2, kind="tool_call", id="c1", name="f"),
    PartStart(index=3, kind="tool_call", id="c2", name="g", tool_kind="custom"),
    PartDelta(index=3, data="ls"),
    PartDelta(index=2, data="{}"),
    PartEnd(index=3),
    PartEnd(index=2),
    UsageReport(usage=Usage(input_tokens=1, output_tokens=2)),
    Finish(reason="tool_calls", raw="tool_use"),
    Finish(reason="stop", choice=1),
]


def test_chunks_have_the_vendors_shape() -> None:
    chunks = chunks_of(EVENTS)
    assert [value["choices"][0] for value in chunks[:-1]] == [
        {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish}
        for index, delta, logprobs, finish in [
            (0, {"role": "assistant", "content": None, "reasoning_content": "hm"}, None, None),
            (0, {"content": "Hi"}, {"content": [{"token": "Hi"}], "refusal": None}, None),
            (0, {"tool_calls": [opened(0, "c1", "function", {"name": "f", "arguments": ""})]}, None, None),
            (0, {"tool_calls": [opened(1, "c2", "custom", {"name": "g", "input": ""})]}, None, None),
            (0, {"tool_calls": [{"index": 1, "custom": {"input": "ls"}}]}, None, None),
            (0, {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}, None, None),
            (0, {}, None, "tool_calls"),
            (1, {"role": "assistant", "content": ""}, None, "stop"),
        ]
    ]
    assert all(value["usage"] is None for value in chunks[:-1])
    assert chunks[-1] == {
        "id": "chatcmpl-made",
        "object": "chat.completion.chunk",
        "created": 7,
        "model": "m",
        "system_fingerprint": "fp",
        "choices": [],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
    }


def opened(index: int, call_id: str, kind: str, inner: dict[str, str]) -> dict[str, Any]:
    return {"index": index, "id": call_id, "type": kind, kind: inner}


def test_usage_is_absent_unless_it_was_asked_for() -> None:
    chunks = chunks_of(EVENTS, include_usage=False)
    assert all("usage" not in value and value["choices"] for value in chunks)


def test_parts_without_a_word_of_their_own_are_left_out() -> None:
    image = Image(source=Link(url="https://a.example/b"))
    chunks = chunks_of(
        [
            ResponseStart(model="m"),
            PartStart(index=0, kind="thinking", redacted=True),
            PartEnd(index=0),
            PartStart(index=1, kind="image", part=image),
            PartEnd(index=1),
            Finish(reason="stop"),
        ],
        include_usage=False,
    )
    assert [value["choices"][0]["delta"] for value in chunks] == [
        {
            "role": "assistant",
            "content": None,
            "images": [{"type": "image_url", "image_url": {"url": "https://a.example/b"}}],
        },
        {},
    ]


def test_a_stream_error_is_raised_and_never_a_finish() -> None:
    with pytest.raises(UpstreamError, match="gone"):
        chunks_of([*EVENTS[:3], StreamError(error=UpstreamError("gone"))])
