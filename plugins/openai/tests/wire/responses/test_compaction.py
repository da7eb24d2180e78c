"""A compaction by the gateway whose model writes no complete summary."""

from __future__ import annotations

from typing import Literal

import pytest

from tornado_gate.errors import GateError
from tornado_gate.types import Finish, PartDelta, PartEnd, PartStart, StreamError, StreamEvent
from tornado_gate_openai.wire.responses import CompactionStep


def compact(text: str, reason: Literal["stop", "length", "content_filter"]) -> list[StreamEvent]:
    parts = [PartStart(index=0, kind="text"), PartDelta(index=0, data=text), PartEnd(index=0)]
    out: list[StreamEvent] = []
    CompactionStep("cmp_1").take([*parts, Finish(reason=reason)], out)
    return out


def test_the_text_of_a_complete_response_is_the_summary() -> None:
    start, end, finish = compact("Ann likes tea.", "stop")
    assert isinstance(start, PartStart)
    assert isinstance(end, PartEnd)
    assert finish == Finish(reason="stop")


@pytest.mark.parametrize(
    ("text", "reason", "status", "is_the_targets_fault"),
    [("Ann", "length", 400, False), ("Ann", "content_filter", 502, True), ("", "stop", 502, True)],
)
def test_a_limit_of_tokens_is_the_callers_to_raise_and_opens_no_circuit(
    text: str, reason: Literal["stop", "length", "content_filter"], status: int, is_the_targets_fault: bool
) -> None:
    (event,) = compact(text, reason)
    assert isinstance(event, StreamError)
    error = event.error
    assert isinstance(error, GateError)
    assert (error.status, error.retryable) == (status, is_the_targets_fault)
    assert error.param == ("max_output_tokens" if status == 400 else "")
